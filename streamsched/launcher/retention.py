"""Moves ended jobs and runs to the history, and drops old history, also that of tasks and of deleted schedules.

One process runs this at a time, by lease; if two did, each batch and each partition would still be handled once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Final, Protocol

import structlog

from streamsched.domain.decisions.retention import AHEAD, Retention, part_of
from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import add_duration
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.jobs.archive import Archive, ArchiveCursor, EndedRows
from streamsched.store.partitioned import AUDIT, JOBS, RUNS, TASKS, WORK

log = structlog.get_logger()

#: Seconds between two passes, and after one that failed or did not get a lock in time.
_EVERY: Final = 300.0
_RETRY: Final = 10.0
#: Jobs moved in one transaction.
_BATCH: Final = 1000

_Pick = Callable[[ArchiveCursor | None], Awaitable[EndedRows]]
_Move = Callable[[EndedRows], Awaitable[int]]


class _Forget(Protocol):
    async def __call__(self, *, limit: int) -> int: ...


async def _in_batches(forget: _Forget, limit: int) -> int:
    """Calls it as long as it finds as many as it may delete; returns how many it found."""
    total = 0
    while True:
        total += (found := await forget(limit=limit))
        if found < limit:
            return total


class ArchiveLoop:
    """Belongs to one task."""

    def __init__(self, archive: Archive, retention: Retention, clock: Clock, *, batch: int = _BATCH) -> None:
        self._archive = archive
        self._retention = retention
        self._clock = clock
        self._batch = batch

    async def run(self) -> None:
        """Runs passes until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="retention", retry_s=_RETRY, ending_by=self._clock)

    async def _step(self) -> float:
        try:
            await self.run_once()
        except InvalidError as exc:  # a constraint of a newer release: nothing is moved until this one is upgraded
            log.error("retention.unreadable", path=exc.path, reason=exc.reason)
        return _EVERY

    async def run_once(self) -> int:
        """One pass; returns how many jobs and runs were moved.

        Raises:
            UnavailableError: PostgreSQL is unavailable, or a table stays locked; call again.
            InvalidError: a constraint cannot be read by this release; nothing was moved.
        """
        now = self._clock.now()
        await self._make_partitions(now)
        dropped = await self._drop(now)
        before = self._retention.leaves_before(now, lookback=await self._archive.lookback())
        keep_from = add_duration(now, -self._retention.jobs)
        archive, limit = self._archive, self._batch
        moved = await self._move(
            lambda behind: archive.ended_jobs(before, behind=behind, limit=limit),
            lambda ended: archive.move_jobs(ended, keep_from=keep_from),
            keep_from,
        )
        moved += await self._move(
            lambda behind: archive.ended_runs(before, behind=behind, limit=limit),
            lambda ended: archive.move_runs(ended, keep_from=keep_from),
            keep_from,
        )
        await self._forget(now)
        if moved or dropped:
            log.info("retention.passed", moved=moved, dropped=dropped)
        return moved

    async def _forget(self, now: datetime) -> None:
        """Deletes the rows of deleted schedules and the entries of the audit whose time is over."""
        archive, limit = self._archive, self._batch
        schedules = await _in_batches(partial(archive.forget_schedules, self._retention.forgets_before(now)), limit)
        # at most once an hour or a day: each time there is an entry about it
        before = part_of(add_duration(now, -self._retention.audit), self._retention.audit).begins
        entries = await _in_batches(partial(archive.forget_audit, before, now=now), limit)
        if schedules or entries:
            log.info("retention.forgot", schedules=schedules, audit_entries=entries)

    async def _make_partitions(self, now: datetime) -> None:
        """Makes the partitions of the next days, and those of rows written before their partition existed."""
        kept = {
            WORK: partial(part_of, keep=self._retention.jobs),
            TASKS: partial(part_of, keep=await self._keep_of_tasks()),
            AUDIT: partial(part_of, keep=self._retention.audit, months=True),
        }
        for table, at in await self._archive.early_rows():
            await self._archive.make(table, kept[table](at))
        for table, of in kept.items():
            part = of(now)
            for _ in range(AHEAD + 1):
                await self._archive.make(table, part)
                part = of(part.ends)

    async def _keep_of_tasks(self) -> timedelta:
        return max(self._retention.jobs, await self._archive.dedupe())

    async def _drop(self, now: datetime) -> int:
        keep, dropped = self._retention, 0
        for table, kept in (
            (JOBS, keep.jobs),
            (RUNS, keep.jobs),
            (WORK, keep.jobs),
            (TASKS, await self._keep_of_tasks()),
            (AUDIT, keep.audit),
        ):
            dropped += await self._archive.drop(table, before=add_duration(now, -kept))
        return dropped

    async def _move(self, pick: _Pick, move: _Move, keep_from: datetime) -> int:
        moved, behind = 0, None
        while True:
            ended = await pick(behind)
            if ended.last is None:
                return moved
            for part in {part_of(at, self._retention.jobs) for at in ended.done_at.values() if at >= keep_from}:
                await self._archive.make(JOBS, part)
                await self._archive.make(RUNS, part)
            moved += await move(ended)
            behind = ended.last
