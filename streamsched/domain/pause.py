"""How a schedule is paused: what becomes of what it has and of what comes, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError

MOST_FAILURES: Final = 1000


@dataclass(frozen=True, slots=True)
class Pause:
    """How a schedule that is not enabled is disabled.

    Attributes:
        keep: what it has accumulated stays, what comes meanwhile counts (ticks too), its waiting jobs stay where they
            are; nothing starts until it is resumed. Otherwise nothing counts, and all of that is gone.
        until: the timers resume it then (UTC); None: only people do.
        note: who wants it and why, for people.
    """

    keep: bool = False
    until: datetime | None = None
    note: str = ""

    def check(self, now: datetime) -> None:
        """Raises:
        InvalidError: it ends before it begins.
        """
        if self.until is not None and self.until <= now:
            raise InvalidError(
                "$.until", f"must be after now ({now:%Y-%m-%dT%H:%M:%SZ}) but is {self.until.isoformat()}"
            )


@dataclass(frozen=True, slots=True)
class PauseAfter:
    """A schedule that pauses itself when its runs fail.

    Attributes:
        failures: so many jobs in a row, in the order of their satisfaction, whose last run failed: counted since the
            schedule was changed or resumed. A run that somebody killed counts neither way.
        keep: as of a pause.
        lasting: it is resumed after that; None: only people do.
    """

    failures: int
    keep: bool = True
    lasting: timedelta | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.failures <= MOST_FAILURES:
            raise InvalidDefinitionError("$.failures", f"must be 1 to {MOST_FAILURES} but is {self.failures}")
        if self.lasting is not None and self.lasting <= timedelta(0):
            raise InvalidDefinitionError("$.lasting", f"must be positive but is {self.lasting}")

    def pause(self, run: str, reason: str, *, at: datetime) -> Pause:
        """The pause after the last of them, `run`, failed `at` that time (UTC) for that reason."""
        until = None if self.lasting is None else at + self.lasting
        runs = "its run" if self.failures == 1 else f"{self.failures} runs in a row"
        return Pause(self.keep, until, f"paused by itself, for {runs} failed, the last {run}: {reason}")


#: For good, as far as anybody said.
DISABLED: Final = Pause()
