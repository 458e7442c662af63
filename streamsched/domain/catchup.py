"""How many of the ticks that were missed are made up for, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: Nothing is made up for that is older, or slower, than this.
_LONGEST: Final = timedelta(days=3650)
#: The most ticks one absence may bring back; more is a backfill, not a catch-up.
MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Bounds for a schedule whose misfire policy makes up for missed ticks.

    Attributes:
        window: ticks missed by longer than this are passed over; None makes up for any.
        at_most: of more ticks than this the newest are made up for.
        spacing: real time between two that are made up for; ticks that come due meanwhile wait behind them.
    """

    window: timedelta | None = None
    at_most: int = 100
    spacing: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.window is not None and not timedelta(0) < self.window <= _LONGEST:
            raise InvalidDefinitionError("$.window", f"must be positive and at most ten years but is {self.window}")
        if not 1 <= self.at_most <= MOST:
            raise InvalidDefinitionError("$.atMost", f"must be from 1 to {MOST} but is {self.at_most}")
        if not timedelta(0) <= self.spacing <= _LONGEST:
            raise InvalidDefinitionError("$.spacing", f"must be from 0 to ten years but is {self.spacing}")


UNBOUNDED: Final = CatchUp()
