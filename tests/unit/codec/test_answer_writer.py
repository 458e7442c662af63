"""Answers are written from the fields of records: where each stands, and what is written of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple

import pytest

from streamsched.codec.shape.about import About
from streamsched.codec.shape.by_hand import ByHand, keep_json
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.names import ScheduleRef

WEEKLY = ScheduleRef("default", "flights", "weekly")


class Mood(StrEnum):
    GOOD = "good"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    text: str
    by: Annotated[str | None, About(blank=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    id: str
    schedule: ScheduleRef | None
    pause: str
    mood: Annotated[Mood | None, About(of="last.mood")]
    named: Annotated[str | None, About(of="last.schedule")]
    notes: Annotated[Sequence[Note], About(shape=JsonShape(Note))]
    tags: Sequence[str]
    counts: Mapping[str, int]
    size: int
    late: Annotated[str, About("never")] = ""


THING = JsonShape(Thing, sometimes=("late",))


class NoteRow(NamedTuple):
    text: str
    by: str


@dataclass(frozen=True, slots=True)
class Last:
    mood: Mood
    schedule: ScheduleRef


@dataclass(frozen=True, slots=True)
class Record:
    id: ScheduleRef
    schedule: ScheduleRef | None
    pause: timedelta
    last: Last | None
    notes: tuple[NoteRow, ...]
    tags: frozenset[ScheduleRef] | tuple[str, ...]
    counts: Mapping[str, int]

    @property
    def size(self) -> int:
        return len(self.notes)


FULL = Record(WEEKLY, WEEKLY, timedelta(hours=1), Last(Mood.GOOD, WEEKLY), (NoteRow("a", ""),), ("b",), {"c": 1})


def test_fields_are_found_below_others_and_in_properties_and_names_become_texts() -> None:
    assert THING.write(FULL) == {
        "id": "default.flights.weekly",
        "schedule": "default.flights.weekly",
        "pause": "1h",
        "mood": "good",
        "named": "default.flights.weekly",
        "notes": [{"text": "a", "by": None}],
        "tags": ["b"],
        "counts": {"c": 1},
        "size": 1,
    }


def test_below_none_is_none_and_sets_are_sorted() -> None:
    other = ScheduleRef("default", "flights", "daily")
    written = THING.write(Record(WEEKLY, None, timedelta(0), None, (), frozenset((WEEKLY, other)), {}))

    assert (written["schedule"], written["mood"], written["named"]) == (None, None, None)
    assert (written["tags"], written["size"]) == (["default.flights.daily", "default.flights.weekly"], 0)


def test_own_fields_come_before_those_of_sources_and_these_in_their_order() -> None:
    parts = {"notes": [{"text": "b", "by": "c"}], "tags": (), "counts": {}, "size": 2, "late": "now"}
    written = THING.answer_of(FULL.last, FULL, **parts, schedule=None)

    assert list(written) == ["id", "schedule", "pause", "mood", "named", "notes", "tags", "counts", "size", "late"]
    assert (written["schedule"], written["size"], written["late"]) == (None, 2, "now")
    assert written["notes"] == parts["notes"]
    with pytest.raises(TypeError, match="Thing needs id"):
        THING.answer_of(FULL.last)


class Total(NamedTuple):
    name: str
    number: int
    late: str = ""

    @property
    def double(self) -> int:
        return 2 * self.number


TOTAL = JsonShape(Total, "NamedTotal", named=True, also=("double",), sometimes=("late",))


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    last: Annotated[Total | None, About(shape=TOTAL)]


def test_a_named_tuple_has_a_shape_and_its_properties_are_members_of_answers() -> None:
    assert TOTAL.write(Total("used", 3)) == {"name": "used", "number": 3, "double": 6}
    assert TOTAL.take({"name": "used", "number": 3, "double": 6}) == Total("used", 3)
    assert TOTAL.answer_schema()["required"] == ["name", "number", "double"]


def test_the_answer_of_a_named_shape_is_referred_to_by_its_name() -> None:
    totals = JsonShape(Totals)

    assert totals.answer_schema()["properties"]["last"]["anyOf"][0] == {"$ref": "#/$defs/NamedTotal"}
    assert [each.name for each in totals.answer.all] == ["Totals", "NamedTotal"]


def test_an_enum_of_a_value_becomes_its_text_and_one_of_a_record_stays() -> None:
    last = JsonShape(Last)

    assert type(last.write(Last(Mood.GOOD, WEEKLY))["mood"]) is str
    assert THING.write(FULL)["mood"] is Mood.GOOD


PARTS = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}


@dataclass(frozen=True, slots=True)
class Kept:
    ref: ScheduleRef
    definition: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    id: Annotated[str, About(of="ref")]
    definition: Mapping[str, int]
    notes: Annotated[Sequence[Note], About(shape=JsonShape(Note))] = ()
    said: str | None = ""


SHOWN = JsonShape(
    Shown, sometimes=("notes", "said"), about={"definition": About(spread=True, shape=ByHand(keep_json, dict, PARTS))}
)


def test_the_members_of_a_spread_one_are_those_of_the_object() -> None:
    kept = Kept(WEEKLY, {"size": 3})
    written = {"id": str(WEEKLY), "size": 3}
    assert SHOWN.write(kept) == written
    assert SHOWN.answer_of(kept, notes=(), said=None) == {**written, "said": None}
    assert SHOWN.take(written) == Shown(id=str(WEEKLY), definition={"size": 3})
    schema = SHOWN.answer_schema()
    assert list(schema["properties"]) == ["id", "notes", "said", "size"]
    assert schema["required"] == ["id", "size"]
    assert schema["properties"]["said"]["type"] == ["string", "null"]


def test_one_of_several_objects_is_spread_into_each() -> None:
    parts = {"anyOf": [PARTS, {**PARTS, "properties": {"width": {"type": "integer"}}, "required": ["width"]}]}
    about = {"definition": About(spread=True, shape=ByHand(keep_json, dict, parts))}
    found = JsonShape(Shown, outside=("notes", "said"), about=about).answer_schema()
    assert [each["required"] for each in found["anyOf"]] == [["size", "id"], ["width", "id"]]
