"""`ports.runs.RunQueries` on PostgreSQL: runs as the API, CLI and UI read, start and stop them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from streamsched.codec.views import run_commits, run_metrics
from streamsched.codec.views.trace import trace_of
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.failure import Failure, failure_of
from streamsched.domain.jobs.run import RunState, run_id
from streamsched.domain.jobs.spans import manual_trace
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.provenance import Provenance
from streamsched.ports.runs import RunRecord, StopRequest
from streamsched.store.catalog.history import record
from streamsched.store.connections import NEWEST, translated
from streamsched.store.runs.ending import SQL, cancel_pending, locked
from streamsched.store.runs.manual_runs import make_run
from streamsched.store.runs.provenance import provenance_of
from streamsched.store.runs.run_store import driver_of


class PostgresRunQueries:
    """See `ports.runs.RunQueries`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self, run: str) -> RunRecord:
        with translated():
            row = await self._pool.fetchrow(SQL["get"], run)
        if row is None:
            raise NotFoundError("run", run)
        return _record(row)

    async def provenance(self, run: str) -> Provenance:
        with translated():
            async with (
                self._pool.acquire() as connection,
                connection.transaction(isolation="repeatable_read", readonly=True),
            ):
                return await provenance_of(connection, run)

    async def recent(
        self,
        *,
        program: ProgramRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[RunState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[RunRecord]:
        filters = (program and str(program), list(states), limit, str(app) if app else namespace)
        with translated():
            rows = await self._pool.fetch(SQL["recent"], *filters, *(before or NEWEST))
            return [_record(row) for row in rows]

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
        run = run_id(f"{program}.manual-{token}", 1)
        with translated():
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
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await locked(connection, run)
                if row is None:
                    raise NotFoundError("run", run)
                if RunState(row["state"]).terminal:
                    raise ConflictError(f"run '{run}' has ended already: {row['state']}")
                await record(connection, "run", run, "run.stop_requested", stop.why, at=now)
                if row["state"] == RunState.PENDING:
                    await cancel_pending(connection, row, stop.why, at=now)
                else:
                    await connection.execute(SQL["request_stop"], run, stop.why, stop.at_once)


def _object(stored: Any) -> Mapping[str, str]:
    """Arguments as they are shown. A row may hold anything; a run whose arguments are no object is shown without."""
    return stored if isinstance(stored, dict) else {}


def _record(row: Any) -> RunRecord:
    return RunRecord(
        id=row["id"],
        job=row["job"],
        schedule=None if row["schedule"] is None else ScheduleRef.parse(row["schedule"]),
        attempt=row["attempt"],
        program=ProgramRef.parse(row["program"]),
        arguments=_object(row["arguments"]),
        state=RunState(row["state"]),
        reason=row["reason"],
        created_at=row["created_at"],
        started_at=row["started_at"],
        ended_at=row["ended_at"],
        exit_code=row["exit_code"],
        runner=row["runner"],
        heartbeat_at=row["heartbeat_at"],
        log_path=row["log_path"],
        muted=bool(row["muted"]),
        rerun_of=row.get("rerun_of"),
        start=row["start"],
        metrics=run_metrics.stored_from_json(row["metrics"]),
        driver=driver_of(row),
        trace=None if "traced" not in row else _trace(row),
        failure=_failure(row),
        bundle=_object(row["executable"]).get("bundle"),
        fence=row["fence"],
        generation=row.get("generation"),
        commits=run_commits.commit_views(row["commits"]) if "traced" in row else (),
    )


def _failure(row: Any) -> Failure | None:
    """That of a stored end; of another release, or of several at once, from the state alone."""
    stored = row["failure"]
    return Failure(stored) if stored in tuple(Failure) else failure_of(RunState(row["state"]), row["exit_code"])


def _trace(row: Any) -> str | None:
    if row["job"] is None:
        return None if row["spans"] is None else manual_trace(row["id"])
    return trace_of(row["job"], row["traced"], row["spans"])
