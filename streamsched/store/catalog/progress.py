"""`ports.intake.ProgressStore` and `OpenKeyReader` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import asyncpg

from streamsched.domain.names import ScheduleRef
from streamsched.ports.intake import OpenKey, ProgressBatch
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL = queries("catalog/progress")
#: Longest key, in bytes, that is indexed as it is beside a schedule's name: an index refuses rows above 2704 bytes.
_INDEXED: Final = 1000
_BEGINNING: Final = 400


def _fitting(key: str) -> tuple[str, str | None]:
    """The indexed form of the key, and the key itself when it differs."""
    raw = key.encode()
    if len(raw) <= _INDEXED:
        return key, None
    return f"{raw[:_BEGINNING].decode(errors='ignore')}…{sha256(raw).hexdigest()}", key


class PostgresProgress:
    """See `ports.intake.RestartableProgressStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def positions(self, topic: str) -> Mapping[int, int]:
        with translated():
            rows = await self._pool.fetch(_SQL["positions"], topic)
        return {row["partition"]: row["position"] for row in rows}

    async def save(self, topic: str, copied: ProgressBatch) -> bool:
        rows = [(str(p.schedule), p.generation, p.sequence, p.explanation, p.at) for p in copied.progress]
        with translated():
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
                    keys = [(str(k.schedule), *_fitting(k.key), k.generation, k.state, k.at) for k in copied.keys]
                    await connection.execute(_SQL["put_keys"], *zip(*keys, strict=True))
                if copied.halted:
                    halts = [(str(h.schedule), h.halt, h.at) for h in copied.halted]
                    await connection.execute(_SQL["put_halts"], *zip(*halts, strict=True))
                if copied.healed:
                    await connection.execute(_SQL["remove_halts"], [str(ref) for ref in copied.healed])
                if copied.closed:
                    closed = [(str(ref), _fitting(key)[0]) for ref, key in copied.closed]
                    await connection.execute(_SQL["close_keys"], *zip(*closed, strict=True))
        return True

    async def forget_positions(self, topic: str) -> None:
        with translated():
            await self._pool.execute(_SQL["forget_positions"], topic)


class PostgresOpenKeyReader:
    """See `ports.intake.OpenKeyReader`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def of(self, schedule: ScheduleRef, *, after: str, limit: int) -> Sequence[OpenKey]:
        with translated():
            rows = await self._pool.fetch(_SQL["keys"], str(schedule), _fitting(after)[0], limit)
        return _open_keys(schedule, rows)

    async def newest(self, schedule: ScheduleRef, *, limit: int) -> Sequence[OpenKey]:
        with translated():
            rows = await self._pool.fetch(_SQL["newest_keys"], str(schedule), limit)
        return _open_keys(schedule, rows)


def _open_keys(schedule: ScheduleRef, rows: Sequence[Any]) -> list[OpenKey]:
    return [OpenKey(schedule, row["key"], row["generation"], row["state"], row["updated_at"]) for row in rows]
