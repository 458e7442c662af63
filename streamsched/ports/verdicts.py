"""What became of events: the copy of topic `verdicts` that people ask."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from streamsched.domain.finding import Finding
from streamsched.ports.intake import IntakeStore

#: What one record tells.
Page = Sequence[Finding]


class VerdictStore(IntakeStore[Page], Protocol):
    """Where pages are kept, for a time."""

    async def forget(self, *, before: datetime) -> int:
        """Drops what was found on days (UTC) that ended before then; how many days.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


class Verdicts(Protocol):
    """What people ask."""

    async def of(self, event: str, *, source: str | None = None, limit: int = 100) -> Sequence[Finding]:
        """The findings about one event, oldest first; of any source when none is named.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...
