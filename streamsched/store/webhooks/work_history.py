"""`ports.work_history.WorkHistory` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from streamsched.domain.webhooks.change import WorkLine
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries

_SQL: Final = queries("webhooks/work_history")
_READ: Final = Select(_SQL["read"], WorkLine)


class PostgresWorkHistory:
    """`ports.work_history.WorkHistory` on PostgreSQL. A number is settled when the transactions that wrote history
    while it was the last one have ended.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._settled = 0
        self._last = 0
        self._writers: frozenset[str] = frozenset()

    async def last_number(self) -> int:
        """The last number that was taken."""
        with translate_errors():
            return await _read_last_number(self._pool)

    async def settled_number(self) -> int:
        """The number up to which no line can appear any more: every transaction that may have taken such a number has
        ended.
        """
        with translate_errors():
            async with self._pool.acquire() as connection:
                if self._writers:
                    self._writers &= await _writers(connection)
                if not self._writers:
                    self._settled = max(self._settled, self._last)
                    self._last = await _read_last_number(connection)
                    self._writers = await _writers(connection)
                    if not self._writers:
                        self._settled = max(self._settled, self._last)
        return self._settled

    async def read(self, after: int, upto: int, *, limit: int, whole: bool = False) -> Sequence[WorkLine]:
        """Lines with numbers above `after` up to `upto`, in order, at most `limit`: of jobs and runs, and with `whole`
        of expectations, and of schedules that paused themselves.
        """
        with translate_errors():
            return list(map(readable_line, await _READ.fetch(self._pool, after, upto, limit, whole)))


async def _read_last_number(executor: Executor) -> int:
    return await fetch_value(executor, _SQL["last"], int)


async def _writers(connection: Connection) -> frozenset[str]:
    return frozenset(writer for (writer,) in await connection.fetch(_SQL["writers"]))


def readable_line(row: WorkLine) -> WorkLine:
    """A line without a detail that is no object."""
    return row._replace(detail=row.detail if isinstance(row.detail, Mapping) else None)
