"""What a schedule says of a program of another namespace that it waits for and that was deleted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from streamsched.domain.names import ProgramRef


@dataclass(frozen=True, slots=True)
class RemovedProgram:
    """A program that was deleted while a schedule of another namespace waited for it, and that was not deployed again.

    Attributes:
        at: when it was deleted (UTC).
        by: the name of the caller who deleted it; empty when it is not known.
    """

    program: ProgramRef
    at: datetime
    by: str

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """What the schedule says of it."""
        by = f" by {self.by}" if self.by else ""
        return f"waits for {self.program}, which was deleted{by} at {self.at:%Y-%m-%d %H:%M:%S}Z"
