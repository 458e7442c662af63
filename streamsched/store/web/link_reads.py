"""`ports.web.link_reads.LinkReads` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import asyncpg

from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef
from streamsched.ports.web.link_reads import MOST_LINKED, CatalogVersion, ScheduleLinks, ScheduleStanding
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("web/link_reads")


class PostgresLinkReads:
    """See `ports.web.link_reads.LinkReads`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def catalog_version(self) -> CatalogVersion:
        with translated():
            row = await self._pool.fetchrow(_SQL["catalog_version"])
        assert row is not None
        return row["schedules"], row["changed_at"]

    async def links(self, namespaces: Collection[str] | None = None) -> Sequence[ScheduleLinks]:
        with translated():
            rows = await self._pool.fetch(_SQL["links"], MOST_LINKED, None if namespaces is None else list(namespaces))
        return [ScheduleLinks(row["id"], row["program"], tuple(map(_pair, row["listens"]))) for row in rows]

    async def standings(self, schedules: Sequence[str]) -> Mapping[str, ScheduleStanding]:
        with translated():
            rows = await self._pool.fetch(_SQL["standings"], list(schedules))
        return {row["id"]: ScheduleStanding(row["state"], row["waiting"]) for row in rows}

    async def graphs(self, namespaces: Collection[str] | None, *, text: str, limit: int) -> Sequence[AppRef]:
        given = None if namespaces is None else list(namespaces)
        with translated():
            rows = await self._pool.fetch(_SQL["graphs"], limit, given, text)
        return [AppRef.parse(row["app"]) for row in rows]

    async def has_graph(self, app: AppRef) -> bool:
        with translated():
            return bool(await self._pool.fetchval(_SQL["has_graph"], str(app)))

    async def last_runs(self, programs: Sequence[str]) -> Mapping[str, RunState]:
        with translated():
            rows = await self._pool.fetch(_SQL["last_runs"], list(programs))
        return {row["id"]: RunState(row["state"]) for row in rows if row["state"] is not None}


def _pair(text: str) -> tuple[str, str]:
    kind, _, name = text.partition(" ")
    return kind, name
