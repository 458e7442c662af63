"""What pages read to show how datasets, programs and schedules depend on each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef

#: Most schedules whose links are read.
MOST_LINKED: Final = 20_000

#: Differs from an earlier one when a schedule was stored in between.
CatalogVersion = tuple[int, datetime | None]


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

    state: str
    waiting: int


class LinkReads(Protocol):
    """Each method is one statement, and raises UnavailableError without PostgreSQL."""

    async def catalog_version(self) -> CatalogVersion: ...

    async def links(self, namespaces: Collection[str] | None = None) -> Sequence[ScheduleLinks]:
        """The schedules of these namespaces, or of all, ordered by id, at most `MOST_LINKED`."""
        ...

    async def standings(self, schedules: Sequence[str]) -> Mapping[str, ScheduleStanding]:
        """Those that exist."""
        ...

    async def graphs(self, namespaces: Collection[str] | None, *, text: str, limit: int) -> Sequence[AppRef]:
        """The first apps by name that have a graph of tasks, of these namespaces or of all, with `text` in their
        names, in any case.
        """
        ...

    async def has_graph(self, app: AppRef) -> bool:
        """Whether the app has a graph of tasks."""
        ...

    async def last_runs(self, programs: Sequence[str]) -> Mapping[str, RunState]:
        """The state of the newest run of each program; those without one are missing."""
        ...
