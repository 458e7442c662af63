"""Where what has ended goes: out of what is alive into a history of days and months, and out of that when it is old."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from streamsched.domain.retention import Part

#: Tables of days: jobs and runs that ended, and what was decided about them.
JOBS: Final = "jobs_history"
RUNS: Final = "runs_history"
WORK: Final = "work_decisions"
#: A table of months: what was done to everything else.
AUDIT: Final = "audit_decisions"


class Place(NamedTuple):
    """Where a walk through what has ended stands: behind this row."""

    created_at: datetime
    id: str


@dataclass(frozen=True, slots=True)
class Leaving:
    """Jobs, or runs started by hand, that have ended: when each was done with all that belongs to it (UTC)."""

    done_at: Mapping[str, datetime]
    last: Place | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """A table of parts, for people: how many there are, since when, how large."""

    table: str
    parts: int
    oldest: datetime | None
    bytes: int


class Archive(Protocol):
    """One process at a time is enough; several do each other no harm. Each call is a short transaction of its own, or
    several. All raise `UnavailableError` when PostgreSQL is away.
    """

    async def lookback(self) -> timedelta:
        """How far the constraints of all schedules look back on runs that have ended.

        Raises:
            InvalidError: one cannot be read by this release.
        """
        ...

    async def ended_jobs(self, before: datetime, *, behind: Place | None, limit: int) -> Leaving:
        """The next jobs that ended before then with all their runs, in the order they came in."""
        ...

    async def ended_runs(self, before: datetime, *, behind: Place | None, limit: int) -> Leaving:
        """The same of runs that were started by hand."""
        ...

    async def move_jobs(self, leaving: Leaving, *, keep_from: datetime) -> int:
        """Puts them into the history with their runs and those that joined them, except what was done before
        `keep_from`: that is gone. Their parts are there. From here on a repeat of their satisfaction from the log
        makes no new job (G3), for ever. Returns how many left.
        """
        ...

    async def move_runs(self, leaving: Leaving, *, keep_from: datetime) -> int:
        """The same of runs that were started by hand."""
        ...

    async def known_runs(self, runs: Sequence[str]) -> Collection[str]:
        """Those of these runs that can still be asked for: alive, ended or in the history."""
        ...

    async def early(self) -> Sequence[tuple[str, datetime]]:
        """History that came before its part was made: table, and an instant of each such part."""
        ...

    async def make(self, table: str, part: Part) -> None:
        """Makes a part of a table, unless it is there; what came early moves into it."""
        ...

    async def drop(self, table: str, *, before: datetime) -> int:
        """Drops the parts that ended by then, the oldest first, without keeping anybody waiting for long: it leaves
        for the next time what is in use. Returns how many.
        """
        ...
