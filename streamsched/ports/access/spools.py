"""Whose the spools on a launcher's host are, and what was refused of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.names import ProgramRef


@dataclass(frozen=True, slots=True)
class SpoolingRun:
    """A run as its row says. `active`: it has not ended, so it may spool more."""

    run: str
    program: ProgramRef
    active: bool


@dataclass(frozen=True, slots=True)
class RefusedLines:
    """Lines refused of the spool of a run on a host; `run` "": of what lies in no folder of a known run.

    Attributes:
        reason: of the last one; `at`: when it was refused.
    """

    host: str
    run: str
    lines: int
    reason: str
    at: datetime


class SpoolStore(Protocol):
    """Each method raises UnavailableError when the store cannot be reached."""

    async def find(self, runs: Sequence[str]) -> Mapping[str, SpoolingRun]:
        """Those of these runs that are known, also ended ones as long as history has them; by their file names
        (`domain.jobs.run.file_name`), which `runs` are too.
        """
        ...

    async def add_refused(self, refused: RefusedLines) -> None:
        """Counts lines as refused, and forgets what was refused more than 30 days before."""
        ...
