"""What a runner writes about the run it executes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.errors import ConflictError
from streamsched.domain.jobs.failure import failure_of
from streamsched.domain.jobs.job import JobFact, ReadyJob
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.limits import add_duration
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.retry import OVERDUE
from streamsched.ports.runner import NO_RUNNER
from streamsched.ports.runs import Assignment, RunEnd, StopRequest
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.runs import attempts, deadlines, fences
from streamsched.store.runs.ending import announce, cancel_pending, current_schedule, end, lock_run, move_job
from streamsched.store.runs.rows import RUN, SQL, LockedSchedule, StoredRun
from streamsched.store.sql import Select
from streamsched.wire.runs import METRICS

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


class _RequestedStop(NamedTuple):
    stop_requested: str | None
    stop_at_once: bool


_BEAT: Final = Select(SQL["beat"], _RequestedStop)


class PostgresRunStore:
    """`ports.runs.RunStore` on PostgreSQL. Each call is one transaction: the run, its job, the history, the event for
    `program-status` and the wake-ups.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, run: str, *, runner: str, log_path: str | None, now: datetime) -> Assignment | None:
        """Gives the run to exactly one runner, PENDING → STARTING; None to all others. Idempotent for the same runner.
        An unattended run is taken over.
        """
        with translate_errors():
            seen = await RUN.fetchrow(self._pool, run)
            if seen is None:
                return None
            ready = satisfaction(seen.ready)  # fixed since the admission; large, so decoded outside the transaction
            async with self._pool.acquire() as connection, connection.transaction():
                row = await lock_run(connection, run)
                if row is None:
                    return None
                repeatable = LIVE if row.taken_over else {RunState.STARTING}
                if row.runner == runner and row.state in repeatable:  # a repeat: the first answer was lost
                    _, schedule = await current_schedule(connection, row)
                    again = _assignment(row, ready, schedule)
                    return replace(again, taken_over=row.taken_over, driver=driver_of(row.driver))
                if row.runner == str(NO_RUNNER) and row.state in LIVE:
                    _, schedule = await current_schedule(connection, row)
                    await connection.execute(SQL["take_over"], run, runner, log_path, now)
                    await record(connection, "run", run, "run.taken_over", f"by runner {runner}", at=now)
                    taken = _assignment(row, ready, schedule)
                    return replace(taken, taken_over=True, driver=driver_of(row.driver))
                if row.state != RunState.PENDING:
                    return None
                if row.stop_requested is not None:
                    await cancel_pending(connection, row, row.stop_requested, at=now)
                    return None
                why, schedule = await current_schedule(connection, row)
                if why is not None:
                    await move_job(connection, row, JobFact.SUPERSEDED, why, at=now)
                    await end(connection, row, RunFact.KILLED, why, at=now)
                    return None
                if schedule is not None and not schedule.admits:
                    await connection.execute(SQL["hold_back"], run)
                    await record(connection, "run", run, "run.held_back", "its schedule is paused", at=now)
                    return None
                state = RUN_STATES.advance(RunState.PENDING, RunFact.CLAIMED)
                assignment = _assignment(row, ready, schedule)
                longest = None if assignment.schedule is None else assignment.schedule.max_duration
                deadline = None if longest is None else add_duration(now, longest)
                await connection.execute(SQL["claim"], run, RunState.PENDING, state, runner, log_path, now, deadline)
                await record(connection, "run", run, "run.claimed", f"by runner {runner}", at=now)
                await move_job(connection, row, JobFact.LAUNCHED, f"run {run}", at=now)
                await deadlines.watch_run(connection, assignment.schedule, row.job, run, now=now)
        return assignment

    async def mark_started(self, run: str, *, runner: str, now: datetime, start: str = "") -> None:
        """STARTING → RUNNING. Idempotent. ConflictError: the run is no longer this runner's."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await RUN.fetchrow(connection, run)
                if row is not None and await _start(connection, row, runner, now, start):
                    return
                row = await RUN.fetchrow(connection, run)
                if row is None or (row.runner, row.state) != (runner, RunState.RUNNING):
                    raise ConflictError(f"run '{run}' is no longer executed by {runner}")

    async def store_driver(self, run: str, *, runner: str, driver: Driver, now: datetime) -> None:
        """Stores the driver in a cluster, for a later runner of the run. Idempotent. ConflictError: the run is no
        longer this runner's.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await lock_run(connection, run)
                if row is None or row.runner != runner or row.state not in LIVE:
                    raise ConflictError(f"run '{run}' is no longer executed by {runner}")
                stored = driver_of(row.driver)
                await connection.execute(SQL["submitted"], run, asdict(driver))
                if stored is None or stored.id != driver.id:
                    await record(connection, "run", run, "run.submitted", f"driver {driver.id}", at=now)

    async def heartbeat(
        self, run: str, *, runner: str, now: datetime, metrics: RunMetrics | None = None
    ) -> StopRequest | None:
        """Stores a heartbeat and the metrics, if any; returns a requested stop. ConflictError: the run is no longer
        this runner's.
        """
        measured = None if metrics is None else METRICS.write(metrics)
        with translate_errors():
            row = await _BEAT.fetchrow(self._pool, run, runner, now, measured)
        if row is None:
            raise ConflictError(f"run '{run}' is no longer executed by {runner}")
        return stop_request(*row)

    async def finish(self, run: str, ending: RunEnd) -> bool:
        """Ends the run and what depends on it; False when it had ended already."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await lock_run(connection, run)
                if row is None or RunState(row.state).is_terminal:
                    return False
                if ending.exit_code is not None and await _start(connection, row, row.runner, ending.at, ending.start):
                    row = row._replace(state=RunState.RUNNING)  # it ended before its start was stored
                if ending.metrics is not None:
                    await connection.execute(SQL["measure"], run, METRICS.write(ending.metrics))
                fact, code = FACTS[ending.state], ending.exit_code
                failure = failure_of(ending.state, code, ending.failure, overdue=row.stop_requested == OVERDUE)
                done = await attempts.check_commits(connection, row, failure)
                again = None
                if done is None:
                    again = await attempts.plan_attempt(connection, row, failure, ending.reason, at=ending.at)
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
                    await attempts.make_attempt(connection, row, again, at=ending.at)
                elif ending.state is not RunState.COMPLETED:
                    await fences.request_fence(connection, row, at=ending.at, may_live=ending.may_live)
        return True


def satisfaction(ready: str | None) -> ReadyJob | None:
    """The satisfaction of a run's job, coalesced ones included; None of a manual run."""
    return None if ready is None else launch.decode(ready.encode())


def stop_request(why: str | None, at_once: bool) -> StopRequest | None:
    """As a run's row says; None without one."""
    return None if why is None else StopRequest(why, at_once)


def driver_of(stored: Any) -> Driver | None:
    """The driver that a row holds; None when it holds something else."""
    try:
        return None if stored is None else Driver(stored["id"], stored["master"], stored["logs"])
    except (KeyError, TypeError):
        return None


def _assignment(row: StoredRun, ready: ReadyJob | None, schedule: LockedSchedule | None) -> Assignment:
    program = program_from_json(row.executable)
    definition = None if schedule is None else schedule_from_json(schedule.definition)
    return Assignment(row.id, row.attempt, program, row.arguments, row.job, ready, definition)


async def _start(connection: Connection, row: StoredRun, runner: str | None, now: datetime, how: str) -> bool:
    """STARTING → RUNNING, with status event and history; False when it is not STARTING, or not this runner's."""
    state = RUN_STATES.advance(RunState.STARTING, RunFact.STARTED)
    if await connection.fetchval(SQL["run_moves"], row.id, runner, RunState.STARTING, state, now, how) is None:
        return False
    await announce(connection, row, state, at=now)
    await record(connection, "run", row.id, "run.started", how, at=now)
    return True
