"""`ports.runs.RunStore` on PostgreSQL: what a runner writes about the run it executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import asyncpg

from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import stored_program_from_json, stored_schedule_from_json
from streamsched.codec.views import run_metrics
from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.failure import failure_of
from streamsched.domain.jobs.job import JobFact, ReadyJob
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.limits import later
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.retry import OVERDUE
from streamsched.domain.schedules.schedule import Schedule
from streamsched.ports.runner import NO_RUNNER
from streamsched.ports.runs import Assignment, RunEnd, StopRequest
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, translated
from streamsched.store.runs import attempts, deadlines, fences
from streamsched.store.runs.ending import SQL, announce, cancel_pending, current_schedule, end, locked, move_job

#: The run's transition for the state of a `RunEnd`.
FACTS: Final[Mapping[RunState, RunFact]] = MappingProxyType(
    {
        RunState.COMPLETED: RunFact.SUCCEEDED,
        RunState.FAILED: RunFact.FAILED,
        RunState.KILLED: RunFact.KILLED,
    }
)


#: States of a run that a runner has claimed.
LIVE: Final = frozenset({RunState.STARTING, RunState.RUNNING, RunState.SUSPENDED})


class PostgresRunStore:
    """See `ports.runs.RunStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        with translated():
            seen = await self._pool.fetchrow(SQL["state"], run)
            if seen is None:
                return None
            ready = satisfaction(seen)  # fixed since the admission; decoded outside the transaction, it may be large
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run)
                repeatable = LIVE if row is not None and row["taken_over"] else {RunState.STARTING}
                if row is not None and row["runner"] == runner and row["state"] in repeatable:
                    _, schedule_row = await current_schedule(connection, row)  # a repeat: the first answer was lost
                    return replace(
                        assigned(row, ready, _defined(schedule_row)),
                        taken_over=row["taken_over"],
                        driver=driver_of(row),
                    )
                if row is not None and row["runner"] == str(NO_RUNNER) and row["state"] in LIVE:
                    _, schedule_row = await current_schedule(connection, row)
                    await connection.execute(SQL["take_over"], run, runner, log_path, now)
                    await record(connection, "run", run, "run.taken_over", f"by runner {runner}", at=now)
                    taken = assigned(row, ready, _defined(schedule_row))
                    return replace(taken, taken_over=True, driver=driver_of(row))
                if row is None or row["state"] != RunState.PENDING:
                    return None
                if row["stop_requested"] is not None:
                    await cancel_pending(connection, row, row["stop_requested"], at=now)
                    return None
                why, schedule_row = await current_schedule(connection, row)
                if why is not None:
                    await move_job(connection, row, JobFact.SUPERSEDED, why, at=now)
                    await end(connection, row, RunFact.KILLED, why, at=now)
                    return None
                if schedule_row is not None and not schedule_row["admits"]:
                    await connection.execute(SQL["hold_back"], run)
                    await record(connection, "run", run, "run.held_back", "its schedule is paused", at=now)
                    return None
                state = RUN_STATES.advance(RunState.PENDING, RunFact.CLAIMED)
                assignment = assigned(row, ready, _defined(schedule_row))
                longest = None if assignment.schedule is None else assignment.schedule.max_duration
                deadline = None if longest is None else later(now, longest)
                await connection.execute(SQL["claim"], run, RunState.PENDING, state, runner, log_path, now, deadline)
                await record(connection, "run", run, "run.claimed", f"by runner {runner}", at=now)
                await move_job(connection, row, JobFact.LAUNCHED, f"run {run}", at=now)
                await deadlines.watch_run(connection, assignment.schedule, row["job"], run, now=now)
        return assignment

    async def started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(SQL["state"], run)
                if row is not None and await _start(connection, row, runner, now, start):
                    return
                row = await connection.fetchrow(SQL["state"], run)
                if row is None or (row["runner"], row["state"]) != (runner, RunState.RUNNING):
                    raise ConflictError(f"run '{run}' is no longer executed by {runner}")

    async def submitted(self, run: str, *, runner: str, driver: Driver, now: datetime) -> None:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run)
                if row is None or row["runner"] != runner or row["state"] not in LIVE:
                    raise ConflictError(f"run '{run}' is no longer executed by {runner}")
                stored = driver_of(row)
                await connection.execute(SQL["submitted"], run, asdict(driver))
                if stored is None or stored.id != driver.id:
                    await record(connection, "run", run, "run.submitted", f"driver {driver.id}", at=now)

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        measured = None if metrics is None else run_metrics.to_json(metrics)
        with translated():
            row = await self._pool.fetchrow(SQL["beat"], run, runner, now, measured)
        if row is None:
            raise ConflictError(f"run '{run}' is no longer executed by {runner}")
        return None if row["stop_requested"] is None else StopRequest(row["stop_requested"], row["stop_at_once"])

    async def finish(self, run: str, ending: RunEnd) -> bool:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run)
                if row is None or RunState(row["state"]).terminal:
                    return False
                if ending.exit_code is not None and await _start(
                    connection, row, row["runner"], ending.at, ending.start
                ):
                    row = {**row, "state": RunState.RUNNING}  # it ended before its start was stored
                if ending.metrics is not None:
                    await connection.execute(SQL["measure"], run, run_metrics.to_json(ending.metrics))
                fact, code = FACTS[ending.state], ending.exit_code
                failure = failure_of(ending.state, code, ending.failure, overdue=row["stop_requested"] == OVERDUE)
                done = await attempts.done_by_commits(connection, row, failure)
                again = None
                if done is None:
                    again = await attempts.planned(connection, row, failure, ending.reason, at=ending.at)
                await end(
                    connection,
                    row,
                    fact if done is None else RunFact.SUCCEEDED,
                    ending.reason if done is None else f"{done}; {ending.reason}",
                    at=ending.at,
                    exit_code=code,
                    announced=again is None,
                    log_tail=ending.log_tail,
                    failure=failure if done is None else None,
                )
                if again is not None:
                    await attempts.make(connection, row, again, at=ending.at)
                elif ending.state is not RunState.COMPLETED:
                    await fences.want(connection, row, at=ending.at, may_live=ending.may_live)
        return True


def satisfaction(row: Any) -> ReadyJob | None:
    """The satisfaction of the run's job, coalesced ones included; None of a manual run."""
    return None if row["ready"] is None else launch.decode(row["ready"].encode())


def assigned(row: Any, ready: ReadyJob | None, schedule: Schedule | None) -> Assignment:
    """The assignment of a run's row, with the current definition of its schedule."""
    return Assignment(
        row["id"],
        row["attempt"],
        stored_program_from_json(row["executable"]),
        row["arguments"],
        row["job"],
        ready,
        schedule,
    )


def driver_of(row: Any) -> Driver | None:
    """The driver of a run's row; None of one that holds something else."""
    stored = row["driver"]
    try:
        return None if stored is None else Driver(stored["id"], stored["master"], stored["logs"])
    except (KeyError, TypeError):
        return None


def _defined(schedule_row: Any | None) -> Schedule | None:
    return None if schedule_row is None else stored_schedule_from_json(schedule_row["definition"])


async def _start(connection: Connection, row: Any, runner: str, now: datetime, how: str) -> bool:
    """STARTING → RUNNING, with status event and history; False when it is not STARTING, or not this runner's."""
    state = RUN_STATES.advance(RunState.STARTING, RunFact.STARTED)
    if await connection.fetchval(SQL["run_moves"], row["id"], runner, RunState.STARTING, state, now, how) is None:
        return False
    await announce(connection, row, state, at=now)
    await record(connection, "run", row["id"], "run.started", how, at=now)
    return True
