"""`ports.timers` in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import asyncpg
import structlog

from streamsched.codec.schedule import schedule_from_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.trigger import At, Cron, Every, leaf_id, leaves
from streamsched.ports.catalog import Decision
from streamsched.ports.timers import DueTimer, Firing
from streamsched.store import decisions, outbox
from streamsched.store.pool import translated
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL = queries("timers")

_Decided = Sequence[tuple[DueTimer, Firing]]


class PostgresTimers:
    """`TimerStore`: rows are claimed by their locks, so a claim ends with its transaction, however that ends.

    A schedule this release cannot read (a newer one stored it, say) holds up nobody: it is said aloud once, and its
    timers are left as they are for an instance that can.
    """

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool
        self._unreadable: set[str] = set()

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["claim"], now, limit, list(self._unreadable))
                decided = [each for row in rows if (each := self._decided(row, decide)) is not None]
                if decided:
                    await _store(connection, decided, now)
                return len(rows)

    async def next_due(self) -> datetime | None:
        with translated():
            return await self._pool.fetchval(_SQL["next_due"], list(self._unreadable))

    def _decided(self, row: Any, decide: Callable[[DueTimer], Firing]) -> tuple[DueTimer, Firing] | None:
        try:
            timer = _due_timer(row)
            return timer, decide(timer)
        except InvalidError as exc:
            self._unreadable.add(f"{row['schedule']}.{row['generation']}")
            log.error("timer.unreadable", schedule=row["schedule"], generation=row["generation"], reason=str(exc))
            return None


async def _store(connection: Any, decided: _Decided, now: datetime) -> None:
    going_on = [(str(t.schedule), t.leaf_id, firing.next_at) for t, firing in decided if firing.next_at is not None]
    if going_on:
        await connection.execute(_SQL["advance"], *zip(*going_on, strict=True))
    ended = [(str(t.schedule), t.leaf_id) for t, firing in decided if firing.next_at is None]
    if ended:
        await connection.execute(_SQL["finish"], *zip(*ended, strict=True))
    await outbox.write(connection, [record for _, firing in decided for record in firing.records])
    await decisions.record(connection, list(_history(decided, now)))


def _history(decided: _Decided, now: datetime) -> Iterator[Decision]:
    for timer, firing in decided:
        if firing.skipped:
            detail = {"leaf": timer.leaf_id, "skipped": firing.skipped, "fired": len(firing.records)}
            reason = f"{firing.skipped} missed ticks were skipped, as misfire '{timer.misfire}' says"
            yield Decision(now, "schedule", str(timer.schedule), "ticks_skipped", reason, detail)


def _due_timer(row: Any) -> DueTimer:
    schedule = schedule_from_json(row["definition"])
    leaf = next((leaf for leaf in leaves(schedule.trigger) if leaf_id(leaf) == row["leaf"]), None)
    return DueTimer(
        schedule.ref,
        row["generation"],
        row["leaf"],
        leaf if isinstance(leaf, Cron | Every | At) else None,
        schedule.misfire,
        row["due_at"],
        row["created_at"],
    )
