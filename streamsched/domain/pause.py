"""How a schedule is paused: what becomes of what it has and of what comes, and until when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from streamsched.domain.errors import InvalidError


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


#: For good, as far as anybody said.
DISABLED: Final = Pause()
