"""The number of partitions of lanes, and how it is changed in operation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import asyncpg

from streamsched.domain.tasks.layout import LayoutStep, TaskLayout, check_partitions
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries

_SQL: Final = queries("tasks/partitions")


class _LanesLeft(NamedTuple):
    movable: bool
    some: bool


class _Layout(NamedTuple):
    partitions: int
    wanted: int
    settled: bool
    served: list[tuple[int, int]]


class _MovedLanes(NamedTuple):
    last: str | None
    moved: int


_LEFT_BEHIND: Final = Select(_SQL["left_behind"], _LanesLeft)
_LAYOUT: Final = Select(_SQL["layout"], _Layout)
_MOVE: Final = Select(_SQL["move"], _MovedLanes)

#: The newest version of lanes that owners of this release read (ADR 5).
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
    def taken_partitions(self) -> frozenset[int]:
        """The partitions that have, or had, an owner."""
        return frozenset(partition for partition, epoch in self.served.items() if epoch)

    @property
    def step(self) -> LayoutStep:
        """What is to do next."""
        return self.layout.step(self.taken_partitions)


class TaskPartitions:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def get(self) -> PartitionsRecord:
        """The present state."""
        with translate_errors():
            row = await _LAYOUT.fetch_one(self._pool)
        return PartitionsRecord(TaskLayout(row.partitions, row.wanted, row.settled), dict(row.served))

    async def want(self, partitions: int) -> PartitionsRecord:
        """Asks for another number; owners change it from then on. Idempotent; a later call replaces an earlier one.

        Raises:
            InvalidDefinitionError: it is not from 1 to `MOST_PARTITIONS`.
        """
        check_partitions(partitions)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                changed = await connection.fetchval(_SQL["want"], partitions)
                if changed is not None:
                    await connection.execute(_SQL["add"], partitions)
        return await self.get()

    async def switch(self, partitions: int) -> None:
        """New lanes go to so many partitions, if that is still the wanted number."""
        with translate_errors():
            await self._pool.execute(_SQL["switch"], partitions)

    async def move(self, after: str, *, limit: int) -> tuple[str | None, int]:
        """Moves those of the lanes after an id, at most `limit`, that are not where new ones would go and not in
        flight. Returns the id to continue after, None after the last lane, and how many were moved.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                lanes = await _MOVE.fetch_one(connection, after, limit)
                if lanes.moved:
                    await connection.execute(_SQL["notify"])
        return lanes

    async def settle(self, partitions: int) -> MoveResult:
        """Gives up the partitions to which lanes no longer go, and ends the change to this number. When there are such,
        nothing else writes lanes meanwhile, at most a second.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["lock_layout"], partitions) is None:
                    return MoveResult.LEFT
                if await fetch_value(connection, _SQL["surplus"], bool):
                    left = await _find_lanes_left(connection)
                    if left is not None:
                        return left
                    try:
                        await _lock_lanes(connection)
                    except asyncpg.LockNotAvailableError:
                        return MoveResult.BUSY
                    left = await _find_lanes_left(connection)  # registrations may have made lanes before the lock
                    if left is not None:
                        return left
                    await connection.execute(_SQL["disable_failing"])
                await connection.execute(_SQL["settle"])
                return MoveResult.DONE


async def _find_lanes_left(connection: Connection) -> MoveResult | None:
    """Why partitions cannot be given up; None: they can."""
    behind = await _LEFT_BEHIND.fetch_one(connection)
    if not behind.some:
        return None
    return MoveResult.LEFT if behind.movable else MoveResult.BUSY


async def _lock_lanes(connection: Connection) -> None:
    async with connection.transaction():  # a savepoint: the lock may not be had
        await connection.execute(_SQL["patience"])
        await connection.execute(_SQL["lock_lanes"])
