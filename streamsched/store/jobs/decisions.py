"""`ports.jobs.DecisionStore` on PostgreSQL.

`decide` is one transaction: lock the programs, read their due jobs (`store.jobs.decision_reads`), decide (pure), store
(`store.jobs.decision_writes`). All transactions lock in one order: programs, schedules, jobs, groups, token buckets,
load gates, the room for processes, runs. Under a group's lock only jobs that are not locked are taken. Groups, buckets,
gates and the room come last because all programs share them; whatever can be read and decoded before is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import asyncpg

from streamsched.domain.constraints.plugin import MOST_PAST_RUNS, PastRun
from streamsched.domain.decisions.decision import Decision, DecisionInput, Wait, resources_after
from streamsched.domain.decisions.decision_batch import DecidedProgram
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.ports.jobs import DecisionBatch, InlineRoom
from streamsched.store.connections import Connection, translated
from streamsched.store.jobs.coalesced import with_coalesced_jobs
from streamsched.store.jobs.decision_reads import (
    LockedInputs,
    bucket_keys,
    lock_programs,
    read_inputs,
    wait_for_program,
)
from streamsched.store.jobs.decision_writes import store
from streamsched.store.limits import clusters, lanes, namespace_runs, pools, process_room, rates
from streamsched.store.sql import queries

_SQL: Final = queries("jobs/decisions")


class PostgresDecisionStore:
    """See `ports.jobs.DecisionStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def due(self, now: datetime, *, limit: int) -> Mapping[str, int]:
        with translated():
            return {row["program"]: row["jobs"] for row in await self._pool.fetch(_SQL["due"], now, limit)}

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"])

    async def decide(
        self,
        programs: Sequence[str],
        *,
        now: datetime,
        limit: int,
        judge: Callable[[DecisionInput], Sequence[Decision]],
        inline: InlineRoom | None = None,
        wait: bool = False,
        jobs: Sequence[str] | None = None,
    ) -> DecisionBatch:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                # Lock: the programs; those locked by another launcher are skipped.
                if wait and not await wait_for_program(connection, programs[0]):
                    return DecisionBatch({})
                locked = await lock_programs(connection, programs)
                if jobs is None:
                    due = await connection.fetch(_SQL["due_of_programs"], list(locked), now, limit)
                else:
                    due = await connection.fetch(_SQL["due_of_jobs"], jobs, list(locked), now)
                if not due:
                    return DecisionBatch(dict.fromkeys(locked, ()))
                # Read: the input of each program, and the resources the programs share, under their locks.
                read = await read_inputs(connection, locked, due, now)
                # Decide: pure.
                decided = _decided(read, judge, now)
                # Store: decisions, resources taken, history; jobs that cannot be decided get a later check.
                decided = await with_coalesced_jobs(connection, decided)
                claimed = await store(connection, decided, before=read.resources, now=now, inline=inline)
                failed = {**read.failed, **_failed(_decisions(decided))}
                await _put_off(connection, failed, now)
        stored = {each.program: [one for one in each.decisions if one.job not in failed] for each in decided}
        return DecisionBatch(dict.fromkeys(locked, ()) | stored, claimed, failed)

    async def due_jobs(self, program: str, now: datetime, *, limit: int) -> Sequence[str]:
        with translated():
            return [row["id"] for row in await self._pool.fetch(_SQL["due_jobs"], program, now, limit)]

    async def put_off(self, failed: Mapping[str, str], *, now: datetime) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await _put_off(connection, failed, now)

    async def past_runs(self, program: ProgramRef) -> tuple[PastRun, ...]:
        with translated():
            rows = await self._pool.fetch(_SQL["past_runs"], str(program), MOST_PAST_RUNS)
        return tuple(
            PastRun(row["id"], RunState(row["state"]), row["created_at"], row["started_at"], row["ended_at"])
            for row in rows
        )

    async def recheck(self, job: str) -> None:
        with translated():
            await self._pool.execute(_SQL["look"], job)

    async def recheck_all(self, *, before: datetime) -> int:
        with translated():
            await namespace_runs.count_active(self._pool)
            await rates.forget(self._pool, before)
            await pools.forget(self._pool)
            await lanes.forget(self._pool)
            await clusters.forget(self._pool)
            await process_room.forget(self._pool, before)
            return int((await self._pool.execute(_SQL["recall"], before)).split()[-1])


def _decided(
    read: LockedInputs, judge: Callable[[DecisionInput], Sequence[Decision]], now: datetime
) -> Sequence[DecidedProgram]:
    """Decides program by program; what the decisions about one take of the resources is gone for the next."""
    resources, decided = read.resources, list[DecidedProgram]()
    for program, jobs in read.inputs.items():
        decision_input = jobs.with_resources(resources, bucket_keys(jobs))
        decisions = judge(decision_input)
        resources = resources_after(resources, decision_input, decisions, now)
        decided.append(DecidedProgram(program, decision_input, decisions))
    return decided


def _decisions(decided: Iterable[DecidedProgram]) -> Iterable[Decision]:
    return (decision for each in decided for decision in each.decisions)


def _failed(decisions: Iterable[Decision]) -> Mapping[str, str]:
    """Why jobs could not be decided, by job."""
    return {each.job: each.reason for each in decisions if isinstance(each, Wait) and each.failed}


async def _put_off(connection: Connection, failed: Mapping[str, str], now: datetime) -> None:
    if failed:
        await connection.execute(_SQL["put_off"], now, list(failed), list(failed.values()))
        await lanes.leave(connection, list(failed))
        await pools.leave_queue(connection, list(failed))
        await process_room.leave(connection, list(failed))
