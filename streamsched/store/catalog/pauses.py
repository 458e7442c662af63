"""Pauses of schedules that start or end by themselves. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.store.catalog.records import FailureStreak
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("catalog/pauses")


class _Streak(NamedTuple):
    """A failure streak, with the pause to be."""

    schedule: str
    generation: int
    keep: bool
    until: datetime | None
    note: str


_STREAKS: Final = Select(_SQL["streaks"], _Streak)


class PauseStore:
    """Pauses that start after failures or end at a set time. Every method raises UnavailableError when PostgreSQL is
    unavailable.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_streaks(self, *, limit: int) -> Sequence[FailureStreak]:
        """Schedules to be paused, the earliest failure first."""
        with translate_errors():
            rows = await _STREAKS.fetch(self._pool, limit)
        return [
            FailureStreak(
                ScheduleRef.parse(row.schedule),
                row.generation,
                Pause(PauseMode.from_keep(keep=row.keep), row.until, row.note),
            )
            for row in rows
        ]

    async def remove_streak(self, streak: FailureStreak) -> None:
        """The schedule was paused, or has changed. Idempotent."""
        with translate_errors():
            await self._pool.execute(_SQL["remove_streak"], str(streak.schedule), streak.generation)

    async def list_ended(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        """Schedules whose pause has ended by `now`, the earliest first."""
        with translate_errors():
            rows = await self._pool.fetch(_SQL["ended"], now, limit)
        return [ScheduleRef.parse(schedule) for (schedule,) in rows]

    async def next_end(self) -> datetime | None:
        """When the next pause ends; None when no pause has an end."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_end"])
