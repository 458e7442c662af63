"""Runs as the API, CLI and UI read, start and stop them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from streamsched.codec.views.trace import trace_of
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.failure import Failure, failure_of
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState, run_id
from streamsched.domain.jobs.run_metrics import RunMetrics
from streamsched.domain.jobs.spans import manual_trace
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.driver import Driver
from streamsched.domain.schedules.provenance import Provenance
from streamsched.domain.schedules.schedule import Schedule
from streamsched.ports.runs import StopRequest
from streamsched.store.catalog.history import record
from streamsched.store.connections import NEWEST, Pool, translate_errors
from streamsched.store.runs.ending import cancel_pending, lock_run
from streamsched.store.runs.manual_runs import make_run
from streamsched.store.runs.provenance import provenance_of, satisfaction_of
from streamsched.store.runs.rows import SQL
from streamsched.store.runs.run_store import driver_of
from streamsched.store.sql import Select
from streamsched.wire.runs import commits_of, stored_metrics


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A stored run. `job` and `schedule` are None for a manual run. `muted`: no schedule is given its status.
    `rerun_of`: the run that its job repeats; only of a single run, not in lists. `start`: how the process of a Python
    program was started: `warm`, or `cold: ` and the reason. `metrics`: as stored last; None without any. `driver`: of a
    run whose driver is in a cluster. `trace`: the id of its trace; only of a single run, and None without one.
    `failure`: its class, of a run that failed. `bundle`: the digest of the files its program ran with, if they were
    deployed; `generation`: the version of its schedule; only of a single run, and None without one. `commits`: what it
    has committed, as an answer has it; only of a single run. `fence`: whether a run that was given up
    may still commit; None of others.
    """

    id: str
    job: str | None
    schedule: ScheduleRef | None
    attempt: int
    program: ProgramRef
    arguments: Mapping[str, str]
    state: RunState
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    runner: str | None
    heartbeat_at: datetime | None
    log_path: str | None
    muted: bool = False
    rerun_of: str | None = None
    start: str | None = None
    metrics: RunMetrics | None = None
    driver: Driver | None = None
    trace: str | None = None
    failure: Failure | None = None
    bundle: str | None = None
    fence: str | None = None
    generation: int | None = None
    commits: Sequence[Mapping[str, Any]] = ()


class _RunRow(NamedTuple):
    """`traced`: what its trace is derived from; as `rerun_of`, `generation` and `commits` of a single run only."""

    id: str
    job: str | None
    schedule: str | None
    attempt: int
    program: str
    arguments: Any
    state: str
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    exit_code: int | None
    runner: str | None
    heartbeat_at: datetime | None
    log_path: str | None
    muted: bool
    start: str | None
    metrics: Mapping[str, Any] | None
    driver: Any
    failure: str | None
    bundle: str | None
    fence: str | None
    spans: str | None
    generation: int | None
    rerun_of: str | None
    commits: Mapping[str, Any] | None
    traced: Any


class _ActivityRow(NamedTuple):
    program: str
    begun: bool


_GET: Final = Select(SQL["get"], _RunRow)
_RECENT: Final = Select(SQL["recent"], _RunRow)
_ACTIVITY: Final = Select(SQL["activity"], _ActivityRow)


class RunQueries:
    """Reads and operator actions for API, CLI and UI."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self, run: str) -> RunRecord:
        """The run, active or in the history.

        Raises:
            NotFoundError: no such run.
        """
        with translate_errors():
            row = await _GET.fetchrow(self._pool, run)
        if row is None:
            raise NotFoundError("run", run)
        return _record(row)

    async def provenance(self, run: str) -> Provenance:
        """Where a run comes from.

        Raises:
            NotFoundError: no such run.
            InvalidError: its job, program or schedule cannot be read.
        """
        with translate_errors():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await provenance_of(connection, run)

    async def satisfaction(self, run: str) -> tuple[ReadyJob, Schedule] | None:
        """The satisfaction of a run's job, and its schedule as it is now; None of a run without one, or of a deleted
        one.

        Raises:
            NotFoundError: no such run.
            InvalidError: one of them cannot be read.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await satisfaction_of(connection, run)

    async def list_recent(
        self,
        *,
        program: ProgramRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[RunState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[RunRecord]:
        """The newest runs first; of all programs, apps, namespaces and states where none is named; older than
        `before` (time of creation and id of a run), when given.
        """
        filters = (program and str(program), list(states), limit, str(app) if app else namespace)
        with translate_errors():
            return [_record(row) for row in await _RECENT.fetch(self._pool, *filters, *(before or NEWEST))]

    async def activity(self, programs: Collection[ProgramRef]) -> Mapping[ProgramRef, bool]:
        """Of those programs that have a run that has not ended, whether one has begun."""
        with translate_errors():
            rows = await _ACTIVITY.fetch(self._pool, [str(each) for each in programs])
        return {ProgramRef.parse(row.program): row.begun for row in rows}

    async def start(
        self,
        program: ProgramRef,
        arguments: Mapping[str, str],
        *,
        token: str,
        at_most: int | None,
        force: bool,
        now: datetime,
        reason: str = "",
    ) -> str:
        """Makes a PENDING manual run, under the program's lock; `arguments` override preferences of the
        namespace, and these the program's own. It takes the slots and tokens that the program's schedules take. Returns
        its id, `<program>.manual-<token>.r1`; idempotent by `token`. `force` ignores the limits. `reason` is stored in
        its history.

        Raises:
            NotFoundError: no such program.
            ConflictError: `at_most` or more runs of the program are active, or a group or pool is full.
        """
        run = run_id(f"{program}.manual-{token}", 1)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                definition = await connection.fetchval(SQL["lock_program"], str(program))
                if definition is None:
                    raise NotFoundError("program", str(program))
                why = f"by hand: {reason}" if reason else "by hand"
                await make_run(
                    connection, program, definition, run, arguments, why=why, now=now, at_most=at_most, force=force
                )
        return run

    async def stop(self, run: str, stop: StopRequest, *, now: datetime) -> None:
        """Requests the end of the run: a PENDING one ends here, another by its runner within a few seconds.

        Raises:
            NotFoundError: no such run.
            ConflictError: it has ended.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await lock_run(connection, run)
                if row is None:
                    raise NotFoundError("run", run)
                if RunState(row.state).is_terminal:
                    raise ConflictError(f"run '{run}' has ended already: {row.state}")
                await record(connection, "run", run, "run.stop_requested", stop.why, at=now)
                if row.state == RunState.PENDING:
                    await cancel_pending(connection, row, stop.why, at=now)
                else:
                    await connection.execute(SQL["request_stop"], run, stop.why, stop.at_once)


def _record(row: _RunRow) -> RunRecord:
    fields = row._asdict()
    del fields["spans"], fields["traced"]
    fields |= {
        "schedule": None if row.schedule is None else ScheduleRef.parse(row.schedule),
        "program": ProgramRef.parse(row.program),
        "arguments": row.arguments if isinstance(row.arguments, dict) else {},  # a row may hold anything; it is shown
        "state": RunState(row.state),
        "metrics": stored_metrics(row.metrics),
        "driver": driver_of(row.driver),
        "trace": None if row.traced is None else _trace(row),
        "failure": _failure(row),
        "commits": commits_of(row.commits),
    }
    return RunRecord(**fields)


def _failure(row: _RunRow) -> Failure | None:
    """That of a stored end; of another release, or of several at once, from the state alone."""
    stored = row.failure
    return Failure(stored) if stored in tuple(Failure) else failure_of(RunState(row.state), row.exit_code)


def _trace(row: _RunRow) -> str | None:
    if row.job is None:
        return None if row.spans is None else manual_trace(row.id)
    return trace_of(row.job, row.traced, row.spans)
