"""Due jobs, and the decisions about them.

`launcher/loop.py` decides in one transaction: `DecisionStore.lock` locks programs and reads their due jobs
(`store.jobs.decision_reads`), the loop judges them, `DecisionBatch.store` stores (`store.jobs.decision_writes`). All
transactions lock in one order: programs, schedules, jobs, groups, token buckets, load gates, the room for processes,
runs. Under a group's lock only jobs that are not locked are taken. Groups, buckets, gates and the room come last
because all programs share them; whatever can be read and decoded before is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.constraints.plugin import MOST_PAST_RUNS, PastRun
from streamsched.domain.decisions.decision import Decision, Wait
from streamsched.domain.decisions.decision_batch import DecidedProgram
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.ports.runs import Assignment
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.jobs.coalesced import with_coalesced_jobs
from streamsched.store.jobs.decision_reads import LockedInputs, lock_and_read
from streamsched.store.jobs.decision_writes import InlineRoom, write_decisions
from streamsched.store.limits import clusters, lanes, namespace_runs, pools, process_room, rates
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/decisions")


class _DueProgram(NamedTuple):
    program: str
    jobs: int


class _PastRun(NamedTuple):
    id: str
    state: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None


_DUE: Final = Select(_SQL["due"], _DueProgram)
_PAST_RUNS: Final = Select(_SQL["past_runs"], _PastRun)


@dataclass(frozen=True, slots=True)
class StoredDecisions:
    """What a batch stored.

    Attributes:
        decisions: by program, without those of the failed jobs.
        claimed: the admitted runs that are already claimed for the inline runner.
        failed: why jobs could not be decided, by job; they were put off.
    """

    decisions: Mapping[str, Sequence[Decision]] = field(default_factory=dict)
    claimed: Sequence[Assignment] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def decided_jobs(self) -> int:
        """How many jobs were decided or put off."""
        return sum(len(decisions) for decisions in self.decisions.values()) + len(self.failed)


class DecisionBatch:
    """Programs that a transaction has locked.

    Attributes:
        inputs: those of them with due jobs, longest waiting jobs first, without the resources.
        resources: those that they share.
    """

    def __init__(self, connection: Connection, read: LockedInputs, now: datetime) -> None:
        self.inputs = read.inputs
        self.resources = read.resources
        self._failed = read.failed
        self._coalesced = read.coalesced
        self._connection = connection
        self._now = now

    async def store(self, decided: Sequence[DecidedProgram], *, inline: InlineRoom | None = None) -> StoredDecisions:
        """Stores the decisions about the inputs and writes the history; to be called once. With `inline`, admitted runs
        are claimed for its runner, as `RunStore.claim` would, while it has room. A job is put off, with the reason,
        when it, its schedule or its program could not be read, or when the decision is a failed `Wait`.

        Raises:
            ConflictError: a job changed at the same time.
            InvalidError: a satisfaction coalesced into an admitted job cannot be read.
        """
        if not decided and not self._failed:
            return StoredDecisions()
        decided = await with_coalesced_jobs(self._connection, decided, self._coalesced)
        claimed = await write_decisions(self._connection, decided, before=self.resources, now=self._now, inline=inline)
        undecided = {
            each.job: each.reason
            for program in decided
            for each in program.decisions
            if isinstance(each, Wait) and each.failed
        }
        failed = {**self._failed, **undecided}
        await _postpone(self._connection, failed, self._now)
        stored = {each.program: [one for one in each.decisions if one.job not in failed] for each in decided}
        return StoredDecisions(stored, claimed, failed)


class DecisionStore:
    """What the launcher's loop needs. All raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def count_due(self, now: datetime, *, limit: int) -> Mapping[str, int]:
        """Programs with jobs due at `now`, those due longest first, and how many jobs, up to a fixed maximum."""
        with translate_errors():
            return {row.program: row.jobs for row in await _DUE.fetch(self._pool, now, limit)}

    async def next_due_at(self) -> datetime | None:
        """The earliest next check of all waiting jobs; None when all of them wait for a wake-up."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_due"])

    @asynccontextmanager
    async def lock(
        self,
        programs: Sequence[str],
        *,
        now: datetime,
        limit: int,
        wait: bool = False,
        jobs: Sequence[str] | None = None,
    ) -> AsyncIterator[DecisionBatch]:
        """One transaction: leaving it commits, an exception rolls back. Locks these programs, and reads up to `limit`
        due jobs of each. Programs locked by another transaction are skipped; with `wait` the first one's lock is waited
        for, at most a second. With `jobs` only those of them that are due are read.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                read = await lock_and_read(connection, programs, now=now, limit=limit, wait=wait, jobs=jobs)
                yield DecisionBatch(connection, read, now)

    async def due_jobs(self, program: str, now: datetime, *, limit: int) -> Sequence[str]:
        """The due jobs of a program, oldest satisfaction first."""
        with translate_errors():
            return [row["id"] for row in await self._pool.fetch(_SQL["due_jobs"], program, now, limit)]

    async def postpone(self, failed: Mapping[str, str], *, now: datetime) -> None:
        """Puts off jobs that cannot be decided (id → reason): for a minute, doubled each time up to an hour. They leave
        the queues of their pools.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await _postpone(connection, failed, now)

    async def past_runs(self, program: ProgramRef) -> tuple[PastRun, ...]:
        """The program's newest runs, newest first, at most `MOST_PAST_RUNS`."""
        with translate_errors():
            rows = await _PAST_RUNS.fetch(self._pool, str(program), MOST_PAST_RUNS)
        return tuple(PastRun(row.id, RunState(row.state), *row[2:]) for row in rows)

    async def recheck(self, job: str) -> None:
        """Makes the job due, if it still waits."""
        with translate_errors():
            await self._pool.execute(_SQL["make_due"], job)

    async def recheck_all(self, *, before: datetime) -> int:
        """Makes due the jobs that wait for a wake-up since `before`, in case it was lost, and those whose schedule
        changed, was disabled or deleted. Returns how many.
        """
        with translate_errors():
            await namespace_runs.count_active(self._pool)
            await rates.forget(self._pool, before)
            await pools.forget(self._pool)
            await lanes.forget(self._pool)
            await clusters.forget(self._pool)
            await process_room.forget(self._pool, before)
            return int((await self._pool.execute(_SQL["recheck_all"], before)).split()[-1])


async def _postpone(connection: Connection, failed: Mapping[str, str], now: datetime) -> None:
    if failed:
        await connection.execute(_SQL["put_off"], now, list(failed), list(failed.values()))
        await lanes.leave(connection, list(failed))
        await pools.leave_queue(connection, list(failed))
        await process_room.leave(connection, list(failed))
