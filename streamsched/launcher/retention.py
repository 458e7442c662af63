"""Keeps tables small: what has ended leaves for the history after a while, and history is dropped when it is old.

One process plays this at a time, by lease; were there two, each batch and each partition would still go once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

import structlog

from streamsched.attendance import attend
from streamsched.domain.errors import InvalidError
from streamsched.domain.retention import AHEAD, Retention, day_of, month_of
from streamsched.ports.archive import AUDIT, JOBS, RUNS, WORK, Archive, Leaving, Place
from streamsched.ports.clock import Clock

log = structlog.get_logger()

#: Seconds between two passes, and after one that failed, also when a lock was not given at once.
_PACE: Final = 300.0
_AGAIN: Final = 10.0
#: Jobs that leave in one transaction.
_BATCH: Final = 1000

_Pick = Callable[[Place | None], Awaitable[Leaving]]
_Move = Callable[[Leaving], Awaitable[int]]


class Retirement:
    """Belongs to one task."""

    def __init__(self, archive: Archive, keeps: Retention, clock: Clock, *, batch: int = _BATCH) -> None:
        self._archive = archive
        self._keeps = keeps
        self._clock = clock
        self._batch = batch

    async def run(self) -> None:
        """Passes until cancelled; while PostgreSQL is away it waits for it."""
        await attend(self._look, called="retention", again_s=_AGAIN)

    async def _look(self) -> float:
        try:
            await self.run_once()
        except InvalidError as exc:  # a newer release knows a constraint that we do not: nothing leaves meanwhile
            log.error("retention.unreadable", path=exc.path, reason=exc.reason)
        return _PACE

    async def run_once(self) -> int:
        """One pass; returns how many jobs and runs left.

        Raises:
            UnavailableError: PostgreSQL is away, or somebody needs a table for long; call again.
            InvalidError: a constraint cannot be read by this release; nothing was moved.
        """
        now = self._clock.now()
        await self._make_room(now)
        dropped = await self._drop(now)
        before = self._keeps.leaves_before(now, lookback=await self._archive.lookback())
        keep_from = day_of(now - self._keeps.jobs).begins
        archive, limit = self._archive, self._batch
        moved = await self._move(
            lambda behind: archive.ended_jobs(before, behind=behind, limit=limit),
            lambda leaving: archive.move_jobs(leaving, keep_from=keep_from),
            keep_from,
        )
        moved += await self._move(
            lambda behind: archive.ended_runs(before, behind=behind, limit=limit),
            lambda leaving: archive.move_runs(leaving, keep_from=keep_from),
            keep_from,
        )
        if moved or dropped:
            log.info("retention.passed", moved=moved, dropped=dropped)
        return moved

    async def _make_room(self, now: datetime) -> None:
        """History has a part to be written to, and what came before its part is in it."""
        for table, at in await self._archive.early():
            await self._archive.make(table, day_of(at) if table == WORK else month_of(at))
        day = day_of(now)
        while day.begins <= now + AHEAD:
            await self._archive.make(WORK, day)
            day = day_of(day.ends)
        await self._archive.make(AUDIT, month_of(now))
        await self._archive.make(AUDIT, month_of(month_of(now).ends))

    async def _drop(self, now: datetime) -> int:
        dropped = 0
        for table in (JOBS, RUNS, WORK):
            dropped += await self._archive.drop(table, before=day_of(now - self._keeps.jobs).begins)
        return dropped + await self._archive.drop(AUDIT, before=month_of(now - self._keeps.audit).begins)

    async def _move(self, pick: _Pick, move: _Move, keep_from: datetime) -> int:
        moved, behind = 0, None
        while True:
            leaving = await pick(behind)
            if leaving.last is None:
                return moved
            for part in {day_of(at) for at in leaving.done_at.values() if at >= keep_from}:
                await self._archive.make(JOBS, part)
                await self._archive.make(RUNS, part)
            moved += await move(leaving)
            behind = leaving.last
