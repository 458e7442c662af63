"""Queues of tasks: their policies, and what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson
import structlog

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, storable_text
from streamsched.domain.names import check_queue_name
from streamsched.domain.tasks.queue import MOST_QUEUES, QueuePolicy, TaskQueue
from streamsched.store.connections import Connection, Executor, Pool, translate_errors
from streamsched.store.sql import Select, fetch_value, queries
from streamsched.wire.queues import POLICY

log = structlog.get_logger()

_SQL: Final = queries("tasks/queues")
#: Tasks of a queue, and tasks before another one, are counted up to this many.
COUNTED: Final = 10_000


class _QueueRow(NamedTuple):
    name: str
    policy: Mapping[str, Any]
    paused: bool
    version: int


class _QueueContent(NamedTuple):
    name: str
    tasks: int
    in_flight: int
    ready_at: datetime | None


_ALL: Final = Select(_SQL["all"], _QueueRow)
_GET: Final = Select(_SQL["get"], _QueueRow)
_COUNTS: Final = Select(_SQL["counts"], _QueueContent)


@dataclass(frozen=True, slots=True)
class QueueVersion:
    """A queue, and a number that grows with each of its changes."""

    queue: TaskQueue
    version: int


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue with its content.

    Attributes:
        tasks: tasks that have not ended, at most `COUNTED`.
        in_flight: those in flight, at most `COUNTED`.
        ready_at: when the first lane is ready (UTC); None: no lane waits.
    """

    queue: TaskQueue
    tasks: int
    in_flight: int
    ready_at: datetime | None


class QueueStore:
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def all(self) -> Sequence[QueueVersion]:
        """All queues, by name. One that this release cannot read is left out, and logged."""
        with translate_errors():
            rows = await _ALL.fetch(self._pool)
        return [found for row in rows if (found := _read_queue(row)) is not None]

    async def version(self) -> int:
        """Grows with each change of any queue."""
        with translate_errors():
            return await fetch_value(self._pool, _SQL["version"], int)

    async def get(self, name: str) -> QueueRecord:
        """The queue with its policy and counts.

        Raises:
            NotFoundError: there is no such queue.
        """
        with translate_errors():
            return (await _records(self._pool, [await stored_queue(self._pool, name)]))[0]

    async def page(self, *, after: str, limit: int) -> Sequence[QueueRecord]:
        """Queues by name, after a name."""
        names = [each for each in await self.all() if each.queue.name > after]
        with translate_errors():
            return await _records(self._pool, names[:limit])

    async def set(self, name: str, policy: QueuePolicy, reason: str, *, now: datetime) -> QueueRecord:
        """Creates the queue, or changes its policy for tasks that are not in flight. Idempotent.

        Raises:
            ConflictError: the identity of tasks would change, or there are `MOST_QUEUES` other queues.
        """
        check_queue_name(name)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_all"])
                row = await _GET.fetchrow(connection, name)
                former = None if row is None else _read_queue(row)
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
        """Pauses or resumes. When it returns, nothing is started any more; tasks in flight go on. Idempotent.

        Raises:
            NotFoundError: there is no such queue.
        """
        with translate_errors():
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
    content = orjson.dumps(POLICY.write(policy)).decode()
    await connection.execute(_SQL["set"], name, content, policy.dedupe, now)
    await connection.execute(_SQL["notify"])


async def stored_queue(executor: Executor, name: str) -> QueueVersion:
    """A queue by name.

    Raises:
        NotFoundError: there is none.
        InvalidError: it was stored by a later release.
    """
    row = await _GET.fetchrow(executor, name)
    if row is None:
        raise NotFoundError("queue", name)
    return _queue(row)


def _queue(row: _QueueRow) -> QueueVersion:
    policy = POLICY.read(row.policy, "$.policy")
    return QueueVersion(TaskQueue(row.name, policy, row.paused), row.version)


def _read_queue(row: _QueueRow) -> QueueVersion | None:
    """None of one that this release cannot read, which is logged."""
    try:
        return _queue(row)
    except InvalidError as exc:
        log.error("queues.unreadable", queue=row.name, path=exc.path, reason=exc.reason)
        return None


async def _records(executor: Executor, found: Sequence[QueueVersion]) -> list[QueueRecord]:
    rows = await _COUNTS.fetch(executor, [each.queue.name for each in found], COUNTED)
    contents = {row.name: row[1:] for row in rows}
    return [QueueRecord(each.queue, *contents[each.queue.name]) for each in found]
