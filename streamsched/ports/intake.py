"""Where records of the log become rows, exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from streamsched.domain.names import ScheduleRef

Row = TypeVar("Row")


class ReadyJobRow(NamedTuple):
    """A ready job from the log; `ready` is the record's value, unchanged (JSON text)."""

    job: str
    schedule: str
    generation: int
    sequence: int
    satisfied_at: datetime
    ready: str


@dataclass(frozen=True, slots=True)
class IntakeBatch(Generic[Row]):
    """The rows of one partition from position `start` up to, not including, `next`, in log order."""

    partition: int
    start: int
    next: int
    rows: Sequence[Row]


@dataclass(frozen=True, slots=True)
class IntakeResult:
    """The result of a take: partitions whose batch was stored, and how many rows were new and obsolete."""

    partitions: frozenset[int]
    stored: int
    obsolete: int


class IntakeStore(Protocol[Row]):
    """A table with the positions up to which the log is stored in it.

    An existing job is left unchanged; a job whose schedule is unknown, deleted, disabled or of another generation is
    stored as OBSOLETE, with the reason. For wake-ups see `ports.timers.WakeUpRequest`.
    """

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        """The next position to read of each partition of the topic; 0 for a new one.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def take(self, topic: str, batches: Sequence[IntakeBatch[Row]], *, now: datetime) -> IntakeResult:
        """Stores the rows of each batch together with its new position, in one transaction.

        A batch is stored only when the stored position equals `start` and is not locked; the others change nothing and
        are missing in `IntakeResult.partitions`.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of one schedule: `explanation` is `domain.fold.explain` as JSON; `at` (UTC) the log time of its
    state.
    """

    schedule: ScheduleRef
    generation: int
    sequence: int
    explanation: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenKey:
    """The accumulation of one key of a correlated schedule; `state` as `codec.records.state` writes it, `at` (UTC) its
    log time.
    """

    schedule: ScheduleRef
    key: str
    generation: int
    state: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class HaltedSchedule:
    """A schedule that is in error; `halt` as `codec.records.halt` writes it, `at` (UTC) its log time."""

    schedule: ScheduleRef
    halt: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class ProgressBatch:
    """The changes of one partition from position `start` up to, not including, `next`: the newest state of each
    schedule and open key, the removed schedules and keys, and the schedules that entered or left the error state.
    """

    partition: int
    start: int
    next: int
    progress: Sequence[Progress]
    gone: Sequence[ScheduleRef]
    keys: Sequence[OpenKey] = ()
    closed: Sequence[tuple[ScheduleRef, str]] = ()
    halted: Sequence[HaltedSchedule] = ()
    healed: Sequence[ScheduleRef] = ()

    @property
    def size(self) -> int:
        """The number of rows."""
        rows = (self.progress, self.gone, self.keys, self.closed, self.halted, self.healed)
        return sum(map(len, rows))


class ProgressStore(Protocol):
    """The read model of accumulations ("3 of 4"), copied from the triggers changelog, with its positions."""

    async def positions(self, topic: str) -> Mapping[int, int]:
        """The next position to read of each partition; a partition never read is missing.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def save(self, topic: str, copied: ProgressBatch) -> bool:
        """Stores the changes of a partition together with its new position, in one transaction. False, and nothing
        stored, when the stored position is not `start`: another process copies it too.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

    async def forget_positions(self, topic: str) -> None:
        """Deletes the positions: the next copy starts at 0; the copied rows stay until then. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
