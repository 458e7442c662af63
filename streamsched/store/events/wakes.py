"""Wake-ups of folds: the intake of topic `wakeups`, and what is due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import structlog

from streamsched.domain.errors import SYSTEMIC, describe_failure
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.signal import Woken
from streamsched.domain.ticks.wakeups import send_at
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.timers import WakeRecord, WakeUpRequest
from streamsched.store.catalog import outbox
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.expected_time import ExpectedTime, expected_parameter
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import Select, queries

_SQL: Final = queries("events/wakes")

#: A wake-up due later is not notified: every instance polls more often than that.
_SOON: Final = timedelta(seconds=30)
#: After this a row that cannot be read is tried again.
_RETRY: Final = timedelta(hours=1)

log = structlog.get_logger()


class _Wake(NamedTuple):
    schedule: str
    cell: bytes
    generation: int
    at: datetime
    affinity: int | None


class _Taken(NamedTuple):
    partitions: list[int]
    stored: int
    obsolete: int
    rung: int


_CLAIM: Final = Select(_SQL["claim"], _Wake)
_TAKE: Final = Select(_SQL["take"], _Taken)


class PostgresWakes(StoredPositions):
    """`ports.timers.WakeStore` and `ports.intake.IntakeStore[WakeUpRequest]` on PostgreSQL.

    Rows are claimed by deleting them, so a claim ends with its transaction. A request that arrives while its row is
    claimed waits for that transaction and is stored after it. With `theirs` nothing is due while PostgreSQL's clock
    says something else.
    """

    def __init__(self, pool: Pool, *, theirs: ExpectedTime | None = None) -> None:
        super().__init__(pool)
        self._theirs = theirs

    async def take(self, topic: str, batches: Sequence[IntakeBatch[WakeUpRequest]], *, now: datetime) -> IntakeResult:
        """Stores the newest request of each schedule and cell with the positions after them, in one transaction."""
        columns = [list(column) for column in zip(*_newest_requests(batches, now), strict=True)] or [
            [] for _ in range(6)
        ]
        with translate_errors():
            taken = await _TAKE.fetch_one(
                self._pool,
                topic,
                [batch.partition for batch in batches],
                [batch.start for batch in batches],
                [batch.next for batch in batches],
                *columns,
                now + _SOON,
            )
        return IntakeResult(frozenset(taken.partitions), taken.stored, taken.obsolete)

    async def fire(self, *, now: datetime, limit: int, record: WakeRecord) -> int:
        """Moves up to `limit` due wake-ups to the outbox, those due longest first; returns how many. One that cannot be
        read is put off, and logged.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await _CLAIM.fetch(connection, now, limit, expected_parameter(self._theirs))
                records, unreadable = list[OutboxRecord](), list[_Wake]()
                for row in rows:
                    try:
                        records.append(record(_wake_from_row(row), row.affinity))
                    except SYSTEMIC:
                        raise
                    except Exception as failure:  # noqa: BLE001 - a damaged row may raise anything
                        log.error("wake.unreadable", schedule=row.schedule, reason=describe_failure(failure))
                        unreadable.append(row)
                await outbox.write(connection, records)
                if unreadable:
                    columns = map(list, zip(*(row[:4] for row in unreadable), strict=True))
                    await connection.execute(_SQL["put_off"], *columns, now + _RETRY)
                return len(rows)

    async def next_due_at(self) -> datetime | None:
        """The earliest due time of all wake-ups; None without any."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["next_due"])


def _newest_requests(batches: Sequence[IntakeBatch[WakeUpRequest]], now: datetime) -> Iterator[tuple[Any, ...]]:
    """A row for each schedule and cell: the last request in log order."""
    newest = {
        (request.wake.schedule, request.wake.cell): (batch.partition, request)
        for batch in batches
        for request in batch.rows
    }
    for partition, request in newest.values():
        wake, at = request.wake, request.wake.at
        due_at = None if at is None else send_at(at, logged_at=request.logged_at, now=now)
        yield partition, str(wake.schedule), wake.cell.encode(), wake.generation, at, due_at


def _wake_from_row(row: _Wake) -> Woken:
    return Woken(ScheduleRef.parse(row.schedule), row.generation, row.cell.decode(), row.at)
