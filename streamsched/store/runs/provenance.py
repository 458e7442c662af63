"""Where a run comes from, read from PostgreSQL (`ports.runs.RunQueries.provenance`)."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.json.scalar import loads
from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import stored_program_from_json, stored_schedule_from_json
from streamsched.domain.errors import NotFoundError
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
from streamsched.store.connections import Connection
from streamsched.store.sql import queries

_SQL: Final = queries("runs/provenance")


async def provenance_of(connection: Connection, run: str) -> Provenance:
    """Where a run comes from.

    Raises:
        NotFoundError: no such run.
        InvalidError: its job, program or schedule cannot be read.
    """
    row = await connection.fetchrow(_SQL["run"], run)
    if row is None:
        raise NotFoundError("run", run)
    ready = None if row["ready"] is None else launch.decode(row["ready"].encode())
    schedule = None if row["schedule"] is None else stored_schedule_from_json(loads(row["schedule"], "$"))
    program = stored_program_from_json(loads(row["executable"], "$"))
    changed = (("schedule", row["updated_at"]), ("preferences", row["changed_at"]))
    chain = [] if row["job"] is None else await connection.fetch(_SQL["chain"], row["job"], MOST_CHAINED)
    return Provenance(
        RunOrigin(OriginKind.START, row["made"] or "by hand") if ready is None else origin_of(ready),
        argument_sources(row["arguments"], program, row["preferences"] or {}, schedule, ready),
        tuple(what for what, at in changed if at is not None and at > row["created_at"]),
        [_chained(each) for each in chain],
    )


def _chained(row: Any) -> ChainedRun:
    state = None if row["state"] is None else RunState(row["state"])
    return ChainedRun(
        row["job"], row["run"], row["attempt"], state, row["rerun_of"], row["started_at"], row["ended_at"]
    )
