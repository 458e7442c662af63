"""Lateness: what becomes of events that come long after they happened.

The judge is the log: an event is late when it happened more than `after` before the log had it, on a public topic.
That is measured once, where it is taken from there, and travels with it: a worker that is behind makes nothing late,
and a replay finds the same events late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: A shorter delay is none: clocks differ, and every event is on its way for a moment.
SHORTEST: Final = timedelta(seconds=1)


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
        if self.after < SHORTEST:
            raise InvalidDefinitionError("$.after", f"must be at least {SHORTEST} but is {self.after}")

    def judges(self, delay: timedelta) -> bool:
        """Whether an event is late that came so long after it happened."""
        return delay > self.after
