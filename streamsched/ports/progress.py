"""The read model of accumulations ("3 of 4"), copied from the triggers changelog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from streamsched.domain.names import ScheduleRef


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one schedule is: `explanation` is `domain.explain` as JSON; `at` (UTC) the log time of that state."""

    schedule: ScheduleRef
    generation: int
    sequence: int
    explanation: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class OpenKey:
    """What one key of a schedule that correlates has; `state` as `codec.state` writes it, `at` (UTC) its log time."""

    schedule: ScheduleRef
    key: str
    generation: int
    state: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Halted:
    """A schedule that is in error; `halt` as `codec.halt` writes it, `at` (UTC) its log time."""

    schedule: ScheduleRef
    halt: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Copied:
    """What was read of one partition from `start` up to, not including, `next`: the newest state of each schedule and
    of each open key, the schedules and keys that are gone, and which schedules are in error or no longer are.
    """

    partition: int
    start: int
    next: int
    progress: Sequence[Progress]
    gone: Sequence[ScheduleRef]
    keys: Sequence[OpenKey] = ()
    closed: Sequence[tuple[ScheduleRef, str]] = ()
    halted: Sequence[Halted] = ()
    healed: Sequence[ScheduleRef] = ()

    @property
    def size(self) -> int:
        """How many rows it is about."""
        rows = (self.progress, self.gone, self.keys, self.closed, self.halted, self.healed)
        return sum(map(len, rows))


class ProgressStore(Protocol):
    """The read model and the positions beside it."""

    async def positions(self, topic: str) -> Mapping[int, int]:
        """Where to go on reading; a partition that was never read is missing.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def save(self, topic: str, copied: Copied) -> bool:
        """Stores what was read of a partition together with the position after it, in one transaction. False, and
        nothing stored, when the partition does not stand at `start`: somebody else copies it too.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...


class Restartable(ProgressStore, Protocol):
    """A read model whose log can be changed for another."""

    async def forget_positions(self, topic: str) -> None:
        """Whoever copies next begins at the beginning; what was copied stays until then. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


class OpenKeys(Protocol):
    """The open keys, for those who ask."""

    async def of(self, schedule: ScheduleRef, *, after: str, limit: int) -> Sequence[OpenKey]:
        """Those of a schedule whose key comes after `after`, by key.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...
