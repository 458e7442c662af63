"""`ports.programs.fences.FenceStore` on PostgreSQL: columns of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

from streamsched.codec.schedules.schedule import stored_program_from_json
from streamsched.domain.backoff import doubled
from streamsched.domain.jobs.run import run_id
from streamsched.domain.limits import later
from streamsched.domain.programs.output import UNDECLARED, UNFENCED, fence_text
from streamsched.domain.schedules.schedule import InlineExecutable
from streamsched.ports.programs.fences import MOST_TRIES, FenceOrder
from streamsched.ports.runs import Assignment
from streamsched.store.catalog.history import record
from streamsched.store.connections import Connection, translated
from streamsched.store.runs.ending import program_of
from streamsched.store.sql import queries

_SQL: Final = queries("runs/fences")

#: Seconds until a fence is tried again: after the first time, and at most.
_FIRST_S: Final = 90.0
_LONGEST_S: Final = 6 * 3600.0


async def want(connection: Connection, row: Any, *, at: datetime, may_live: bool = True) -> None:
    """Within the end of this `locked` run, which no attempt follows: its fence is due when its process may live, or
    that of an earlier attempt, which was lost. Programs that launchers execute themselves commit nothing.
    """
    program = program_of(row)
    if program is None or isinstance(program.executable, InlineExecutable):
        return
    text, due = (UNFENCED, at) if program.outputs else (UNDECLARED, None)
    earlier = [run_id(row["job"] or row["id"], each) for each in range(1, row["attempt"])]
    await connection.execute(_SQL["want"], row["id"], text, due, may_live, earlier)


class PostgresFenceStore:
    """See `ports.programs.fences.FenceStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def due(self, now: datetime, *, limit: int) -> Sequence[str]:
        pauses = [timedelta(seconds=doubled(_FIRST_S, tries, longest=_LONGEST_S)) for tries in range(MOST_TRIES - 1)]
        again = [later(now, pause) for pause in pauses]
        with translated():
            return [row["id"] for row in await self._pool.fetch(_SQL["due"], now, again, limit)]

    async def order(self, run: str) -> FenceOrder | None:
        with translated():
            row = await self._pool.fetchrow(_SQL["order"], run)
        if row is None:
            return None
        program = stored_program_from_json(row["executable"])
        return FenceOrder(Assignment(row["id"], row["attempt"], program, row["arguments"], row["job"], None, None))

    async def raise_epochs(self, order: FenceOrder) -> frozenset[str]:
        datasets = [str(each.dataset) for each in order.outputs]
        with translated():
            rows = await self._pool.fetch(_SQL["raise_epochs"], datasets, order.job, order.attempt)
        return frozenset(row["dataset"] for row in rows)

    async def written(self, run: str, found: Mapping[str, str], *, now: datetime) -> None:
        text = fence_text(found)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                done = not any(found.values())
                if await connection.fetchval(_SQL["written"], run, text, done) is not None:
                    await record(connection, "run", run, "run.fenced" if done else "run.not_fenced", text, at=now)
