"""Fences of runs that were given up, as launchers write them (ADR 23)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from streamsched.domain.programs.output import ProgramOutput
from streamsched.ports.runs import Assignment

#: How often a fence is tried; then the run says for good that it may still commit.
MOST_TRIES: Final = 12


@dataclass(frozen=True, slots=True)
class FenceOrder:
    """A run whose job is to commit no more."""

    assignment: Assignment

    @property
    def job(self) -> str:
        """The author of its commits: the job, or of a run without one the run."""
        return self.assignment.job or self.assignment.run

    @property
    def attempt(self) -> int:
        """Of the fence: one more than the run's."""
        return self.assignment.attempt + 1

    @property
    def outputs(self) -> Sequence[ProgramOutput]:
        return self.assignment.program.outputs


class FenceStore(Protocol):
    """The fences that are to be written. Every method raises `UnavailableError` when PostgreSQL does not answer."""

    async def due(self, now: datetime, *, limit: int) -> Sequence[str]:
        """Runs to be fenced now, each for one caller; again ever more seldom, until `written` or `MOST_TRIES`."""
        ...

    async def order(self, run: str) -> FenceOrder | None:
        """What is to be fenced; None when there is nothing any more."""
        ...

    async def raise_epochs(self, order: FenceOrder) -> frozenset[str]:
        """Fences the outputs whose commits are rows behind the API; returns their names. Idempotent."""
        ...

    async def written(self, run: str, found: Mapping[str, str], *, now: datetime) -> None:
        """Stores for each output why it is not fenced, "" when it is; the latter for all is not tried again."""
        ...
