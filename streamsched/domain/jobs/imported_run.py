"""A run that another scheduler made: it becomes a row of the history, and nothing reacts to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.jobs.run import RunState, run_id
from streamsched.domain.limits import EARLIEST, LATEST
from streamsched.domain.names import ProgramRef

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,200}", re.ASCII)
#: Most characters of a reason.
_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """A run that has ended.

    Attributes:
        id: its name, unique for the program: that of the other scheduler and its own there.
        state: a terminal one.
        created_at, started_at, ended_at: in this order (UTC); `started_at` is None of a run that did not start.
        reason: why it ended so, for people.
    """

    program: ProgramRef
    id: str
    state: RunState
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    reason: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise InvalidDefinitionError("$.id", "must be 1 to 200 letters, digits, '_' and '-'")
        if not self.state.is_terminal:
            raise InvalidDefinitionError("$.state", f"is {self.state}: it has not ended")
        if self.started_at is None and self.state is RunState.COMPLETED:
            raise InvalidDefinitionError("$.startedAt", "is missing of a run that completed")
        times = [each for each in (self.created_at, self.started_at, self.ended_at) if each is not None]
        if sorted(times) != times:
            raise InvalidDefinitionError("$.endedAt", "it was created, started and ended in another order")
        if not times[0] >= EARLIEST or not times[-1] < LATEST:
            raise InvalidDefinitionError("$.endedAt", f"must be from {EARLIEST.year} to {LATEST.year}")
        if len(self.reason) > _REASON:
            raise InvalidDefinitionError("$.reason", f"must have at most {_REASON} characters")

    @property
    def run(self) -> str:
        """Its id among the runs: a repeated import has the same."""
        return run_id(f"{self.program}.{self.id}", 1)
