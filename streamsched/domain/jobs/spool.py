"""Whose the spools on a launcher's host are, and what was refused of them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from streamsched.domain.names import ProgramRef


class SpoolingRun(NamedTuple):
    """A run as its row says. `active`: it has not ended, so it may spool more."""

    run: str
    program: ProgramRef
    active: bool


class RefusedLines(NamedTuple):
    """Lines refused of the spool of a run on a host; `run` "": of what lies in no folder of a known run.

    Attributes:
        reason: of the last one; `at`: when it was refused.
    """

    host: str
    run: str
    lines: int
    reason: str
    at: datetime
