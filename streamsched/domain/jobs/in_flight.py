"""How many inline runs a launcher holds at a time: as many as it can keep up with.

The window grows while it is full and the process keeps up, and shrinks when the process is slow. So a launcher holds
what it executes within about a second, and what it waits for without work of its own: requests to slow servers.

    >>> window = InFlightWindow(most=1000)
    >>> window.size, window.adjust(held=64, load=0.1).size, window.adjust(held=64, load=2.0).size
    (64, 128, 64)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

#: The size of a new window, and the least size: a step has a fixed cost, which fewer runs would not reduce.
FIRST: Final = 64

#: Below this load a full window grows.
_LIGHT: Final = 0.5
#: A window of which less than this fraction is used shrinks, so that it does not meet the next burst at its full size.
_USED: Final = 1 / 8
#: The delays, in seconds, that mean a load of 1: of one step against PostgreSQL, and of a due timer of the event loop.
_STEP_S: Final = 1.0
_LAG_S: Final = 0.25


def load_of(*, step_s: float, lag_s: float) -> float:
    """The load of a process; above 1 it does not keep up.

    Args:
        step_s: seconds that its last step against PostgreSQL took.
        lag_s: seconds by which its event loop was late for a timer.
    """
    return max(step_s / _STEP_S, lag_s / _LAG_S)


@dataclass(frozen=True, slots=True)
class InFlightWindow:
    """The number of runs held at a time, from `FIRST` to `most`; `most` where that is less."""

    most: int
    size: int = FIRST

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", max(min(self.size, self.most), min(FIRST, self.most)))

    def adjust(self, *, held: int, load: float) -> InFlightWindow:
        """The next window, after runs were `held` under this `load`: half as large above 1, twice as large when it was
        full and the load light; a window that is hardly used returns to `FIRST`.
        """
        if load > 1:
            return replace(self, size=self.size // 2)
        if held >= self.size and load < _LIGHT:
            return replace(self, size=self.size * 2)
        if held < self.size * _USED:
            return replace(self, size=self.size // 2)
        return self
