"""What a run is given of the program whose end started it, and where that may be put."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec import event as event_codec
from streamsched.domain.errors import ConfigurationError, DecodeError
from streamsched.domain.events.event import LOG_TAIL, Event, Outcome, ProgramReached
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.run import RunState, status_event
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.schedule import BashJob, HttpJob, Program, Schedule
from streamsched.domain.schedules.template import filled_json, is_json, replace_unprintable
from streamsched.domain.triggers.trigger import ProgramStatus
from streamsched.launcher.request import request
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.spark.files import RunFiles, log_tail, read_note, write_note

NOW = datetime(2013, 1, 8, tzinfo=UTC)
LOAD = ProgramRef("default", "etl", "load")
WEBHOOK = Program(ProgramRef("default", "etl", "webhook"), BashJob("true"))
ALARM = Schedule(
    ScheduleRef("default", "etl", "alarm"), WEBHOOK.ref, ProgramStatus(LOAD, frozenset({Outcome.FAILED}), 1)
)
#: Any text, with half characters, controls and what is syntax in URLs, JSON, forms and headers.
HOSTILE = st.text(
    st.one_of(st.characters(exclude_categories=()), st.sampled_from("\"\\{}%&=+\r\n\t\0\x1b\ud800'<>")), max_size=300
)


def reached(run: str, outcome: Outcome, *, minutes: int = 0, error: str | None = None, tail: str = "") -> Event:
    fact = ProgramReached(LOAD, run, outcome, {}, NOW, error, tail)
    return Event(run, "s", NOW + timedelta(minutes=minutes), fact)


def given_by(*events: Event) -> dict[str, str]:
    ready = ReadyJob(ALARM.ref, 1, 1, NOW, (Contribution("a", len(events), events),))
    found = arguments(WEBHOOK, ALARM, ready)
    return {name.removeprefix("trigger."): value for name, value in found.items()}


def asked(job: HttpJob, **arguments: str) -> dict[str, str | bytes]:
    """The request a program makes with these arguments."""
    made = request(Assignment("r", 1, Program(WEBHOOK.ref, job), arguments), job)
    raw = dict(made.headers.raw)
    return {
        "query": made.url.query.decode(),
        "body": made.content,
        "type": raw.get(b"Content-Type", b"").decode(),
        "title": raw.get(b"title", b"").decode(),
    }


def test_a_failure_gives_its_run_its_error_and_its_log() -> None:
    found = given_by(reached("load.r1", Outcome.FAILED, error="exit code 1: no", tail="a\nno"))

    assert {name: found[name] for name in ("program", "run", "outcome", "error", "log_tail")} == {
        "program": "default.etl.load",
        "run": "load.r1",
        "outcome": "failed",
        "error": "exit code 1: no",
        "log_tail": "a\nno",
    }


def test_of_several_runs_the_last_failure_counts() -> None:
    events = (
        reached("1", Outcome.FAILED, minutes=1),
        reached("2", Outcome.KILLED, minutes=3),
        reached("3", Outcome.FAILED, minutes=2),
        reached("4", Outcome.SUCCEEDED, minutes=4),
    )

    assert given_by(*events)["run"] == "2"


def test_a_success_has_no_error_and_no_log() -> None:
    found = given_by(reached("1", Outcome.SUCCEEDED), reached("2", Outcome.SUCCEEDED, minutes=1))

    assert (found["run"], found["error"], found["log_tail"]) == ("2", "", "")


def test_a_job_that_no_program_started_has_none_of_it() -> None:
    assert not {"program", "run", "outcome", "error", "log_tail"} & set(given_by())


def test_what_an_emitter_from_outside_says_is_cut() -> None:
    found = given_by(reached("r" * 10**6, Outcome.FAILED, error="e" * 10**6, tail="x" * 10**6 + "end"))

    assert (len(found["run"]), len(found["error"]), len(found["log_tail"])) == (500, 500, LOG_TAIL)
    assert found["log_tail"].endswith("end")


@given(HOSTILE, HOSTILE)
def test_an_argument_has_nothing_that_a_store_or_an_environment_refuses(error: str, tail: str) -> None:
    found = given_by(reached("1", Outcome.FAILED, error=error, tail=tail))

    for value in found.values():
        value.encode()
        assert not ({chr(n) for n in range(32)} - {"\n", "\t"}) & set(value)


@given(HOSTILE.map(replace_unprintable))
def test_a_value_stays_one_value_wherever_it_is_put(value: str) -> None:
    job = HttpJob("http://h/p?x={v}&y=1", headers={"Title": "{v}"}, body='{"text": "a {v} b", "more": ["{v}"]}')
    made = asked(job, v=value)

    assert parse_qs(str(made["query"]), keep_blank_values=True) == {"x": [value], "y": ["1"]}
    assert json.loads(made["body"]) == {"text": f"a {value} b", "more": [value]}
    assert made["type"] == "application/json"
    assert "\n" not in str(made["title"])
    form = HttpJob("http://h/", headers={"content-type": "application/x-www-form-urlencoded"}, body="x={v}&y=1")
    body = bytes(asked(form, v=value)["body"]).decode()  # type: ignore[arg-type]
    assert parse_qs(body, keep_blank_values=True) == {"x": [value], "y": ["1"]}


def test_a_placeholder_outside_a_json_string_is_put_in_as_it_is() -> None:
    assert asked(HttpJob("http://h/", body='{"n": {n}, "all": {all}}'), n="7", all='["x"]')["body"] == (
        b'{"n": 7, "all": ["x"]}'
    )


@pytest.mark.parametrize("body", ["{v}", "it said: {v}", '[ops] "{v}"', "v={v}"])
def test_a_body_that_is_no_json_is_filled_as_before(body: str) -> None:
    made = asked(HttpJob("http://h/", body=body), v='a "b"\nc')

    assert made["body"] == body.replace("{v}", 'a "b"\nc').encode()
    assert made["type"] == ""


def test_a_body_whose_content_type_is_json_is_json() -> None:
    job = HttpJob("http://h/", headers={"content-type": "application/vnd.x+json"}, body='"{v}"')

    assert asked(job, v='"')["body"] == b'"\\""'


def test_a_missing_argument_is_named_in_json_too() -> None:
    with pytest.raises(ConfigurationError, match=r"'trigger\.error'"):
        filled_json('{"a": "{trigger.error}"}', {})


@pytest.mark.parametrize(
    ("text", "json"), [('{"a": "{x}"}', True), ("[{x}]", True), ("{x}", False), ("7", False), ("{", False), ("", False)]
)
def test_json_is_distinguished_from_text(text: str, json: bool) -> None:
    assert is_json(text) is json


def test_the_end_of_a_log_travels_with_the_event() -> None:
    event = status_event("r", LOAD, RunState.FAILED, at=NOW, arguments={}, error="no", log_tail="a\nb")
    assert event is not None

    assert event_codec.decode(event_codec.encode(event), fallback_id="", fallback_time=NOW) == event


def test_an_event_without_a_log_is_written_as_releases_before_wrote_it() -> None:
    event = status_event("r", LOAD, RunState.FAILED, at=NOW, arguments={}, error="no")
    assert event is not None

    assert b"log_tail" not in event_codec.encode(event)
    assert event_codec.decode(event_codec.encode(event), fallback_id="", fallback_time=NOW) == event


def test_a_log_that_is_no_text_is_refused_with_its_path() -> None:
    event = status_event("r", LOAD, RunState.FAILED, at=NOW, arguments={}, log_tail="a")
    assert event is not None
    raw = event_codec.encode(event).replace(b'"log_tail":"a"', b'"log_tail":7')

    with pytest.raises(DecodeError, match=r"\$\.data\.log_tail"):
        event_codec.decode(raw, fallback_id="", fallback_time=NOW)


@given(HOSTILE)
def test_an_end_says_nothing_that_cannot_be_stored(tail: str) -> None:
    ending = RunEnd(RunState.FAILED, tail, NOW, 1, tail * 50)

    assert len(ending.log_tail) <= LOG_TAIL
    orjson.dumps([ending.reason, ending.log_tail])


@pytest.mark.parametrize(
    ("log", "tail"),
    [
        (b"", ""),
        (b"one\r\ntwo \n\n", "one\ntwo"),
        (b"".join(b"%d\n" % n for n in range(100)), "\n".join(str(n) for n in range(80, 100))),
        (b"x" * (1 << 20), "x" * LOG_TAIL),
        (b"\n" * (1 << 20), ""),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_the_end_of_a_log_is_its_last_lines(tmp_path: Path, log: bytes, tail: str) -> None:
    (tmp_path / "log").write_bytes(log)

    assert log_tail(tmp_path / "log") == tail
    assert log_tail(tmp_path / "none") == ""


def test_a_note_has_the_end_of_the_log(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "r")
    files.make_folders()
    ending = RunEnd(RunState.FAILED, "no", NOW, 1, "a\nb")
    write_note(files, ending)
    assert read_note(files) == ending
