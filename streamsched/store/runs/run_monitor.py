"""`ports.runs.RunMonitorStore` on PostgreSQL: what launchers write about runs without a runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import asyncpg
import structlog

from streamsched.domain.constraints.pace import BucketLevel, Pace
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import SYSTEMIC, described
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JobFact
from streamsched.domain.jobs.run import RunFact, RunState
from streamsched.domain.quarantine import Quarantine
from streamsched.domain.schedules.retry import OVERDUE, Retry
from streamsched.ports.runner import NO_RUNNER, LostRun, SilentRun, UnclaimedRun
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, translated
from streamsched.store.limits import process_room
from streamsched.store.runs import fences
from streamsched.store.runs.attempts import done_by_commits, make, planned
from streamsched.store.runs.ending import SQL, cancel_pending, end, locked, move_job
from streamsched.store.runs.run_store import LIVE, PostgresRunStore
from streamsched.store.sql import Select

log = structlog.get_logger()

_LAUNCHES: Final = "launches"


class _StoredLevel(NamedTuple):
    remaining: float
    at: datetime


_BUCKET: Final = Select(SQL["bucket"], _StoredLevel)

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class PostgresRunMonitorStore(PostgresRunStore):
    """See `ports.runs.RunMonitorStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self._failed: Quarantine[str] = Quarantine()

    async def claim_inline(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        limit: int,
        inline_by: str,
    ) -> Sequence[UnclaimedRun]:
        with translated():
            rows = await self._pool.fetch(SQL["claim_inline"], now, list(retry_at), limit, jitter, inline_by)
            return [UnclaimedRun(row["id"], row["spawns"]) for row in rows]

    async def next_processes(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        room: Mapping[ProcessKind, int],
        pace: Pace | None = None,
    ) -> tuple[Sequence[UnclaimedRun], datetime | None]:
        wanted: list[UnclaimedRun] = []
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                bucket = None if pace is None else await self._bucket(connection, pace, now)
                most = sum(room.values()) if pace is None or bucket is None else pace.available(bucket, now)
                for kind, places in room.items():
                    limit = min(places, most - len(wanted))
                    if limit > 0:
                        taken = await process_room.claim_next(
                            connection, kind, now, retry_at=retry_at, jitter=jitter, limit=limit
                        )
                        wanted += [UnclaimedRun(run, spawns, kind) for run, spawns in taken]
                if pace is None or bucket is None:
                    return wanted, None
                left = pace.taken(bucket, len(wanted), now)
                await connection.execute(SQL["draw"], _LAUNCHES, left.left, left.at)
        return wanted, pace.next_at(left, now)

    async def _bucket(self, connection: Connection, pace: Pace, now: datetime) -> BucketLevel:
        """The tokens left of the pace, locked until the transaction ends."""
        return BucketLevel(*await _BUCKET.one(connection, _LAUNCHES, float(pace.burst), now))

    async def wake_for_room(self, now: datetime) -> bool:
        with translated():
            async with self._pool.acquire() as connection:
                return await process_room.wake(connection, now)

    async def next_spawn(self, *, inline: bool = False) -> datetime | None:
        with translated():
            return await self._pool.fetchval(SQL["next_quick" if inline else "next_spawn"])

    async def spawn_failed(self, run: str, reason: str, *, now: datetime) -> None:
        with translated():
            await record(self._pool, "run", run, "run.spawn_failed", reason, at=now)

    async def fail_unstarted(self, now: datetime, *, spawns: int) -> Sequence[str]:
        async def fail(connection: Connection, row: Any) -> None:
            why = (
                f"launchers took it {spawns} times and none started it"
                if row["id"] in inline
                else f"{spawns} runner processes were started for it and none claimed it"
            )
            await move_job(connection, row, JobFact.LAUNCH_FAILED, why, at=now)
            await end(connection, row, RunFact.FAILED, why, at=now)

        with translated():
            rows = await self._pool.fetch(SQL["unclaimed_too_often"], now, spawns)
        inline = {row["id"] for row in rows if row["inline"]}
        return await self._each([row["id"] for row in rows], fail, now)

    async def overdue(self, now: datetime) -> Sequence[str]:
        with translated():
            return [row["id"] for row in await self._pool.fetch(SQL["overdue"], now, OVERDUE)]

    async def cancel_pending(self, now: datetime) -> Sequence[str]:
        async def cancel(connection: Connection, row: Any) -> None:
            await cancel_pending(connection, row, row["stop_requested"], at=now)

        with translated():
            rows = await self._pool.fetch(SQL["stop_requested"])
        return await self._each([row["id"] for row in rows], cancel, now)

    async def _each(
        self, runs: Sequence[str], finish: Callable[[Any, Any], Awaitable[None]], now: datetime
    ) -> Sequence[str]:
        """Ends those of the runs that are PENDING, each in its own transaction; one that raises is quarantined. Returns
        the ids of those that ended.
        """
        ended: list[str] = []
        held = self._failed.held(now)
        for run in runs:
            if run in held:
                continue
            try:
                with translated():
                    async with self._pool.acquire() as connection, connection.transaction():
                        row = await locked(connection, run)
                        if row is None or row["state"] != RunState.PENDING:
                            continue
                        await finish(connection, row)
            except SYSTEMIC:
                raise
            except Exception as failure:  # noqa: BLE001 - its row may hold anything; the other runs are ended
                self._failed.add(run, now)
                log.error("run.end_failed", run=run, reason=described(failure))
            else:
                ended.append(run)
        return ended

    async def silent(self, before: datetime, *, limit: int, behind: SilentRun | None = None) -> Sequence[SilentRun]:
        since, run = (_BEGINNING, "") if behind is None else (behind.heartbeat_at, behind.run)
        with translated():
            rows = await self._pool.fetch(SQL["silent"], before, limit, since, run)
        return [
            SilentRun(row["id"], row["attempt"], row["runner"], row["heartbeat_at"], detached=row["detached"])
            for row in rows
        ]

    async def due_fences(self, now: datetime, *, limit: int) -> Sequence[str]:
        return await fences.PostgresFenceStore(self._pool).due(now, limit=limit)

    async def release_runner(self, run: SilentRun, reason: str, *, now: datetime) -> bool:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if (
                    await connection.fetchval(SQL["release_runner"], run.run, run.heartbeat_at, str(NO_RUNNER), now)
                    is None
                ):
                    return False
                if run.runner != str(NO_RUNNER):
                    await record(connection, "run", run.run, "run.unattended", reason, at=now)
                return True

    async def mark_lost(self, run: SilentRun, reason: str, *, now: datetime, attempts: int) -> LostRun | None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run.run)
                if row is None or row["state"] not in LIVE or row["heartbeat_at"] != run.heartbeat_at:
                    return None
                if (done := await done_by_commits(connection, row, Failure.LOST)) is not None:
                    await end(connection, row, RunFact.SUCCEEDED, f"{done}; {reason}", at=now)
                    await fences.want(connection, row, at=now)
                    return LostRun(run.run, None, done)
                lost = Retry(attempts, frozenset({Failure.LOST}), timedelta(0))
                next_attempt = await planned(connection, row, Failure.LOST, reason, at=now, default=lost)
                await end(connection, row, RunFact.VANISHED, reason, at=now, announced=next_attempt is None)
                if next_attempt is not None:
                    await make(connection, row, next_attempt, at=now)
                else:
                    await fences.want(connection, row, at=now)
                return LostRun(run.run, None if next_attempt is None else next_attempt.run)
