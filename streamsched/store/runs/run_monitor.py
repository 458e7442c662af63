"""What launchers write about runs without a runner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import structlog

from streamsched.domain.constraints.pace import BucketLevel, Pace
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.job import JobFact
from streamsched.domain.jobs.run import RunFact, RunState
from streamsched.domain.quarantine import Quarantine
from streamsched.domain.schedules.retry import OVERDUE, Retry
from streamsched.ports.runner import NO_RUNNER
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.limits import process_room
from streamsched.store.runs import fences
from streamsched.store.runs.attempts import check_commits, make_attempt, plan_attempt
from streamsched.store.runs.ending import cancel_pending, end, lock_run, move_job
from streamsched.store.runs.rows import SQL, StoredRun
from streamsched.store.runs.run_store import LIVE, PostgresRunStore
from streamsched.store.sql import Select

log = structlog.get_logger()

_LAUNCHES: Final = "launches"


@dataclass(frozen=True, slots=True)
class UnclaimedRun:
    """A PENDING run for which a runner process is to be started, the `spawns`-th; `kind`: of which kind it is."""

    run: str
    spawns: int
    kind: ProcessKind = ProcessKind.HOST


class SilentRun(NamedTuple):
    """A claimed run without a heartbeat since `heartbeat_at`. `detached`: its driver runs in a cluster and goes on
    without its runner.
    """

    run: str
    attempt: int
    runner: str
    heartbeat_at: datetime
    detached: bool = False


@dataclass(frozen=True, slots=True)
class LostRun:
    """A run whose runner is gone, and which was ended.

    Attributes:
        next_run: the run that repeats it, if any.
        done: why it is COMPLETED and not LOST; "": it is LOST.
    """

    run: str
    next_run: str | None
    done: str = ""


class _StoredLevel(NamedTuple):
    remaining: float
    at: datetime


class _Spawn(NamedTuple):
    run: str
    spawns: int


class _UnstartedRun(NamedTuple):
    id: str
    inline: bool


class AnyWait(NamedTuple):
    """Whether runs are PENDING, and whether jobs wait for room for their processes."""

    runs: bool
    jobs: bool


class NextSpawns(NamedTuple):
    """When the next PENDING run that needs a process is to be started, and the next one that needs none; None: there is
    no such run.
    """

    process: datetime | None
    inline: datetime | None


_ANY_WAIT: Final = Select(SQL["any_wait"], AnyWait)
_NEXT_SPAWNS: Final = Select(SQL["next_spawns"], NextSpawns)
_BUCKET: Final = Select(SQL["bucket"], _StoredLevel)
_CLAIM_INLINE: Final = Select(SQL["claim_inline"], _Spawn)
_UNCLAIMED_TOO_OFTEN: Final = Select(SQL["unclaimed_too_often"], _UnstartedRun)
_SILENT: Final = Select(SQL["silent"], SilentRun)

_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)


class RunMonitorStore(PostgresRunStore):
    """What launchers need to start and check runs. `inline` runs are executed by a launcher itself
    (`domain.schedules.schedule.InlineExecutable`); the others need a runner process.
    """

    def __init__(self, pool: Pool) -> None:
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
        """Takes PENDING inline runs for the launcher `inline_by`, a `RunnerId` as text, oldest first, each for one
        caller; `retry_at` and `jitter` as for `next_processes`.
        """
        with translate_errors():
            taken = await _CLAIM_INLINE.fetch(self._pool, now, list(retry_at), limit, jitter, inline_by)
        return [UnclaimedRun(*each) for each in taken]

    async def next_processes(
        self,
        now: datetime,
        *,
        retry_at: Sequence[datetime],
        jitter: float,
        room: Mapping[ProcessKind, int],
        pace: Pace | None = None,
    ) -> tuple[Sequence[UnclaimedRun], datetime | None]:
        """Takes PENDING runs that need a runner process now, at most `room` of each kind, in the order in which shares
        get places (`domain.constraints.process_room`), each for one caller. A run that no runner claims is taken again
        at `retry_at[spawns]`, or later by up to the fraction `jitter` of the time until then; past the end of
        `retry_at` it is left to `fail_unstarted`. `pace` limits all callers together; with it, the second value is when
        the next run is permitted.
        """
        wanted: list[UnclaimedRun] = []
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                bucket = None if pace is None else await self._bucket(connection, pace, now)
                most = sum(room.values()) if pace is None or bucket is None else pace.available_tokens(bucket, now)
                for kind, places in room.items():
                    limit = min(places, most - len(wanted))
                    if limit > 0:
                        taken = await process_room.claim_next(
                            connection, kind, now, retry_at=retry_at, jitter=jitter, limit=limit
                        )
                        wanted += [UnclaimedRun(run, spawns, kind) for run, spawns in taken]
                if pace is None or bucket is None:
                    return wanted, None
                left = pace.take_tokens(bucket, len(wanted), now)
                await connection.execute(SQL["draw"], _LAUNCHES, left.left, left.at)
        return wanted, pace.next_token_at(left, now)

    async def _bucket(self, connection: Connection, pace: Pace, now: datetime) -> BucketLevel:
        """The tokens left of the pace, locked until the transaction ends."""
        return BucketLevel(*await _BUCKET.fetch_one(connection, _LAUNCHES, float(pace.burst), now))

    async def wake_for_room(self, now: datetime) -> bool:
        """Makes those jobs due that wait for room and get the next places; whether any wait."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await process_room.wake(connection, now)

    async def any_wait(self) -> AnyWait:
        """Whether `wake_for_room`, and the methods about PENDING runs, have anything to do."""
        with translate_errors():
            return await _ANY_WAIT.fetch_one(self._pool)

    async def next_spawns(self) -> NextSpawns:
        """When the next PENDING runs are to be started."""
        with translate_errors():
            return await _NEXT_SPAWNS.fetch_one(self._pool)

    async def record_spawn_failure(self, run: str, reason: str, *, now: datetime) -> None:
        """Writes to the run's history why no process could be started."""
        with translate_errors():
            await record(self._pool, "run", run, "run.spawn_failed", reason, at=now)

    async def fail_unstarted(self, now: datetime, *, spawns: int) -> Sequence[str]:
        """Ends PENDING runs that none of `spawns` runner processes claimed: FAILED, job LAUNCH_FAILED. Returns their
        ids.
        """

        async def fail(connection: Connection, row: StoredRun) -> None:
            why = (
                f"launchers took it {spawns} times and none started it"
                if inline[row.id]
                else f"{spawns} runner processes were started for it and none claimed it"
            )
            await move_job(connection, row, JobFact.LAUNCH_FAILED, why, at=now)
            await end(connection, row, RunFact.FAILED, why, at=now)

        with translate_errors():
            inline = dict(await _UNCLAIMED_TOO_OFTEN.fetch(self._pool, now, spawns))
        return await self._end_each(list(inline), fail, now)

    async def stop_overdue(self, now: datetime) -> Sequence[str]:
        """Requests a stop of every live run past its maximum duration without one. Returns their ids."""
        with translate_errors():
            return [row["id"] for row in await self._pool.fetch(SQL["overdue"], now, OVERDUE)]

    async def cancel_pending(self, now: datetime) -> Sequence[str]:
        """Ends PENDING runs with a requested stop: KILLED, job LAUNCH_FAILED. Returns their ids."""

        async def cancel(connection: Connection, row: StoredRun) -> None:
            await cancel_pending(connection, row, row.stop_requested or "", at=now)

        with translate_errors():
            rows = await self._pool.fetch(SQL["stop_requested"])
        return await self._end_each([row["id"] for row in rows], cancel, now)

    async def _end_each(
        self, runs: Sequence[str], finish: Callable[[Connection, StoredRun], Awaitable[None]], now: datetime
    ) -> Sequence[str]:
        """Ends those of the runs that are PENDING, each in its own transaction; one that raises is quarantined. Returns
        the ids of those that ended.
        """
        ended: list[str] = []
        held = self._failed.held_keys(now)
        for run in runs:
            if run in held:
                continue
            try:
                with translate_errors():
                    async with self._pool.acquire() as connection, connection.transaction():
                        row = await lock_run(connection, run)
                        if row is None or row.state != RunState.PENDING:
                            continue
                        await finish(connection, row)
            except SYSTEMIC:
                raise
            except Exception as failure:  # noqa: BLE001 - its row may hold anything; the other runs are ended
                self._failed.add(run, now)
                log.error("run.end_failed", run=run, reason=describe_failure(failure))
            else:
                ended.append(run)
        return ended

    async def silent_runs(
        self, before: datetime, *, limit: int, behind: SilentRun | None = None
    ) -> Sequence[SilentRun]:
        """Claimed runs without a heartbeat since `before`, longest silent first, after the run `behind`."""
        since, run = (_BEGINNING, "") if behind is None else (behind.heartbeat_at, behind.run)
        with translate_errors():
            return await _SILENT.fetch(self._pool, before, limit, since, run)

    async def due_fences(self, now: datetime, *, limit: int) -> Sequence[str]:
        """As `FenceStore.claim_due`."""
        return await fences.FenceStore(self._pool).claim_due(now, limit=limit)

    async def release_runner(self, run: SilentRun, reason: str, *, now: datetime) -> bool:
        """Takes a detached run from its runner, which is gone, so that another can claim it. False, without a change,
        when the run had a heartbeat or ended since.
        """
        with translate_errors():
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
        """Ends the run: COMPLETED when its program is done by its commits, else LOST. Then its job gets a new run if
        the schedule's retry policy, or without one `attempts`, permits it, unless the run was to stop or its schedule
        changed. None, without a change, when the run had a heartbeat or ended since.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await lock_run(connection, run.run)
                if row is None or row.state not in LIVE or row.heartbeat_at != run.heartbeat_at:
                    return None
                if (done := await check_commits(connection, row, Failure.LOST)) is not None:
                    await end(connection, row, RunFact.SUCCEEDED, f"{done}; {reason}", at=now)
                    await fences.request_fence(connection, row, at=now)
                    return LostRun(run.run, None, done)
                lost = Retry(attempts, frozenset({Failure.LOST}), timedelta(0))
                next_attempt = await plan_attempt(connection, row, Failure.LOST, reason, at=now, default=lost)
                await end(connection, row, RunFact.VANISHED, reason, at=now, announced=next_attempt is None)
                if next_attempt is not None:
                    await make_attempt(connection, row, next_attempt, at=now)
                else:
                    await fences.request_fence(connection, row, at=now)
                return LostRun(run.run, None if next_attempt is None else next_attempt.run)
