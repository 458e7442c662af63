"""`ports.runs.FollowUpBook` on PostgreSQL: what the launchers write about runs whose runner is missing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched.domain.job import JobFact
from streamsched.domain.pace import Bucket, Pace
from streamsched.domain.retry import OVERDUE, Failure, Retry
from streamsched.domain.run import RunFact, RunState
from streamsched.ports.runs import Silent, Unclaimed
from streamsched.store.attempts import make, planned
from streamsched.store.ending import SQL, end, locked, move_job, put_down, record
from streamsched.store.execution import PostgresRunBook
from streamsched.store.pool import translated

_LAUNCHES: Final = "launches"
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)
_BEATING: Final = frozenset({RunState.STARTING, RunState.RUNNING, RunState.SUSPENDED})


class PostgresFollowUpBook(PostgresRunBook):
    """See `ports.runs.FollowUpBook`."""

    async def unclaimed(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        limit: int,
        pace: Pace | None = None,
        quick: bool = False,
    ) -> tuple[Sequence[Unclaimed], datetime | None]:
        unclaimed = SQL["unclaimed_quick" if quick else "unclaimed"]
        with translated():
            if pace is None:
                rows = await self._pool.fetch(unclaimed, now, list(retry_at), limit, jitter)
                return [Unclaimed(row["id"], row["spawns"]) for row in rows], None
            async with self._pool.acquire() as connection, connection.transaction():
                found = await connection.fetchrow(SQL["bucket"], _LAUNCHES, float(pace.burst), now)
                bucket = Bucket(found["remaining"], found["at"])
                limit = min(limit, pace.available(bucket, now))
                rows = await connection.fetch(unclaimed, now, list(retry_at), limit, jitter)
                left = pace.taken(bucket, len(rows), now)
                await connection.execute(SQL["draw"], _LAUNCHES, left.left, left.at)
        return [Unclaimed(row["id"], row["spawns"]) for row in rows], pace.next_at(left, now)

    async def next_spawn(self, *, quick: bool = False) -> datetime | None:
        with translated():
            return await self._pool.fetchval(SQL["next_quick" if quick else "next_spawn"])

    async def spawn_failed(self, run: str, reason: str, *, now: datetime) -> None:
        with translated():
            await record(self._pool, "run", run, "run.spawn_failed", reason, at=now)

    async def give_up(self, now: datetime, *, spawns: int) -> Sequence[str]:
        given_up: list[str] = []
        with translated():
            for candidate in await self._pool.fetch(SQL["hopeless"], now, spawns):
                async with self._pool.acquire() as connection, connection.transaction():
                    row = await locked(connection, candidate["id"])
                    if row is None or row["state"] != RunState.PENDING:
                        continue
                    why = f"{spawns} runner processes were started for it and none came to claim it"
                    await move_job(connection, row, JobFact.LAUNCH_FAILED, why, at=now)
                    await end(connection, row, RunFact.FAILED, why, at=now)
                    given_up.append(row["id"])
        return given_up

    async def overdue(self, now: datetime) -> Sequence[str]:
        with translated():
            return [row["id"] for row in await self._pool.fetch(SQL["overdue"], now, OVERDUE)]

    async def put_down(self, now: datetime) -> Sequence[str]:
        ended: list[str] = []
        with translated():
            for condemned in await self._pool.fetch(SQL["condemned"]):
                async with self._pool.acquire() as connection, connection.transaction():
                    row = await locked(connection, condemned["id"])
                    if row is not None and row["state"] == RunState.PENDING:
                        await put_down(connection, row, row["stop_requested"], at=now)
                        ended.append(row["id"])
        return ended

    async def silent(self, before: datetime, *, limit: int, behind: Silent | None = None) -> Sequence[Silent]:
        since, run = (_BEGINNING, "") if behind is None else (behind.heartbeat_at, behind.run)
        with translated():
            rows = await self._pool.fetch(SQL["silent"], before, limit, since, run)
        return [Silent(row["id"], row["attempt"], row["runner"], row["heartbeat_at"]) for row in rows]

    async def lose(self, run: Silent, reason: str, *, now: datetime, attempts: int) -> str | None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run.run)
                if row is None or row["state"] not in _BEATING or row["heartbeat_at"] != run.heartbeat_at:
                    return None
                lost = Retry(attempts, frozenset({Failure.LOST}), timedelta(0))
                again = await planned(connection, row, Failure.LOST, reason, at=now, default=lost)
                await end(connection, row, RunFact.VANISHED, reason, at=now, announced=again is None)
                if again is None:
                    return None
                await make(connection, row, again, at=now)
                return again.run
