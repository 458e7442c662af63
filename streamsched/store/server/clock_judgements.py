"""What the processes of an installation share about the database's clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.clock_judge import ClockFact, ClockProposal, ClockRecord
from streamsched.domain.time.duration import duration_text
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("server/clock")


@dataclass(frozen=True, slots=True)
class ClockState:
    """The database's clock and the newest judgement about it.

    Attributes:
        theirs: what it says (UTC), within the years 2 to 9998.
        fact: the newest judgement; None: there was none.
        at: when that was (UTC), as processes counted the time.
        judged_by: the process or the person.
    """

    theirs: datetime
    record: ClockRecord
    fact: ClockFact | None = None
    at: datetime | None = None
    judged_by: str = ""

    @property
    def doubt(self) -> str | None:
        """What is wrong with the clock; None: nothing."""
        if not self.record.ahead or self.at is None:
            return None
        return (
            f"{jump_text(self.record.ahead)} at {self.at:%Y-%m-%d %H:%M:%S}Z; it says {self.theirs:%Y-%m-%d %H:%M:%S}Z"
        )


class _Measurement(NamedTuple):
    """The clock, and the newest judgement: all other columns are NULL without one."""

    theirs: datetime
    number: int | None
    fact: str
    ahead_s: float
    until: datetime | None
    at: datetime
    judged_by: str


_MEASUREMENT: Final = Select(_SQL["measure"], _Measurement)


class ClockJudgements:
    """Reads the clock with the newest judgement, and stores judgements."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def state(self) -> ClockState:
        """What is known of PostgreSQL's clock.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            row = await _MEASUREMENT.fetch_one(self._pool)
        if row.number is None:
            return ClockState(row.theirs, ClockRecord())
        record = ClockRecord(row.number, timedelta(seconds=row.ahead_s), row.until)
        return ClockState(row.theirs, record, ClockFact(row.fact), row.at, row.judged_by)

    async def judge(self, proposal: ClockProposal, *, theirs: datetime, at: datetime, by: str) -> bool:
        """Stores a judgement; False: another has its number, read it. `theirs`, `at`: as in `ClockState`.

        Raises:
            UnavailableError: PostgreSQL is unavailable; whether it was stored is unknown.
        """
        record = proposal.record
        with translate_errors():
            stored = await self._pool.fetchval(
                _SQL["judge"],
                *(record.number, proposal.fact.value, record.ahead.total_seconds(), record.until, at, theirs, by),
            )
        return stored is not None


def jump_text(ahead: timedelta) -> str:
    """A jump in words, such as `jumped by 365d ahead`."""
    by = duration_text(timedelta(seconds=max(1, round(abs(ahead).total_seconds()))))
    return f"jumped {by} {'ahead' if ahead > timedelta(0) else 'back'}"
