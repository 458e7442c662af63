"""Joins per run of an ancestor, and ancestors of events, as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from streamsched.codec import event as events
from streamsched.codec.events import ancestors, native
from streamsched.codec.records import launch
from streamsched.codec.records.descent import ancestors_of_job, ancestors_of_record
from streamsched.codec.records.withheld import without_details
from streamsched.codec.triggers import trigger as triggers
from streamsched.dialects.cdap.codec import notification
from streamsched.dialects.cdap.codec import trigger as cdap_triggers
from streamsched.domain.access.announcement import permitted_events
from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.errors import DecodeError, InvalidDefinitionError
from streamsched.domain.events.ancestors import (
    MOST_ANCESTORS,
    NO_ANCESTORS,
    OTHERS,
    job_digest,
    program_digest,
    unite_ancestors,
)
from streamsched.domain.events.event import Event, Outcome, ProgramReached
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.trigger import AllOf, Per, ProgramStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
A, B, C = (ProgramRef("default", "shop", name) for name in "abc")
BOTH = ProgramStatus(B) & ProgramStatus(C)
DESCENT = NO_ANCESTORS.extend_by_job(A, "default.shop.a.1.1").extend_by_job(B, "default.shop.b.1.1", 7)


def ended(run: str = "default.shop.b.1.1.r1", **fields: Any) -> Event:
    return Event(run, "test", NOW, ProgramReached(B, run, Outcome.SUCCEEDED, **fields))


def job(*some: Event) -> ReadyJob:
    return ReadyJob(ScheduleRef("default", "shop", "d"), 1, 1, NOW, (Contribution("leaf", len(some), some),))


def test_a_join_per_run_is_written_and_read() -> None:
    join = Per(BOTH, (), full=OnFull.DROP_OLDEST, run_of=A)
    written = triggers.to_json(join)
    refusing = Per(BOTH, (), run_of=A)
    assert triggers.to_json(refusing) == {**written, "then": "refuse"}
    assert triggers.from_json(triggers.to_json(refusing)) == refusing
    assert str(refusing) == f"{join}, refusing more"
    assert written["runOf"] == {
        "programId": {"namespace": "default", "application": "shop", "program": "a", "entity": "PROGRAM"}
    }
    assert "by" not in written
    assert triggers.from_json(written) == join
    assert cdap_triggers.from_json(cdap_triggers.to_json(join)) == join
    for short in ("a", "default.shop.a", {"programId": "a"}, {"program": "a"}, written["runOf"]["programId"]):
        assert triggers.from_json({**written, "runOf": short}, app=AppRef("default", "shop")) == join


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"by": ["day"]}, "$.by"),
        ({"runOf": None}, "$.by"),
        ({"grain": "day"}, "$.by"),
        ({"runOf": 7}, "$.runOf"),
        ({"runOf": {}}, "$.runOf.program"),
        ({"runOf": {"programId": "a.b.c", "more": 1}}, "$.runOf.more"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], path: str) -> None:
    with pytest.raises((DecodeError, InvalidDefinitionError)) as found:
        triggers.from_json({**triggers.to_json(Per(BOTH, (), run_of=A)), **change})
    assert found.value.path == path


def test_an_and_says_that_it_mixes_runs_only_where_it_was_said() -> None:
    assert "mixedRuns" not in triggers.to_json(BOTH, explicit=True)
    mixed = AllOf(BOTH.triggers, mixed_runs=True)
    assert triggers.to_json(mixed)["mixedRuns"] is True
    assert triggers.from_json(triggers.to_json(mixed)) == mixed
    assert triggers.without_defaults(mixed) == triggers.without_defaults(BOTH)
    assert (mixed & ProgramStatus(A)).triggers == (mixed, ProgramStatus(A))


def test_an_end_carries_its_ancestors_in_native_json_and_not_in_cdaps() -> None:
    event = ended(ancestors=DESCENT)
    assert events.decode(events.encode(event), fallback_id="x", fallback_time=NOW) == event
    bare = ended()
    assert notification.to_json(event) == notification.to_json(bare)
    assert "ancestors" not in native.to_json(bare)["data"]


def test_no_name_of_an_ancestor_is_in_the_event() -> None:
    data = native.to_json(ended("r", ancestors=DESCENT))["data"]
    assert b"shop.a" not in native.dumps(data["ancestors"])
    assert data["ancestors"] == {
        "jobs": {
            program_digest(A): [job_digest("default.shop.a.1.1")],
            program_digest(B): [job_digest("default.shop.b.1.1")],
        },
        "reruns": {job_digest("default.shop.b.1.1"): 7},
    }


@pytest.mark.parametrize(
    "value",
    [
        7,
        {},
        {"jobs": []},
        {"jobs": {"default.shop.a": []}},
        {"jobs": {"a" * 16: ["x"]}},
        {"jobs": {"a" * 16: 7}},
        {"jobs": {"a" * 16: ["b" * 24] * (MOST_ANCESTORS + 1)}},
        {"jobs": {f"{number:016x}": [] for number in range(MOST_ANCESTORS + 1)}},
        {"jobs": {}, "reruns": {"b" * 24: "x"}},
        {"jobs": {}, "reruns": {f"{number:024x}": 1 for number in range(MOST_ANCESTORS + 1)}},
    ],
)
def test_anything_else_is_an_error_of_its_field(value: Any) -> None:
    with pytest.raises(DecodeError) as found:
        ancestors.from_json(value, "$.data.ancestors")
    assert found.value.path.startswith("$.data.ancestors")


def test_too_many_programs_leave_a_remark_that_survives() -> None:
    found = unite_ancestors(
        NO_ANCESTORS.extend_by_job(ProgramRef("default", "many", f"p{number}"), "1") for number in range(1200)
    )
    assert OTHERS in found.jobs
    assert ancestors.from_json(native.to_plain(ancestors.to_json(found)), "$") == found


def test_a_stranger_may_not_say_what_an_end_descends_from() -> None:
    caller = Caller("emitter", (Grant(role=AccessRole.EMITTER, namespace="default"),))
    (event,), refused = permitted_events(caller, [ended(ancestors=DESCENT)])
    assert (event, refused) == (ended(), [])


def test_a_job_descends_from_the_ends_that_satisfied_it() -> None:
    foreign = Event("x", "airflow", NOW, ProgramReached(C, "airflow-7", Outcome.SUCCEEDED))
    ready = job(ended(ancestors=DESCENT), foreign)
    wanted = unite_ancestors([DESCENT, NO_ANCESTORS.extend_by_job(C, "airflow-7")])
    text = ancestors_of_job(ready)
    assert text is not None
    assert ancestors.from_json(orjson.loads(text), "$") == wanted
    assert ancestors_of_record(launch.encode(ready).decode()) == text
    assert ancestors_of_record(launch.encode(job()).decode()) is ancestors_of_job(job()) is None


def test_without_details_only_the_digests_of_the_ancestors_are_left() -> None:
    for event, wanted in (
        (ended(ancestors=DESCENT), DESCENT),
        (ended(), NO_ANCESTORS.extend_by_job(B, "default.shop.b.1.1.r1")),
    ):
        left = without_details(launch.encode(job(event)).decode(), {B})
        (found,) = launch.decode(left.encode()).contributions[0].events
        assert isinstance(found.fact, ProgramReached)
        assert (found.fact.run_id, found.fact.ancestors) == ("withheld", wanted)
