"""`ports.tasks.queues.QueueStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import asyncpg
import orjson
import structlog

from streamsched.codec.json.reading import Fields
from streamsched.codec.tasks.queue import policy_from_json, policy_to_json
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, storable_text
from streamsched.domain.limits import as_stored
from streamsched.domain.names import check_queue_name
from streamsched.domain.tasks.queue import MOST_QUEUES, QueuePolicy, TaskQueue
from streamsched.ports.tasks.queues import COUNTED, QueueRecord, QueueVersion
from streamsched.store.connections import Connection, Executor, translated
from streamsched.store.sql import fetch_value, queries

log = structlog.get_logger()

_SQL: Final = queries("tasks/queues")


class PostgresQueueStore:
    """See `ports.tasks.queues.QueueStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def all(self) -> Sequence[QueueVersion]:
        with translated():
            rows = await self._pool.fetch(_SQL["all"])
        return [found for row in rows if (found := _readable(row)) is not None]

    async def version(self) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["version"])

    async def get(self, name: str) -> QueueRecord:
        with translated():
            return (await _records(self._pool, [await stored_queue(self._pool, name)]))[0]

    async def page(self, *, after: str, limit: int) -> Sequence[QueueRecord]:
        names = [each for each in await self.all() if each.queue.name > after]
        with translated():
            return await _records(self._pool, names[:limit])

    async def set(self, name: str, policy: QueuePolicy, reason: str, *, now: datetime) -> QueueRecord:
        check_queue_name(name)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_all"])
                row = await connection.fetchrow(_SQL["get"], name)
                former = None if row is None else _readable(row)
                if former is not None and former.queue.policy == policy:
                    return (await _records(connection, [former]))[0]
                if former is not None and former.queue.policy.identity is not policy.identity:
                    raise ConflictError(
                        f"the identity of tasks in queue '{name}' is '{former.queue.policy.identity}' and cannot be "
                        "changed; use another queue"
                    )
                if row is None:
                    await open_queue(connection, name, policy, now)
                else:
                    await _store(connection, name, policy, now)
                await connection.execute(_SQL["record"], now, name, "queue.set", storable_text(reason))
                return (await _records(connection, [await stored_queue(connection, name)]))[0]

    async def pause(self, name: str, paused: bool, reason: str, *, now: datetime) -> QueueRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await stored_queue(connection, name)
                changed = await connection.execute(_SQL["pause"], name, paused, now)
                if changed != "UPDATE 0":
                    action = "queue.paused" if paused else "queue.resumed"
                    await connection.execute(_SQL["record"], now, name, action, storable_text(reason))
                    await connection.execute(_SQL["notify"])
                return (await _records(connection, [await stored_queue(connection, name)]))[0]


async def open_queue(connection: Connection, name: str, policy: QueuePolicy, now: datetime) -> None:
    """Makes a queue, or changes one that was made meanwhile.

    Raises:
        ConflictError: there are as many as an installation can have.
    """
    await connection.execute(_SQL["lock_all"])
    if await fetch_value(connection, _SQL["others"], int, name) >= MOST_QUEUES:
        raise ConflictError(f"there are {MOST_QUEUES} queues, the most an installation can have")
    await _store(connection, name, policy, now)


async def _store(connection: Connection, name: str, policy: QueuePolicy, now: datetime) -> None:
    content = orjson.dumps(policy_to_json(policy)).decode()
    await connection.execute(_SQL["set"], name, content, policy.dedupe, now)
    await connection.execute(_SQL["notify"])


async def stored_queue(executor: Executor, name: str) -> QueueVersion:
    """A queue by name.

    Raises:
        NotFoundError: there is none.
        InvalidError: it was stored by a later release.
    """
    row = await executor.fetchrow(_SQL["get"], name)
    if row is None:
        raise NotFoundError("queue", name)
    return _queue(row)


def _queue(row: Any) -> QueueVersion:
    with as_stored():
        policy = policy_from_json(Fields(row["policy"], "$.policy"))
        return QueueVersion(TaskQueue(row["name"], policy, row["paused"]), row["version"])


def _readable(row: Any) -> QueueVersion | None:
    try:
        return _queue(row)
    except InvalidError as exc:
        log.error("queues.unreadable", queue=row["name"], path=exc.path, reason=exc.reason)
        return None


async def _records(executor: Executor, found: Sequence[QueueVersion]) -> list[QueueRecord]:
    rows = await executor.fetch(_SQL["counts"], [each.queue.name for each in found], COUNTED)
    by_name = {row["name"]: row for row in rows}
    return [
        QueueRecord(each.queue, row["tasks"], row["in_flight"], row["ready_at"])
        for each in found
        for row in (by_name[each.queue.name],)
    ]
