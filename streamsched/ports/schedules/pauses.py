"""Pauses of schedules that start or end by themselves. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.pause import Pause


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """A schedule to be paused because too many runs of this generation failed in a row."""

    schedule: ScheduleRef
    generation: int
    pause: Pause


class PauseStore(Protocol):
    """Pauses that start after failures or end at a set time."""

    async def broken(self, *, limit: int) -> Sequence[FailureStreak]:
        """Schedules to be paused, the earliest failure first.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def mended(self, broken: FailureStreak) -> None:
        """Removes the streak: the schedule was paused, or has changed. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def over(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        """Schedules whose pause has ended by `now`, the earliest first.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def next_end(self) -> datetime | None:
        """When the next pause ends; None when no pause has an end.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
