"""`ports.wakes` in PostgreSQL: what comes from topic `wakeups`, and what is due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Woken
from streamsched.domain.waking import send_at
from streamsched.ports.intake import Batch, Taken
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.wakes import WakeRequest
from streamsched.store import outbox
from streamsched.store.pool import translated
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries

_SQL: Final = queries("wakes")

#: What is due later than this needs no bell: everybody will have looked by himself until then.
_SOON: Final = timedelta(seconds=30)


class PostgresWakes(StoredPositions):
    """`WakeStore`, and `IntakeStore[WakeRequest]`.

    Rows are claimed by deleting them, so a claim ends with its transaction, however that ends; a request that comes
    while its row is claimed waits for that and stands after it.
    """

    async def take(self, topic: str, batches: Sequence[Batch[WakeRequest]], *, now: datetime) -> Taken:
        columns = [list(column) for column in zip(*_newest(batches, now), strict=True)] or [[] for _ in range(6)]
        with translated():
            row = await self._pool.fetchrow(
                _SQL["take"],
                topic,
                [batch.partition for batch in batches],
                [batch.start for batch in batches],
                [batch.next for batch in batches],
                *columns,
                now + _SOON,
            )
        assert row is not None
        return Taken(frozenset(row["partitions"]), row["stored"], row["obsolete"])

    async def fire(self, *, now: datetime, limit: int, record: Callable[[Woken], OutboxRecord]) -> int:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["claim"], now, limit)
                await outbox.write(connection, [record(_woken(row)) for row in rows])
                return len(rows)

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"])


def _newest(batches: Sequence[Batch[WakeRequest]], now: datetime) -> Iterator[tuple[Any, ...]]:
    """A row for each schedule and cell: of several requests the last, as the log has them."""
    newest = {
        (request.wake.schedule, request.wake.cell): (batch.partition, request)
        for batch in batches
        for request in batch.rows
    }
    for partition, request in newest.values():
        wake, at = request.wake, request.wake.at
        due_at = None if at is None else send_at(at, logged_at=request.logged_at, now=now)
        yield partition, str(wake.schedule), wake.cell.encode(), wake.generation, at, due_at


def _woken(row: Any) -> Woken:
    return Woken(ScheduleRef.parse(row["schedule"]), row["generation"], row["cell"].decode(), row["at"])
