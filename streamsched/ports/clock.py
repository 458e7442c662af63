"""The wall clock and the monotonic clock, which no other module reads to know the time."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final, Protocol

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
        """As `Clock.now`."""
        return datetime.now(UTC)

    @property
    def in_doubt(self) -> bool:
        """Never."""
        return False


def monotonic() -> float:
    """Seconds since some moment, also those in which the machine slept. A paused virtual machine counts none."""
    return time.monotonic() if _COUNTS_ON is None else time.clock_gettime(_COUNTS_ON)
