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
class Copied:
    """What was read of one partition from `start` up to, not including, `next`: the newest state of each schedule,
    and the schedules that are gone.
    """

    partition: int
    start: int
    next: int
    progress: Sequence[Progress]
    gone: Sequence[ScheduleRef]


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
