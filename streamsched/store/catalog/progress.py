"""The read model of accumulations, and the open keys of schedules that correlate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

from streamsched.domain.names import ScheduleRef
from streamsched.ports.intake import OpenKey, ProgressBatch
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.positions import POSITIONS
from streamsched.store.sql import Select, queries

_SQL = queries("catalog/progress")
#: Longest key, in bytes, that is indexed as it is beside a schedule's name: an index refuses rows above 2704 bytes.
_INDEXED: Final = 1000
_BEGINNING: Final = 400


def _index_form(key: str) -> tuple[str, str | None]:
    """The indexed form of the key, and the key itself when it differs."""
    raw = key.encode()
    if len(raw) <= _INDEXED:
        return key, None
    return f"{raw[:_BEGINNING].decode(errors='ignore')}…{sha256(raw).hexdigest()}", key


class _OpenKey(NamedTuple):
    """The fields of `OpenKey` after its schedule."""

    key: str
    generation: int
    state: Mapping[str, Any]
    at: datetime


_KEYS: Final = Select(_SQL["keys"], _OpenKey)
_NEWEST_KEYS: Final = Select(_SQL["newest_keys"], _OpenKey)


class PostgresProgress:
    """`ports.intake.ProgressStore` on PostgreSQL."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str) -> Mapping[int, int]:
        """The stored position of each partition of the topic."""
        with translate_errors():
            return dict(await POSITIONS.fetch(self._pool, topic))

    async def save(self, topic: str, copied: ProgressBatch) -> bool:
        """Stores what a chunk says and the position after it, in one transaction. False: another process has moved the
        position, and nothing was stored.
        """
        rows = [(str(p.schedule), p.generation, p.sequence, p.explanation, p.at) for p in copied.progress]
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                moved = await connection.fetchval(_SQL["move"], topic, copied.partition, copied.next, copied.start)
                if moved is None:
                    return False
                if rows:
                    await connection.execute(_SQL["put"], *zip(*rows, strict=True))
                if copied.gone:
                    gone = [str(ref) for ref in copied.gone]
                    await connection.execute(_SQL["remove"], gone)
                    await connection.execute(_SQL["forget_keys"], gone)
                if copied.keys:
                    keys = [(str(k.schedule), *_index_form(k.key), k.generation, k.state, k.at) for k in copied.keys]
                    await connection.execute(_SQL["put_keys"], *zip(*keys, strict=True))
                if copied.halted:
                    halts = [(str(h.schedule), h.halt, h.at) for h in copied.halted]
                    await connection.execute(_SQL["put_halts"], *zip(*halts, strict=True))
                if copied.healed:
                    await connection.execute(_SQL["remove_halts"], [str(ref) for ref in copied.healed])
                if copied.closed:
                    closed = [(str(ref), _index_form(key)[0]) for ref, key in copied.closed]
                    await connection.execute(_SQL["close_keys"], *zip(*closed, strict=True))
        return True

    async def forget_positions(self, topic: str) -> None:
        """Has the topic read again from its beginning."""
        with translate_errors():
            await self._pool.execute(_SQL["forget_positions"], topic)


class OpenKeyReader:
    """Reads open keys for API, CLI and UI. All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def page(self, schedule: ScheduleRef, *, after: str, limit: int) -> Sequence[OpenKey]:
        """The open keys of a schedule after the key `after`, ordered by key."""
        with translate_errors():
            rows = await _KEYS.fetch(self._pool, str(schedule), _index_form(after)[0], limit)
        return [OpenKey(schedule, *row) for row in rows]

    async def list_newest(self, schedule: ScheduleRef, *, limit: int) -> Sequence[OpenKey]:
        """The last open keys of a schedule by key, the last one first: of periods the newest."""
        with translate_errors():
            rows = await _NEWEST_KEYS.fetch(self._pool, str(schedule), limit)
        return [OpenKey(schedule, *row) for row in rows]
