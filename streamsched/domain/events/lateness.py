"""Lateness: the policy for events that arrive long after they happened.

An event is late when it happened more than `after` before it was appended to a public topic. The delay is measured once
at ingest and stored with the signal, so a slow worker does not make events late, and a replay finds the same ones late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_duration

#: Shorter delays are ignored: clocks differ, and every event has some latency.
SHORTEST: Final = timedelta(seconds=1)


class OnLate(StrEnum):
    """The policy for a late event: it counts, it is dropped, or it is appended to topic `late` without counting."""

    ACCEPT = "accept"
    DROP = "drop"
    SIDE_OUTPUT = "side"


@dataclass(frozen=True, slots=True)
class Late:
    """A schedule's policy for late events."""

    after: timedelta
    then: OnLate = OnLate.DROP

    def __post_init__(self) -> None:
        if self.after < SHORTEST:
            raise InvalidDefinitionError("$.after", f"must be at least {SHORTEST} but is {self.after}")
        check_duration(self.after, "$.after")

    def judges(self, delay: timedelta) -> bool:
        """Whether an event with this delay is late."""
        return delay > self.after
