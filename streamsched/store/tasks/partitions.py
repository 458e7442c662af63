"""`ports.tasks.partitions.TaskPartitions` on PostgreSQL."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, NamedTuple

import asyncpg

from streamsched.domain.errors import ConflictError
from streamsched.domain.tasks.layout import TaskLayout, check_partitions
from streamsched.ports.tasks.partitions import READS, MoveResult, PartitionsRecord
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import Select, queries

_SQL: Final = queries("tasks/partitions")


class _LanesLeft(NamedTuple):
    movable: bool
    some: bool


_LEFT_BEHIND: Final = Select(_SQL["left_behind"], _LanesLeft)

#: An owner whose last heartbeat is longer ago is taken for dead.
_ALIVE: Final = timedelta(minutes=1)


class PostgresTaskPartitions:
    """See `ports.tasks.partitions.TaskPartitions`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def get(self) -> PartitionsRecord:
        with translated():
            row = await self._pool.fetchrow(_SQL["layout"])
        assert row is not None
        layout = TaskLayout(row["partitions"], row["wanted"], row["settled"])
        return PartitionsRecord(layout, dict(row["served"]))

    async def want(self, partitions: int) -> PartitionsRecord:
        check_partitions(partitions)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                changed = await connection.fetchval(_SQL["want"], partitions)
                if changed is not None:
                    earlier = await connection.fetch(_SQL["earlier"], READS, _ALIVE)
                    if earlier:
                        names = ", ".join(row["id"] for row in earlier)
                        raise ConflictError(f"launchers of an earlier release run: {names}; upgrade them first")
                    await connection.execute(_SQL["add"], partitions)
        return await self.get()

    async def switch(self, partitions: int) -> None:
        with translated():
            await self._pool.execute(_SQL["switch"], partitions)

    async def move(self, after: str, *, limit: int) -> tuple[str | None, int]:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                row = await connection.fetchrow(_SQL["move"], after, limit)
                assert row is not None
                if row["moved"]:
                    await connection.execute(_SQL["notify"])
        return row["last"], row["moved"]

    async def settle(self, partitions: int) -> MoveResult:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["lock_layout"], partitions) is None:
                    return MoveResult.LEFT
                if await connection.fetchval(_SQL["surplus"]):
                    left = await _left(connection)
                    if left is not None:
                        return left
                    try:
                        await _lock_lanes(connection)
                    except asyncpg.LockNotAvailableError:
                        return MoveResult.BUSY
                    left = await _left(connection)  # registrations may have made lanes before the lock
                    if left is not None:
                        return left
                    await connection.execute(_SQL["disable_failing"])
                await connection.execute(_SQL["settle"])
                return MoveResult.DONE


async def _left(connection: Connection) -> MoveResult | None:
    """Why partitions cannot be given up; None: they can."""
    behind = await _LEFT_BEHIND.one(connection)
    if not behind.some:
        return None
    return MoveResult.LEFT if behind.movable else MoveResult.BUSY


async def _lock_lanes(connection: Connection) -> None:
    async with connection.transaction():  # a savepoint: the lock may not be had
        await connection.execute(_SQL["patience"])
        await connection.execute(_SQL["lock_lanes"])
