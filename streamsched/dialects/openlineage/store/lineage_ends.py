"""How runs that OpenLineage tells of have ended: the first end counts, because each has an event key of its own, where
a contradiction could not be seen.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.events.event import Outcome
from streamsched.domain.limits import add_duration
from streamsched.domain.names import ProgramRef
from streamsched.ports.clock import Clock
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import fetch_value, queries

_SQL: Final = queries("lineage_ends", "streamsched.dialects.openlineage.store")
#: How long an end is known.
_KEPT: Final = timedelta(days=30)


def make_ends(pool: Pool, _: Clock) -> LineageEnds:
    """What the route uses."""
    return LineageEnds(pool)


class LineageEnds:
    """Ends of runs by program and run id."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def end(self, program: ProgramRef, run: str, outcome: Outcome, now: datetime) -> Outcome:
        """Stores the outcome if it is the run's first. Returns the first one. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            arguments = str(program), run, outcome.value, now, add_duration(now, -_KEPT)
            return Outcome(await fetch_value(self._pool, _SQL["end"], str, *arguments))
