"""The wall clock and the monotonic clock, which no other module reads to know the time; and the database's clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from streamsched.domain.clock_judge import ClockFact, ClockProposal, ClockRecord
from streamsched.domain.time.duration import duration_text

#: The monotonic clock that counts on while the machine sleeps: Linux has a clock of its own for it.
_COUNTS_ON: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class Clock(Protocol):
    """A source of the present time."""

    def now(self) -> datetime:
        """The present time in UTC."""
        ...

    @property
    def in_doubt(self) -> bool:
        """Whether nothing may expire, be killed or be deleted because of `now` (`domain.clock_judge`)."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def in_doubt(self) -> bool:
        return False


def monotonic() -> float:
    """Seconds since some moment, also those in which the machine slept. A paused virtual machine counts none."""
    return time.monotonic() if _COUNTS_ON is None else time.clock_gettime(_COUNTS_ON)


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


class ClockJudgements(Protocol):
    """What the processes of an installation share about the database's clock."""

    async def state(self) -> ClockState:
        """Raises:
        UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def judge(self, proposal: ClockProposal, *, theirs: datetime, at: datetime, by: str) -> bool:
        """Stores a judgement; False: another has its number, read it. `theirs`, `at`: as in `ClockState`.

        Raises:
            UnavailableError: PostgreSQL is unavailable; whether it was stored is unknown.
        """
        ...


def jump_text(ahead: timedelta) -> str:
    """A jump in words, such as `jumped by 365d ahead`."""
    by = duration_text(timedelta(seconds=max(1, round(abs(ahead).total_seconds()))))
    return f"jumped {by} {'ahead' if ahead > timedelta(0) else 'back'}"
