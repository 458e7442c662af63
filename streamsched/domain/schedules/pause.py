"""How a schedule is paused: whether it keeps its accumulation and its waiting jobs, and until when.

Pausing and disabling are different states. A schedule that is not enabled and has a `Pause` is paused; one that is not
enabled and has none is disabled. Disabling always drops the accumulation and ends the waiting jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.limits import check_count, check_duration, check_instant, later

MOST_FAILURES: Final = 1000


@dataclass(frozen=True, slots=True)
class Pause:
    """A paused schedule starts nothing until it is resumed.

    Attributes:
        keep: the accumulation and the waiting jobs stay, and events and ticks that arrive meanwhile count. Without it
            the accumulation is dropped, the waiting jobs end as OBSOLETE, and nothing counts until it is resumed.
        until: the timers resume it then (UTC); None: it is resumed by request only.
        note: shown with the schedule while it is paused.
    """

    keep: bool = True
    until: datetime | None = None
    note: str = ""

    def check(self, now: datetime) -> None:
        """Raises:
        InvalidError: it ends before it begins, or beyond the calendar of definitions.
        """
        if self.until is not None and self.until <= now:
            raise InvalidError(
                "$.until", f"must be after now ({now:%Y-%m-%dT%H:%M:%SZ}) but is {self.until.isoformat()}"
            )
        if self.until is not None:
            check_instant(self.until, "$.until")


@dataclass(frozen=True, slots=True)
class PauseAfter:
    """A schedule that pauses itself when its runs fail.

    Attributes:
        failures: number of consecutive jobs, in order of satisfaction, whose last run failed, counted since the
            schedule was changed or resumed. A run killed by request is ignored.
        keep: as `Pause.keep`.
        lasting: resumed after this time; None: only by request.
    """

    failures: int
    keep: bool = True
    lasting: timedelta | None = None

    def __post_init__(self) -> None:
        check_count(self.failures, "$.failures", most=MOST_FAILURES)
        if self.lasting is not None:
            check_duration(self.lasting, "$.lasting")

    def pause(self, run: str, reason: str, *, at: datetime) -> Pause:
        """The pause after the last failure: of `run`, at `at` (UTC), for `reason`."""
        until = None if self.lasting is None else later(at, self.lasting)
        runs = "its run" if self.failures == 1 else f"{self.failures} runs in a row"
        return Pause(self.keep, until, f"paused by itself, for {runs} failed, the last {run}: {reason}")
