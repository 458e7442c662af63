"""What is known of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.time.grain import Grain
from streamsched.wire.expectations import ExpectationState
from streamsched.wire.schedules import SCHEDULE, STATE

_PERIODS: Final = About("2026-03-29T23", maxItems=100)


class DatasetState(StrEnum):
    """Whether what was to come has come."""

    #: Nothing that the caller may view says what belongs to it.
    NO_EXPECTATION = "no expectation"
    #: An open key of a roll-up misses a period, or an expectation is missing.
    INCOMPLETE = "incomplete"
    AS_EXPECTED = "as expected"
    #: There is more than was read.
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedDataset:
    """A dataset for which schedules wait."""

    id: Annotated[str, About("default.flights")]
    schedules: Annotated[int, About(2, "Schedules that wait for it and that the caller may view.")]
    other_schedules: Annotated[int, About(0, "Schedules of other namespaces that wait for it.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedPartition:
    """The newest commit of a partition."""

    partition: Annotated[str, About("day=2026-03-29/hour=05", of="key")]
    at: datetime
    event: Annotated[str, About("clicks-05", of="event.id")]
    source: Annotated[str, About("etl", of="event.source")]
    rows: Annotated[int | None, About(100)]
    bytes: Annotated[int | None, About(100)]
    late: Annotated[bool, About(False)]
    rewritten: Annotated[int, About(0, "How often it was committed before, in the records that were searched.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """How many of the events a source sent."""

    source: Annotated[str, About("etl")]
    events: Annotated[int, About(24)]


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingSchedule:
    """A schedule that waits for a dataset."""

    schedule: Annotated[str, About(SCHEDULE.example, of="record.definition.ref")]
    state: Annotated[str, About(schema=STATE.schema, of="state")]
    open_keys: Annotated[int, About(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpKeyState:
    """An open key of a roll-up. One of which not all events are at hand has counts, and no names of missing periods."""

    key: Annotated[str, About("2026-03-29")]
    complete: Annotated[bool, About(False, of="whole")]
    expected: Annotated[int, About(23, "Periods, or values of a known set, that belong to the key.")]
    present: Annotated[int, About(22)]
    needed: Annotated[int, About(23, "Those that suffice.")]
    missing: Annotated[str | None, About("2026-03-29T23", "What is missing as text.", of="what")]
    missing_count: int
    missing_periods: Annotated[Sequence[str], _PERIODS]
    late: Annotated[Sequence[str], _PERIODS]
    late_count: Annotated[int, About(0)]
    rewritten: Annotated[Sequence[str], _PERIODS]
    rewritten_count: Annotated[int, About(0)]


KEY: Final = JsonShape(RollUpKeyState)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollUpState:
    """A leaf that waits for the periods of a dataset."""

    schedule: Annotated[str, SCHEDULE]
    of: Annotated[str, About("1 new partition of default.clicks", of="text")]
    grain: Annotated[Grain | None, About(of="per.grain")]
    rolled_up_to: Annotated[Grain | None, About(of="per.rolled_up_to")]
    each: Annotated[
        str | None,
        About("region", "The column of a known set, whose values belong to each key.", of="per.each.column"),
    ]
    zone: Annotated[str | None, About(of="per.zone", blank=True)]
    keys: Annotated[Sequence[RollUpKeyState], About(shape=KEY, maxItems=10)]
    more_keys: Annotated[int, About(0, "Other open keys of the schedule.", of="more")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetExpectation(ExpectationState):
    """An expectation about a dataset. `missing_since`: since when something is missing."""

    missing_since: datetime | None


ROLL_UP: Final = JsonShape(RollUpState)
EXPECTATION: Final = JsonShape(DatasetExpectation)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetAnswer:
    """A dataset."""

    id: Annotated[str, About("default.clicks", of="ref")]
    completeness: Annotated[DatasetState, About(of="state")]
    partitions: Annotated[Sequence[CommittedPartition], About(shape=JsonShape(CommittedPartition), maxItems=1000)]
    more_partitions: Annotated[int, About(0)]
    sources: Annotated[Sequence[EventSource], About(shape=JsonShape(EventSource), maxItems=5)]
    searched: Annotated[int, About(2000, "Records of the log that were searched.")]
    searched_all: Annotated[bool, About(False, "The log has no older ones.", of="whole")]
    schedules: Annotated[Sequence[WaitingSchedule], About(shape=JsonShape(WaitingSchedule), maxItems=20)]
    more_schedules: Annotated[int, About(0)]
    other_schedules: Annotated[int, About(0, "Schedules of namespaces that the caller may not view.")]
    roll_ups: Annotated[Sequence[RollUpState], About(shape=ROLL_UP)]
    expectations: Annotated[Sequence[DatasetExpectation], About(shape=EXPECTATION, maxItems=20)]
    more_expectations: Annotated[int, About(0)]


DATASET: Final = JsonShape(DatasetAnswer, "Dataset")
AWAITED: Final = JsonShape(AwaitedDataset)
