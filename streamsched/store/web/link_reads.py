"""What pages read to show how datasets, programs and schedules depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

#: Most schedules whose links are read.
MOST_LINKED: Final = 20_000


class CatalogVersion(NamedTuple):
    """Differs from an earlier one when a schedule was stored in between."""

    schedules: int
    changed_at: datetime | None


class ScheduleLinks(NamedTuple):
    """A schedule with what it waits for and what it runs.

    Attributes:
        listens: pairs of a kind (`dataset`, `stream`, `event` or `program`) and an id, without repetition.
    """

    schedule: str
    program: str
    listens: tuple[tuple[str, str], ...]


class ScheduleStanding(NamedTuple):
    """A schedule now. `state`: `enabled`, `paused`, `disabled` or `error`; `waiting`: jobs that wait."""

    schedule: str
    state: str
    waiting: int


class _Links(NamedTuple):
    schedule: str
    program: str
    listens: list[str]


class _LastRun(NamedTuple):
    program: str
    state: str | None


_SQL: Final = queries("web/link_reads")
_CATALOG_VERSION: Final = Select(_SQL["catalog_version"], CatalogVersion)
_LINKS: Final = Select(_SQL["links"], _Links)
_STANDINGS: Final = Select(_SQL["standings"], ScheduleStanding)
_LAST_RUNS: Final = Select(_SQL["last_runs"], _LastRun)


class LinkReads:
    """Each method is one statement, and raises UnavailableError without PostgreSQL."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def catalog_version(self) -> CatalogVersion:
        """The version of the catalog."""
        with translate_errors():
            return await _CATALOG_VERSION.fetch_one(self._pool)

    async def links(self, namespaces: Collection[str] | None = None) -> Sequence[ScheduleLinks]:
        """The schedules of these namespaces, or of all, ordered by id, at most `MOST_LINKED`."""
        with translate_errors():
            rows = await _LINKS.fetch(self._pool, MOST_LINKED, None if namespaces is None else list(namespaces))
        return [ScheduleLinks(row.schedule, row.program, tuple(map(_pair, row.listens))) for row in rows]

    async def standings(self, schedules: Sequence[str]) -> Mapping[str, ScheduleStanding]:
        """Those that exist, by schedule."""
        with translate_errors():
            return {row.schedule: row for row in await _STANDINGS.fetch(self._pool, schedules)}

    async def graphs(self, namespaces: Collection[str] | None, *, text: str, limit: int) -> Sequence[AppRef]:
        """The first apps by name that have a graph of tasks, of these namespaces or of all, with `text` in their
        names, in any case.
        """
        given = None if namespaces is None else list(namespaces)
        with translate_errors():
            return [AppRef.parse(app) for (app,) in await self._pool.fetch(_SQL["graphs"], limit, given, text)]

    async def has_graph(self, app: AppRef) -> bool:
        """Whether the app has a graph of tasks."""
        with translate_errors():
            return bool(await self._pool.fetchval(_SQL["has_graph"], str(app)))

    async def last_runs(self, programs: Sequence[str]) -> Mapping[str, RunState]:
        """The state of the newest run of each program; those without one are missing."""
        with translate_errors():
            rows = await _LAST_RUNS.fetch(self._pool, programs)
        return {row.program: RunState(row.state) for row in rows if row.state is not None}


def _pair(text: str) -> tuple[str, str]:
    kind, _, name = text.partition(" ")
    return kind, name
