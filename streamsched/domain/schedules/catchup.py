"""Catch-up: how many missed ticks are fired afterwards, and how fast."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from streamsched.domain.limits import check_count, check_duration

#: Maximum of `window` and `spacing`.
_LONGEST: Final = timedelta(days=3650)
#: Maximum of `at_most`.
MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Bounds for a schedule whose misfire policy fires missed ticks.

    Attributes:
        window: ticks missed by more than this are skipped; None: no limit.
        at_most: of more missed ticks only the newest are fired.
        spacing: real time between two caught-up ticks; ticks that become due meanwhile are queued behind them.
    """

    window: timedelta | None = None
    at_most: int = 100
    spacing: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.window is not None:
            check_duration(self.window, "$.window", longest=_LONGEST)
        check_count(self.at_most, "$.at_most", most=MOST)
        check_duration(self.spacing, "$.spacing", zero=True, longest=_LONGEST)


UNBOUNDED: Final = CatchUp()
