"""Deadlines of jobs, kept until they are due. Times are UTC."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from streamsched.domain.deadline import Miss


class Watched(NamedTuple):
    """A deadline by its job, the run it is about (or "") and its place in the schedule."""

    job: str
    run: str
    place: int


class Deadlines(Protocol):
    """The durable side; any number of instances may share it. All raise `UnavailableError` when PostgreSQL is away."""

    async def due(self, now: datetime, *, limit: int) -> Sequence[Watched]:
        """Those whose time has come, the longest over first; others may have them too."""
        ...

    async def settle(self, watched: Watched, *, now: datetime) -> Miss | None:
        """Judges a deadline that is due, and does what it says if it was missed: history, event, and what it wants
        done are one transaction with its end, so each happens once. None: it was kept, or somebody else has it.
        """
        ...

    async def next_due(self) -> datetime | None:
        """When the next one's time comes."""
        ...
