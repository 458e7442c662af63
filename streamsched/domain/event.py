"""Events: facts from outside, in an envelope with CloudEvents 1.0 names.

`Event.key` names what the event is about; every event of one key is deduplicated and routed at one home, so a
schedule's subscriptions are sets of these keys. Keys (the record keys of topic `signals`):

    partition:<ns>.<dataset>      stream:<ns>.<stream>      event:<ns>.<name>
    program:<ns>.<app>.<program>:<outcome>                  schedule:<ns>.<app>.<schedule>   (ticks)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, assert_never

from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef


class Outcome(StrEnum):
    """What a program's run reached, as triggers may ask for it."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"


class Partition(NamedTuple):
    """One partition of a dataset.

    Attributes:
        key: canonical text, Hive style and in column order: `year=2013/month=1/day=7`.
        values: column → value as text.
        bytes: size on disk, when known.
        rows: row count, when known.
    """

    key: str
    values: Mapping[str, str] = MappingProxyType({})
    bytes: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """A commit added partitions to a dataset; `count` ≥ 1 even when a foreign emitter does not name them."""

    dataset: DatasetRef
    partitions: tuple[Partition, ...]
    count: int


@dataclass(frozen=True, slots=True)
class StreamSize:
    """A stream's size was reported: its whole size (`absolute`), or by how much it grew since the last report."""

    stream: StreamRef
    bytes: int
    absolute: bool


@dataclass(frozen=True, slots=True)
class ProgramReached:
    """A run of a program reached an outcome. `ended_at` (UTC) is None while it runs."""

    program: ProgramRef
    run_id: str
    outcome: Outcome
    arguments: Mapping[str, str] = field(default_factory=dict)
    ended_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class CustomHappened:
    """Anything a user names."""

    name: EventName
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ticked:
    """The clock reached a fire time of a schedule's time leaf. Made by the timers, never accepted from outside."""

    schedule: ScheduleRef
    generation: int
    leaf: str
    due_at: datetime


Fact = PartitionsAdded | StreamSize | ProgramReached | CustomHappened | Ticked


@dataclass(frozen=True, slots=True)
class Event:
    """A fact with its envelope.

    Attributes:
        id: unique within `source`; a repeat of the pair within the dedupe horizon changes nothing.
        source: who says so (a URI reference).
        time: when it happened, UTC.
        encoded: kept by the codec once it has written the event, so that an accumulation is not written anew for each
            event that joins it; says nothing of its own.
    """

    id: str
    source: str
    time: datetime
    fact: Fact
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        return event_key(self.fact)


def event_key(fact: Fact) -> str:
    """What a fact is about: the record key that leads it to its home."""
    match fact:
        case PartitionsAdded(dataset=dataset):  # as `partition_key`, without its calls: this is most of all events
            return f"partition:{dataset.namespace}.{dataset.name}"
        case StreamSize(stream=stream):
            return stream_key(stream)
        case ProgramReached(program=program, outcome=outcome):
            return program_key(program, outcome)
        case CustomHappened(name=name):
            return custom_key(name)
        case Ticked(schedule=schedule):
            return schedule_key(schedule)
        case _:
            assert_never(fact)


def partition_key(dataset: DatasetRef) -> str:
    return f"partition:{dataset}"


def stream_key(stream: StreamRef) -> str:
    return f"stream:{stream}"


def program_key(program: ProgramRef, outcome: Outcome) -> str:
    return f"program:{program}:{outcome}"


def custom_key(name: EventName) -> str:
    return f"event:{name}"


def schedule_key(schedule: ScheduleRef) -> str:
    return f"schedule:{schedule}"
