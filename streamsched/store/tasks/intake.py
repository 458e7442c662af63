"""`ports.intake.IntakeStore` of tasks from a topic, on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from streamsched.domain.errors import InvalidError, NotFoundError, UnavailableError
from streamsched.domain.tasks.queue import QueuePolicy
from streamsched.domain.tasks.task import TaskRequest
from streamsched.ports.intake import IntakeBatch, IntakeResult
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.positions import StoredPositions
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import stored_queue
from streamsched.store.tasks.registration import check_registrations, register

_SQL: Final = queries("tasks/intake")


class PostgresTaskIntake(StoredPositions):
    """Registers the tasks of a topic in a queue, together with the new positions. Positions are those of `name`, so a
    topic of another log cannot have the name of one of the installation's.

    The grace of the queue is not applied: its producers have applied it, and a task that was due while no process ran
    must not be lost. A missing queue is `UnavailableError`, so nothing is refused because of it.
    """

    def __init__(self, pool: Pool, queue: str, name: str) -> None:
        super().__init__(pool)
        self._queue = queue
        self._name = name

    async def positions(self, topic: str, partitions: int) -> Mapping[int, int]:
        """The stored position of each partition of the queue's topic."""
        del topic
        return await super().positions(self._name, partitions)

    async def take(self, topic: str, batches: Sequence[IntakeBatch[TaskRequest]], *, now: datetime) -> IntakeResult:
        """Registers tasks with the positions after them, in one transaction."""
        del topic
        starts = ([batch.partition for batch in batches], [batch.start for batch in batches])
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(_SQL["lock"], self._name, *starts)
                mine = frozenset(row["partition"] for row in rows)
                taken = [batch for batch in batches if batch.partition in mine]
                requests = [request for batch in taken for request in batch.rows]
                policy = replace(await self._policy(connection), grace=None)
                incoming = check_registrations(policy, self._queue, requests, now, most=len(requests))
                found = await register(connection, policy, incoming, now)
                ends = ([batch.partition for batch in taken], [batch.next for batch in taken])
                await connection.execute(_SQL["advance"], self._name, *ends)
        stored = sum(each.verdict.is_stored for each in found)
        return IntakeResult(mine, stored, len(found) - stored)

    async def _policy(self, connection: Connection) -> QueuePolicy:
        try:
            return (await stored_queue(connection, self._queue)).queue.policy
        except (NotFoundError, InvalidError) as exc:
            raise UnavailableError(f"the queue of topic '{self._name}' cannot be used: {exc}") from exc
