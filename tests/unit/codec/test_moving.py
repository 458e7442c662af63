"""Definitions of other systems: what they become, against golden files, and hostile input."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.moving.draft import Imported, NoteKind
from streamsched.codec.schedules.schedule import app_from_json
from streamsched.dialects.airflow.codec.dag_file import dags_from_source
from streamsched.dialects.cdap.codec.bulk import schedules_from_json
from streamsched.dialects.crontab.codec import crontab_from_text
from streamsched.dialects.oozie.codec.coordinator import coordinator_from_xml
from streamsched.domain.errors import DecodeError, InvalidError
from streamsched.domain.names import AppRef

GOLDEN = Path(__file__).parents[2] / "golden" / "moving"
APP = AppRef("default", "moved")


def crontab(raw: bytes) -> Imported:
    return crontab_from_text(raw, APP)


def system_crontab(raw: bytes) -> Imported:
    return crontab_from_text(raw, APP, system=True, zone="Europe/Berlin")


def coordinator(raw: bytes) -> Imported:
    return coordinator_from_xml(raw, None, properties={"n": "2", "end": "2010-01-01T00:00Z"})


def dags(raw: bytes) -> Imported:
    return dags_from_source(raw, namespace="default")


READERS: dict[str, Callable[[bytes], Imported]] = {
    "crontab": crontab,
    "crontab.system": system_crontab,
    "cdap.json": schedules_from_json,
    "coordinator.xml": coordinator,
    "dag.py.txt": dags,
}


def read(name: str, raw: bytes) -> Imported | None:
    """The result; None when the input is refused."""
    try:
        return valid(READERS[name](raw))
    except DecodeError:
        return None


def valid(found: Imported) -> Imported:
    """The same; each of its apps is accepted as an app file is."""
    for app in found.apps:
        app_from_json(app)
    return found


@pytest.mark.parametrize("name", READERS)
def test_golden_files(name: str) -> None:
    """`UPDATE_GOLDEN=1` writes them again."""
    found = valid(READERS[name]((GOLDEN / name).read_bytes()))
    document = {"apps": found.apps, "notes": [[note.kind, note.path, note.text] for note in found.notes]}
    text = json.dumps(document, indent=1) + "\n"
    path = GOLDEN / f"{name}.imported"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)

    assert text == path.read_text()


@pytest.mark.parametrize("name", READERS)
@given(raw=st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_decode_error(name: str, raw: bytes) -> None:
    read(name, raw)


@given(
    name=st.sampled_from(sorted(READERS)),
    cut=st.integers(0, 3000),
    length=st.integers(0, 40),
    put=st.binary(max_size=20)
    | st.sampled_from([b"<", b"}", b"%", b'"', b"\n", b"-1", b"9" * 30, b"${coord:days(0)}"]),
)
def test_damaged_files_give_a_value_or_a_decode_error(name: str, cut: int, length: int, put: bytes) -> None:
    raw = (GOLDEN / name).read_bytes()
    at = cut % len(raw)

    read(name, raw[:at] + put + raw[at + length :])


FIELD = st.one_of(
    st.just("*"), st.integers(0, 70).map(str), st.sampled_from(["*/5", "1-3", "1,2", "mon", "x", "~", "?"])
)
COMMAND = st.text(st.characters(exclude_characters="\n\r", exclude_categories=("Cs",)), min_size=1, max_size=40)


@given(lines=st.lists(st.tuples(st.tuples(FIELD, FIELD, FIELD, FIELD, FIELD).map(" ".join), COMMAND), max_size=8))
def test_each_line_of_a_crontab_is_in_the_app_or_in_the_report(lines: list[tuple[str, str]]) -> None:
    text = "".join(f"{time} {command}\n" for time, command in lines)
    found = valid(crontab(text.encode()))
    noted = {note.path for note in found.notes if note.kind is not NoteKind.CHANGED}

    for number, line in enumerate(text.split("\n")[:-1], 1):
        assert f"line {number}" in noted, line


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("a %b%c", "printf '%s' 'b\nc\n' | { a \n}"),
        (r"date +\%F", "date +%F"),
        (r"a \\%b", "a \\%b"),
        ("a%", "printf '%s' '\n' | { a\n}"),
    ],
)
def test_percent_signs_of_a_command(command: str, expected: str) -> None:
    [app] = crontab(f"0 1 * * * {command}\n".encode()).apps
    [program] = app["programs"].values()

    assert program["command"] == expected


def trigger_of(frequency: str, start: str = "2009-01-31T23:30Z", zone: str = "UTC") -> Any:
    raw = f'<coordinator-app name="c" frequency="{frequency}" start="{start}" timezone="{zone}"/>'
    [app] = valid(coordinator(raw.encode())).apps
    return app["schedules"]["c"]["trigger"]


@pytest.mark.parametrize(
    ("frequency", "expected"),
    [
        ("60", "30 * * * *"),
        ("${coord:days(1)}", "30 23 * * *"),
        ("${coord:days(7)}", "30 23 * * 6"),
        ("${coord:months(3)}", "30 23 31 1,4,7,10 *"),
        ("${coord:endOfMonths(1)}", "0 0 1 * *"),
        ("0 10 * * *", "0 10 * * *"),
    ],
)
def test_frequencies_of_oozie_as_cron(frequency: str, expected: str) -> None:
    assert trigger_of(frequency)["cronExpression"] == expected


def test_a_frequency_of_oozie_without_a_cron_expression_is_an_interval_from_its_start() -> None:
    found = trigger_of("${coord:minutes(7)}", start="2009-01-01T00:00+0200")

    assert found == {"type": "EVERY", "interval": "7m", "start": "2008-12-31T22:00:00+00:00"}


@pytest.mark.parametrize("frequency", ["${coord:months(5)}", "0", "${x}", "${coord:days(2)", "99999999999999"])
def test_other_frequencies_are_refused_with_their_line(frequency: str) -> None:
    raw = f'\n<coordinator-app name="c" frequency="{frequency}" start="2009-01-01T00:00Z" timezone="UTC"/>'

    with pytest.raises(DecodeError) as found:
        coordinator(raw.encode())
    assert found.value.path == "line 2"


def test_entities_are_refused() -> None:
    raw = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n<coordinator-app name="&b;"/>'

    with pytest.raises(DecodeError, match="document type"):
        coordinator(raw)


@pytest.mark.parametrize("source", ["(" * 5000, "x = " + "-" * 20000 + "1", "a = b\nb = a\nwith DAG(a): pass", "\0"])
def test_hostile_source(source: str) -> None:
    found = read("dag.py.txt", source.encode())

    assert found is None or not found.apps


def test_a_crontab_of_many_lines() -> None:
    lines = 5000
    raw = "".join(f"{each % 60} {each % 24} * * * /opt/job --number={each}\n" for each in range(lines)).encode()

    [app] = crontab(raw).apps

    assert len(app["schedules"]) == lines


def test_an_unknown_zone_is_refused_or_noted() -> None:
    with pytest.raises(InvalidError, match="'Nope' is no IANA time zone"):
        crontab_from_text(b"* * * * * x", AppRef("default", "cron"), zone="Nope")

    notes = list(crontab(b"CRON_TZ=Nope\n").notes)
    assert [(note.kind, note.path) for note in notes] == [(NoteKind.REFUSED, "line 1")]


@pytest.mark.parametrize("name", ["frequency", "start"])
def test_a_property_of_a_coordinator_without_a_value_is_named(name: str) -> None:
    given = {"frequency": "60", "start": "2020-01-01T00:00Z", "end": "2030-01-01T00:00Z", name: "${missing}"}
    attributes = " ".join(f'{each}="{value}"' for each, value in given.items())
    with pytest.raises(DecodeError, match="--set missing=…"):
        coordinator(f'<coordinator-app name="x" timezone="UTC" {attributes}/>'.encode())


@pytest.mark.parametrize(("name", "raw"), [("crontab", b""), ("cdap.json", b"[]"), ("dag.py.txt", b"")])
def test_input_without_definitions_is_reported(name: str, raw: bytes) -> None:
    found = valid(READERS[name](raw))

    assert not any(app["schedules"] for app in found.apps)
    assert [note.path for note in found.notes_of(NoteKind.REFUSED)] == ["all"]
