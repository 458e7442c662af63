"""Events: external facts in an envelope with CloudEvents 1.0 names.

All events of one `Event.key` are deduplicated and routed at one home; a schedule's subscriptions are sets of these
keys. Keys (the record keys of topic `signals`):

    partition:<ns>.<dataset>      stream:<ns>.<stream>      event:<ns>.<name>
    program:<ns>.<app>.<program>:<outcome>                  schedule:<ns>.<app>.<schedule>   (ticks)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.events.ancestors import NO_ANCESTORS, Ancestors
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef

#: Most characters of a log in the event of a run's end; a program started by that event receives them.
LOG_TAIL: Final = 2000


class Outcome(StrEnum):
    """The outcomes of a program's run that triggers can wait for."""

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
    """A commit added partitions to a dataset. `count` is at least 1; it can exceed the number of named partitions.
    `run`: the run that committed, as its writer says; "" where nothing is said. `statistics_follow`: it states no bytes
    and rows, and a repeat of the event may bring them (ADR 24).
    """

    dataset: DatasetRef
    partitions: tuple[Partition, ...]
    count: int
    run: str = ""
    statistics_follow: bool = False

    @property
    def has_statistics(self) -> bool:
        """Whether the bytes or the rows of a partition are stated."""
        return any(partition.bytes is not None or partition.rows is not None for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class StreamSize:
    """A stream's size was reported: its whole size (`absolute`), or by how much it grew since the last report."""

    stream: StreamRef
    bytes: int
    absolute: bool


@dataclass(frozen=True, slots=True)
class ProgramReached:
    """A run of a program reached an outcome. `ended_at` (UTC) is None while it runs. `log_tail` are the last lines of
    the log of a run that failed or was killed, at most `LOG_TAIL` characters; "" where there is no log. `ancestors`
    include the job of the run; only an event of another emitter, or of an older release, has none.
    """

    program: ProgramRef
    run_id: str
    outcome: Outcome
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    ended_at: datetime | None = None
    error: str | None = None
    log_tail: str = ""
    ancestors: Ancestors = NO_ANCESTORS

    @property
    def known_ancestors(self) -> Ancestors:
        """The ancestors; without any, its run is the only one."""
        return self.ancestors or NO_ANCESTORS.extend_by_job(self.program, self.run_id)


@dataclass(frozen=True, slots=True)
class CustomHappened:
    """A custom event of a user's name."""

    name: EventName
    attributes: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Ticked:
    """A schedule's time leaf reached a fire time. Created by the timers only, not accepted from outside.

    Attributes:
        after: of a `SinceLastRun`: generation and sequence of the schedule's latest job that was known then, (0, 0)
            without one. A later job makes the tick void.
        missed: the due times of earlier ticks for which it stands too, ascending: they were missed, and one job
            has all of them.
    """

    schedule: ScheduleRef
    generation: int
    leaf: str
    due_at: datetime
    after: tuple[int, int] | None = None
    missed: tuple[datetime, ...] = ()

    @property
    def times(self) -> tuple[datetime, ...]:
        """The due times of all ticks for which it stands, ascending."""
        return (*self.missed, self.due_at)


Fact = PartitionsAdded | StreamSize | ProgramReached | CustomHappened | Ticked


@dataclass(frozen=True, slots=True)
class Event:
    """A fact with its envelope.

    Attributes:
        id: unique within `source`; a repeat of the pair within the dedupe horizon changes nothing.
        source: the emitter (a URI reference).
        time: when it happened, UTC.
        traceparent: its place in a distributed trace, canonical (`domain.events.trace_context`); None: it has none.
        encoded: the codec's cache of the encoded event, so that an accumulation is not encoded again with each event.
    """

    id: str
    source: str
    time: datetime
    fact: Fact
    traceparent: str | None = None
    encoded: bytes | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def key(self) -> str:
        """What the event is about, such as `partition:default.flights`: schedules subscribe to it."""
        return event_key(self.fact)


def namespace_of(fact: Fact) -> str:
    """The namespace that a fact is about."""
    match fact:
        case PartitionsAdded(dataset=ref) | StreamSize(stream=ref) | CustomHappened(name=ref):
            return ref.namespace
        case ProgramReached(program=program):
            return program.namespace
        case Ticked(schedule=schedule):
            return schedule.namespace
        case _:
            assert_never(fact)


def event_key(fact: Fact) -> str:
    """The event key of a fact: the record key that routes it to its home."""
    match fact:
        case PartitionsAdded(dataset=dataset):  # `partition_key` inlined: most events are of this kind
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
    """The event key of commits to a dataset, whatever the partitions."""
    return f"partition:{dataset}"


def stream_key(stream: StreamRef) -> str:
    """The event key of the sizes of a stream."""
    return f"stream:{stream}"


def program_key(program: ProgramRef, outcome: Outcome) -> str:
    """The event key of runs of a program that reach an outcome; each outcome has one of its own."""
    return f"program:{program}:{outcome}"


def custom_key(name: EventName) -> str:
    """The event key of a custom event."""
    return f"event:{name}"


def schedule_key(schedule: ScheduleRef, affinity: int | None = None) -> str:
    """The record key of a schedule, with its affinity if it has one (`domain.signals.home`); without, the event key of
    all its ticks, whatever their leaf.
    """
    return f"schedule:{schedule}" if affinity is None else f"schedule:{schedule}@{affinity:08x}"
