"""Lateness: what becomes of events that come long after they happened.

The judge is the log: an event is late when it happened more than `after` before its record was appended. So a worker
that is behind makes nothing late, and a replay finds the same events late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from streamsched.domain.errors import InvalidDefinitionError


class OnLate(StrEnum):
    """What becomes of a late event: it counts like any other, it counts nowhere, or it goes aside to topic `late`."""

    ACCEPT = "accept"
    DROP = "drop"
    SIDE = "side"


@dataclass(frozen=True, slots=True)
class Late:
    """A schedule's policy for late events."""

    after: timedelta
    then: OnLate = OnLate.DROP

    def __post_init__(self) -> None:
        if self.after <= timedelta(0):
            raise InvalidDefinitionError("$.after", f"must be positive but is {self.after}")

    def judges(self, happened: datetime, *, at: datetime) -> bool:
        """Whether an event that `happened` then and was appended `at` is late."""
        return happened < at - self.after
