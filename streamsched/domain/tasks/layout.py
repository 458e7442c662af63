"""How many partitions lanes have, and how their number changes while tasks are delivered.

    asked for ──► taken: owners have all new partitions ──► new lanes go to them ──► the others moved: settled

A lane is served in the partition of its row, wherever new lanes go, so all are served at every moment of a change.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from streamsched.domain.limits import check_count

#: The most partitions: an owner asks each of its partitions for each queue.
MOST_PARTITIONS: Final = 256


class LayoutStep(StrEnum):
    """What is to do next. AWAIT_OWNERS: partitions that lanes are to go to have no owner yet. SWITCH: new lanes go to
    the wanted partitions from now on. MOVE: lanes are moved there, and then the rest is given up.
    """

    NOTHING = "nothing"
    AWAIT_OWNERS = "await_owners"
    SWITCH = "switch"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class TaskLayout:
    """Attributes:
    partitions: new lanes go to the first so many.
    wanted: their number after the change that was asked for last.
    settled: whether all lanes are where new ones would go.
    """

    partitions: int
    wanted: int
    settled: bool

    def step(self, taken: Collection[int]) -> LayoutStep:
        """`taken`: the partitions that have, or had, an owner. Pure."""
        if self.settled and self.partitions == self.wanted:
            return LayoutStep.NOTHING
        if self.partitions == self.wanted:
            return LayoutStep.MOVE
        return LayoutStep.SWITCH if set(range(self.wanted)) <= set(taken) else LayoutStep.AWAIT_OWNERS


def check_partitions(count: int) -> None:
    """Raises:
    InvalidDefinitionError: it is not from 1 to `MOST_PARTITIONS`.
    """
    check_count(count, "$.partitions", most=MOST_PARTITIONS)
