"""The number of partitions of lanes, and how it is changed in operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from streamsched.domain.tasks.layout import LayoutStep, TaskLayout

#: What owners read that know that lanes change their partition; those of earlier releases read 2.
READS: Final = 3


class MoveResult(StrEnum):
    """DONE: no lane is to move any more. BUSY: lanes in flight are left, or lanes could not be locked; try again.
    LEFT: lanes are to be moved again, perhaps to another number of partitions.
    """

    DONE = "done"
    BUSY = "busy"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class PartitionsRecord:
    """Attributes:
    served: the partitions that owners share, in order, each with the epoch of its owner; 0: it never had one.
    """

    layout: TaskLayout
    served: Mapping[int, int]

    @property
    def taken(self) -> frozenset[int]:
        """The partitions that have, or had, an owner."""
        return frozenset(partition for partition, epoch in self.served.items() if epoch)

    @property
    def step(self) -> LayoutStep:
        """What is to do next."""
        return self.layout.step(self.taken)


class TaskPartitions(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def get(self) -> PartitionsRecord:
        """The present state."""
        ...

    async def want(self, partitions: int) -> PartitionsRecord:
        """Asks for another number; owners change it from then on. Idempotent; a later call replaces an earlier one.

        Raises:
            InvalidDefinitionError: it is not from 1 to `MOST_PARTITIONS`.
            ConflictError: an owner of an earlier release was alive in the last minute; nothing was changed.
        """
        ...

    async def switch(self, partitions: int) -> None:
        """New lanes go to so many partitions, if that is still the wanted number."""
        ...

    async def move(self, after: str, *, limit: int) -> tuple[str | None, int]:
        """Moves those of the lanes after an id, at most `limit`, that are not where new ones would go and not in
        flight. Returns the id to continue after, None after the last lane, and how many were moved.
        """
        ...

    async def settle(self, partitions: int) -> MoveResult:
        """Gives up the partitions to which lanes no longer go, and ends the change to this number. When there are such,
        nothing else writes lanes meanwhile, at most a second.
        """
        ...
