"""Shapes: reading with errors, writing and schemas of one dataclass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.description.examples import example_of
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.errors import DecodeError, InvalidDefinitionError, InvalidError
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.programs.secret import Secret


class Colour(StrEnum):
    RED = "red"
    DARK_BLUE = "dark_blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    size: Annotated[int, About(3, least=1, most=9)]
    note_text: str = ""

    def __post_init__(self) -> None:
        if self.note_text == "bad":
            raise InvalidDefinitionError("$.note_text", "must not be bad")


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    place: str
    name: str
    limit: Annotated[int | None, About(4, least=0)]
    colour: Colour = Colour.RED
    wait: timedelta = timedelta(minutes=1)
    since: datetime | None = None
    schedules: frozenset[ScheduleRef] = frozenset()
    program: ProgramRef | None = None
    secret: Secret | None = None
    ratio: float | None = None
    is_on: Annotated[bool, About(False, name="on")] = True
    parts: tuple[Part, ...] = ()
    arguments: Annotated[Mapping[str, str], About("2026-03-01", key="day")] | None = None
    changes: Mapping[str, int | None] | None = None
    extra: Any = None


WHOLE = JsonShape(Whole, outside=("place",), about={"parts": About(shape=JsonShape(Part))})
LEAST = {"name": "a", "limit": 1}
SENT = jsonschema.Draft202012Validator(WHOLE.body_schema())
ANSWERED = jsonschema.Draft202012Validator(WHOLE.answer_schema())


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "$: must be an object but is a list"),
        ({}, "$.name: is missing"),
        ({"name": None, "limit": 1}, "$.name: is missing"),
        ({"name": 5, "limit": 1}, "$.name: must be a text but is a number"),
        ({"name": "a"}, "$.limit: is missing"),
        ({**LEAST, "limit": "1"}, "$.limit: must be a whole number but is '1'"),
        ({**LEAST, "limit": True}, "$.limit: must be a whole number but is True"),
        ({**LEAST, "limit": -1}, "$.limit: must be at least 0 but is -1"),
        ({**LEAST, "colour": "green"}, "$.colour: must be one of red, dark_blue but is 'green'"),
        ({**LEAST, "wait": "soon"}, "$.wait: 'soon' is no duration; write numbers with units, as in 90s, 15m, 2h30m"),
        ({**LEAST, "wait": 5}, "$.wait: must be a text but is a number"),
        ({**LEAST, "since": "2026-03-01T06:00"}, "$.since: must name its offset from UTC, as in 2026-03-01T06:00Z"),
        ({**LEAST, "schedules": "a.b.c"}, "$.schedules: must be a list but is a text"),
        ({**LEAST, "schedules": ["a.b.c", 3]}, "$.schedules[1]: must be a text but is a number"),
        ({**LEAST, "program": "x"}, "$.program: 'x' is not of the form namespace.app.name"),
        ({**LEAST, "secret": "env:A"}, "$.secret: must be an object but is a text"),
        ({**LEAST, "secret": {}}, "$.secret.secret: is missing"),
        ({**LEAST, "secret": {"secret": "env:A", "b": 1}}, "$.secret.b: unknown field (known: secret)"),
        ({**LEAST, "on": 1}, "$.on: must be true or false but is 1"),
        ({**LEAST, "ratio": "1"}, "$.ratio: must be a number but is '1'"),
        ({**LEAST, "parts": [{"size": 1}, {"size": 10}]}, "$.parts[1].size: must be from 1 to 9 but is 10"),
        ({**LEAST, "parts": [{"size": 1, "noteText": "bad"}]}, "$.parts[0].noteText: must not be bad"),
        ({**LEAST, "parts": [{"size": 1, "b": 1}]}, "$.parts[0].b: unknown field (known: noteText, size)"),
        ({**LEAST, "arguments": {"the day": 1}}, "$.arguments['the day']: must be a text but is a number"),
        ({**LEAST, "arguments": {"a": None}}, "$.arguments.a: must be a text but is null"),
        ({**LEAST, "changes": {"a": None, "b": "1"}}, "$.changes.b: must be a whole number but is '1'"),
        (
            {**LEAST, "is_on": True},
            "$.is_on: unknown field (known: arguments, changes, colour, extra, limit, name, on, parts",
        ),
        ({**LEAST, "place": "x"}, "$.place: unknown field (known: arguments"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(given: Any, problem: str) -> None:
    with pytest.raises(InvalidError) as refusal:
        WHOLE.read(given, place="here")
    assert str(refusal.value).startswith(problem)


def test_null_is_as_absent_but_of_a_required_member() -> None:
    nulls = {"colour": None, "wait": None, "since": None, "schedules": None, "on": None, "parts": None}
    assert WHOLE.read({**LEAST, **nulls}, place="x") == WHOLE.read(LEAST, place="x")
    assert WHOLE.read({"name": "a", "limit": None}, place="x").limit is None


def test_a_choice_is_read_in_any_case() -> None:
    assert WHOLE.read({**LEAST, "colour": "Dark_Blue"}, place="x").colour is Colour.DARK_BLUE


_TEXTS = st.text(st.characters(exclude_characters="\0"), max_size=20)
_NAMES = st.sampled_from(["a", "b_c", "D-e"])
_WHOLES = st.builds(
    Whole,
    place=st.just("here"),
    name=_TEXTS,
    limit=st.none() | st.integers(0, 2**63 - 1),
    colour=st.sampled_from(Colour),
    wait=st.timedeltas(timedelta(0), timedelta(days=999)),
    since=st.none() | st.datetimes(timezones=st.just(UTC)),
    schedules=st.frozensets(st.builds(ScheduleRef, st.just("a"), _NAMES, _NAMES)),
    program=st.none() | st.builds(ProgramRef, st.just("a"), _NAMES, _NAMES),
    secret=st.none() | st.just(Secret.parse("env:HOOK_KEY")),
    ratio=st.none() | st.floats(0, 1),
    is_on=st.booleans(),
    parts=st.lists(st.builds(Part, size=st.integers(1, 9), note_text=st.just("x")), max_size=3).map(tuple),
    arguments=st.none() | st.dictionaries(_TEXTS, _TEXTS, max_size=3),
    changes=st.none() | st.dictionaries(_TEXTS, st.none() | st.integers(0, 9), max_size=3),
    extra=st.none() | st.integers(),
)


@given(_WHOLES)
def test_what_was_written_is_read_as_it_was(whole: Whole) -> None:
    written = WHOLE.write(whole)
    stored = {**written, "since": whole.since and whole.since.isoformat()}
    assert WHOLE.read(stored, place="here") == whole
    ANSWERED.validate(stored)
    SENT.validate(stored)


def test_the_example_of_a_schema_is_read() -> None:
    schema = WHOLE.body_schema()
    everything = {name: example_of(each, {}) for name, each in schema["properties"].items()}
    assert WHOLE.read(everything, place="here").parts == (Part(size=3),)
    assert example_of(schema, {}) == {"name": "a text", "limit": 4}
    assert WHOLE.answer_schema()["required"] == list(schema["properties"])


def test_an_answer_of_a_later_release_is_taken() -> None:
    answered = {**WHOLE.write(Whole(place="", name="a", limit=1)), "colour": "mauve", "later": 1}
    shape = JsonShape(Whole, about={"parts": About(shape=JsonShape(Part)), "place": About("here")})
    taken = shape.take({**answered, "place": "x", "parts": [{"size": 9, "later": 2}]})
    assert taken.colour == "mauve"
    assert taken.parts == (Part(size=9),)
    with pytest.raises(DecodeError, match=r"\$\.place: is missing"):
        shape.take(answered)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    name: str
    wait: str
    schedules: Sequence[str]
    secret_text: str | None = None


def test_an_answer_is_made_of_values_that_have_its_fields() -> None:
    refs = frozenset({ScheduleRef("a", "b", "d"), ScheduleRef("a", "b", "c")})
    shape = JsonShape(Answered, sometimes=("secretText",))
    whole = Whole(place="", name="own", limit=1, schedules=refs)
    assert shape.answer_of(whole, name="other") == {"name": "other", "wait": "1m", "schedules": ["a.b.c", "a.b.d"]}
    assert shape.answer_of(whole, secret_text="x")["secretText"] == "x"
    assert shape.answer_schema()["required"] == ["name", "wait", "schedules"]
    assert shape.answer_schema()["properties"]["secretText"]["type"] == "string"
    with pytest.raises(TypeError):
        shape.answer_of()
