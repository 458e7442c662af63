"""`ports.timers` in PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import asyncpg
import structlog

from streamsched.codec import policy as policies
from streamsched.codec import trigger as triggers
from streamsched.codec.reading import Fields
from streamsched.codec.scalar import loads
from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.errors import InvalidError
from streamsched.domain.misfire import COUNTED
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedule import Misfire
from streamsched.domain.trigger import At, Cron, Every, TimeLeaf, leaf_id, leaves
from streamsched.ports.catalog import Decision
from streamsched.ports.timers import DueTimer, Firing
from streamsched.store import decisions, outbox
from streamsched.store.pool import translated
from streamsched.store.sql import queries

log = structlog.get_logger()

_SQL = queries("timers")

#: Texts of triggers and policies that are known by heart. Many schedules say the same; a text costs about a kilobyte.
_BY_HEART: Final = 4096

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
    going_on = [
        (str(timer.schedule), timer.leaf_id, firing.tick_at, firing.next_at)
        for timer, firing in decided
        if firing.next_at is not None
    ]
    if going_on:
        await connection.execute(_SQL["advance"], *zip(*going_on, strict=True))
    ended = [(str(t.schedule), t.leaf_id) for t, firing in decided if firing.next_at is None]
    if ended:
        await connection.execute(_SQL["finish"], *zip(*ended, strict=True))
    await outbox.copy(connection, [record for _, firing in decided for record in firing.records])
    await decisions.record(connection, list(_history(decided, now)))


def _history(decided: _Decided, now: datetime) -> Iterator[Decision]:
    for timer, firing in decided:
        if firing.skipped:
            detail = {"leaf": timer.leaf_id, "skipped": firing.skipped, "fired": len(firing.records)}
            many = f"at least {COUNTED}" if firing.skipped == COUNTED else firing.skipped
            reason = f"{many} missed ticks were skipped, as misfire '{timer.misfire}' and its catch-up say"
            yield Decision(now, "schedule", str(timer.schedule), "ticks_skipped", reason, detail)


def _due_timer(row: Any) -> DueTimer:
    schedule, leaf, generation, due_at, tick_at, created_at, trigger, misfire, catch_up = row
    policy, bounds = _policy(misfire, catch_up)
    return DueTimer(
        ScheduleRef.parse(schedule),
        generation,
        leaf,
        _time_leaves(trigger).get(leaf),
        policy,
        due_at,
        created_at,
        bounds,
        tick_at,
    )


@lru_cache(_BY_HEART)
def _time_leaves(trigger: str) -> Mapping[str, TimeLeaf]:
    """The leaves of a trigger that tick, by leaf id.

    Raises:
        InvalidError: this release cannot read it.
    """
    found = triggers.from_json(loads(trigger, "$.trigger"), "$.trigger")
    return {leaf_id(leaf): leaf for leaf in leaves(found) if isinstance(leaf, Cron | Every | At)}


@lru_cache(_BY_HEART)
def _policy(misfire: str, catch_up: str | None) -> tuple[Misfire, CatchUp]:
    """What becomes of missed ticks.

    Raises:
        InvalidError: this release cannot read it.
    """
    said = {"misfire": misfire, **({} if catch_up is None else {"catchUp": loads(catch_up, "$.catchUp")})}
    found = policies.read(Fields(said, "$"))
    return found.get("misfire", Misfire.ONE), found.get("catch_up", UNBOUNDED)
