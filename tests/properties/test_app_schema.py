"""The schema of app files beside the reader of apps, both ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.schedules import constraint as constraint_codec
from streamsched.codec.schedules.expectation import expectation_from_json
from streamsched.codec.schedules.recipient import recipient_from_json
from streamsched.codec.schedules.schedule import app_to_json, program_from_json, submitted_schedule_from_json
from streamsched.codec.schema.apps import DEFINITIONS, app_file_schema
from streamsched.codec.triggers import calendar as calendars
from streamsched.codec.triggers import trigger as trigger_codec
from streamsched.define.yaml import read_yaml
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.process_job import BashJob
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.testing.strategies import triggers
from tests.support.schema_strategies import altered, documents

FILES = sorted((Path(__file__).parents[2] / "examples").rglob("app.yaml"))
FILE = jsonschema.Draft202012Validator(app_file_schema(), format_checker=jsonschema.FormatChecker())
#: Reasons of the reader that a schema can know.
STRUCTURE = (
    "unknown field",
    "is missing",
    "must be an object",
    "must be a text but",
    "must be a list",
    "must be true or false",
    "must be a whole number",
)
APP = AppRef("default", "flights")
#: The reader of each part of an app, by the name of its schema.
READERS: dict[str, Callable[[Any], object]] = {
    "Calendar": calendars.from_json,
    "Trigger": partial(trigger_codec.from_json, app=APP),
    "Constraint": constraint_codec.from_json,
    "Program": partial(program_from_json, app=APP),
    "Schedule": partial(submitted_schedule_from_json, app=APP),
    "Expectation": partial(expectation_from_json, app=APP),
    "Recipient": recipient_from_json,
}
#: What a schedule of another app says of itself is refused by the reader alone.
OWNED = ("namespace", "application")


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = {"$ref": f"#/$defs/{name}", "$defs": dict(DEFINITIONS)}
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


VALIDATORS = {name: validator(name) for name in READERS}
PARTS = st.sampled_from(sorted(READERS)).flatmap(
    lambda name: st.tuples(st.just(name), documents(DEFINITIONS[name], DEFINITIONS).map(plain))
)


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """The document in the app of the reader, with inline calendars."""
    return {
        name: value
        for name, value in document.items()
        if name not in OWNED and not (name == "calendar" and isinstance(value, str))
    }


def refusal(name: str, document: Any) -> InvalidError | None:
    try:
        READERS[name](document)
    except InvalidError as exc:
        return exc
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_the_schema_takes_the_examples(path: Path) -> None:
    FILE.validate(read_yaml(path.read_bytes()))


@given(PARTS)
def test_what_the_schema_takes_is_refused_by_the_reader_for_its_meaning_only(part: tuple[str, Any]) -> None:
    name, document = part
    VALIDATORS[name].validate(document)
    found = refusal(name, document)
    if found is not None and "names '" not in found.reason:  # a calendar by its name, in nested triggers
        assert not any(words in found.reason for words in STRUCTURE), (found, document)


@given(st.data())
def test_what_the_schema_refuses_is_refused_by_the_reader(data: st.DataObject) -> None:
    name, document = data.draw(PARTS)
    document = data.draw(altered(document))
    if refusal(name, document) is None:
        VALIDATORS[name].validate(document)


@given(triggers(), st.booleans())
def test_the_schema_takes_what_the_writer_writes(trigger: Any, enabled: bool) -> None:
    program = Program(ProgramRef("default", "flights", "join"), BashJob("true"))
    ref = ScheduleRef("default", "flights", "weekly")
    try:
        schedule = Schedule(ref, program.ref, trigger)
    except InvalidError:
        return
    names = frozenset({ref.name} if enabled else ())
    FILE.validate(orjson.loads(orjson.dumps(app_to_json(AppDefinition(APP, (program,), (schedule,), names)))))


@pytest.mark.parametrize("seeded", ["Retry", "Deadline"])
def test_a_schema_without_a_member_is_found(seeded: str) -> None:
    """The properties above can fail: a member that only the reader knows is refused by the schema."""
    document = {"Retry": {"attempts": 3, "on": ["lost"]}, "Deadline": {"type": "start-by", "within": "1h"}}[seeded]
    known = DEFINITIONS[seeded]
    broken = {**known, "properties": {"x": {}}}
    jsonschema.Draft202012Validator(known).validate(document)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(broken).validate(document)
