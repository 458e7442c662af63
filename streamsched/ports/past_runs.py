"""Runs of another scheduler, added to the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streamsched.domain.jobs.past_run import PastRun


@dataclass(frozen=True, slots=True)
class AddedRuns:
    """What became of runs.

    Attributes:
        added: how many are in the history now that were not.
        known: how many were there already.
        without_program: how many are of programs that are not deployed here, which were left out.
        unknown: these programs.
    """

    added: int = 0
    known: int = 0
    without_program: int = 0
    unknown: tuple[str, ...] = ()


class PastRunStore(Protocol):
    """Several processes may call it at a time."""

    async def add(self, runs: Sequence[PastRun]) -> AddedRuns:
        """Adds runs, at least one and each once, in one transaction. Idempotent by their ids. They start nothing, and
        no message, webhook or expectation is about them; constraints that look back on the last completed run of a
        program see them.

        Raises:
            UnavailableError: PostgreSQL is unavailable, or the history stays locked; call again.
        """
        ...
