"""Where a run comes from."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.codec.json.scalar import loads
from streamsched.codec.schedules.schedule import program_from_json, schedule_from_json
from streamsched.domain.errors import NotFoundError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.provenance import (
    MOST_CHAINED,
    ChainedRun,
    OriginKind,
    Provenance,
    RunOrigin,
    argument_sources,
    origin_of,
)
from streamsched.domain.schedules.schedule import Schedule
from streamsched.store.connections import Connection
from streamsched.store.runs.run_store import satisfaction
from streamsched.store.sql import Select, queries

_SQL: Final = queries("runs/provenance")


class _SourceRow(NamedTuple):
    job: str | None
    arguments: Mapping[str, str]
    executable: str
    created_at: datetime
    ready: str | None
    schedule: str | None
    updated_at: datetime | None
    preferences: Mapping[str, str] | None
    changed_at: datetime | None
    made: str | None


class _ChainRow(NamedTuple):
    job: str
    rerun_of: str | None
    run: str | None
    attempt: int | None
    state: str | None
    started_at: datetime | None
    ended_at: datetime | None


_RUN: Final = Select(_SQL["run"], _SourceRow)
_CHAIN: Final = Select(_SQL["chain"], _ChainRow)


async def provenance_of(connection: Connection, run: str) -> Provenance:
    """Where a run comes from.

    Raises:
        NotFoundError: no such run.
        InvalidError: its job, program or schedule cannot be read.
    """
    row = await _RUN.fetchrow(connection, run)
    if row is None:
        raise NotFoundError("run", run)
    ready = satisfaction(row.ready)
    schedule = None if row.schedule is None else schedule_from_json(loads(row.schedule, "$"))
    program = program_from_json(loads(row.executable, "$"))
    changed = (("schedule", row.updated_at), ("preferences", row.changed_at))
    chain = [] if row.job is None else await _CHAIN.fetch(connection, row.job, MOST_CHAINED)
    return Provenance(
        RunOrigin(OriginKind.START, row.made or "by hand") if ready is None else origin_of(ready),
        argument_sources(row.arguments, program, row.preferences or {}, schedule, ready),
        tuple(what for what, at in changed if at is not None and at > row.created_at),
        [_run_from_row(each) for each in chain],
    )


async def satisfaction_of(connection: Connection, run: str) -> tuple[ReadyJob, Schedule] | None:
    """The satisfaction of a run's job, and its schedule as it is now; None of a run without one, or of a deleted one.

    Raises:
        NotFoundError: no such run.
        InvalidError: one of them cannot be read.
    """
    row = await _RUN.fetchrow(connection, run)
    if row is None:
        raise NotFoundError("run", run)
    ready = satisfaction(row.ready)
    return None if ready is None or row.schedule is None else (ready, schedule_from_json(loads(row.schedule, "$")))


def _run_from_row(row: _ChainRow) -> ChainedRun:
    state = None if row.state is None else RunState(row.state)
    return ChainedRun(row.job, row.run, row.attempt, state, row.rerun_of, row.started_at, row.ended_at)
