"""`ports.webhooks.webhooks.WebhookFeed` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.webhooks.webhook import MOST_QUEUED, queue_of
from streamsched.ports.webhooks.webhooks import FollowedWebhook, WebhookRecord
from streamsched.store.connections import translated
from streamsched.store.tasks.registration import enqueue
from streamsched.store.webhooks.webhooks import SQL, PostgresWebhookStore, readable, records


class PostgresWebhookFeed(PostgresWebhookStore):
    """See `ports.webhooks.webhooks.WebhookFeed`. Of two feeders that read the same, one finds the positions moved."""

    async def followed(self) -> Sequence[FollowedWebhook]:
        with translated():
            rows = await self._pool.fetch(SQL["followed"], MOST_QUEUED)
        return [
            FollowedWebhook(webhook, row["position"], row["queued"], row["sent_at"])
            for row in rows
            if (webhook := readable(row["id"], row["definition"])) is not None
        ]

    async def feed(
        self, position: int, reached: int, changes: Mapping[str, Sequence[TaskRequest]], *, now: datetime
    ) -> int:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                rows = await connection.fetch(SQL["lock_at"], list(changes), position)
                due = {row["id"]: max(now, row["fed_at"]) for row in rows}
                tasks = [
                    (queue_of(webhook), replace(request, due_at=due_at))
                    for webhook, due_at in due.items()
                    for request in changes[webhook]
                ]
                if tasks:
                    await enqueue(connection, tasks, now, changes=True)
                given = [webhook for webhook in due if changes[webhook]]
                await connection.execute(SQL["advance"], list(due), reached, now, given)
        return len(tasks)

    async def forget_old_secrets(self, *, now: datetime) -> int:
        with translated():
            return len(await self._pool.fetch(SQL["forget_old"], None, now))

    async def failing(self) -> Sequence[WebhookRecord]:
        with translated():
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(SQL["failing"])
                return await records(connection, [row["id"] for row in rows])
