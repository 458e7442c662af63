"""`ports.webhooks.webhooks.WebhookStore` and `WebhookTargets` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg
import orjson
import structlog

from streamsched.codec.json.reading import Fields
from streamsched.codec.webhooks.webhook import webhook_from_json, webhook_to_json
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, storable_text
from streamsched.domain.limits import as_stored
from streamsched.domain.programs.secret import Secret
from streamsched.domain.quotas.quota import Quota
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.webhooks.webhook import MOST_WEBHOOKS, OLD_SECRET, POLICY, Webhook, queue_of
from streamsched.ports.webhooks.webhooks import DeliveredWebhook, OldSecret, WebhookRecord
from streamsched.store.catalog.quota_counts import check_number
from streamsched.store.connections import Connection, translated
from streamsched.store.sql import queries
from streamsched.store.tasks.queues import open_queue
from streamsched.store.tasks.registration import enqueue

log = structlog.get_logger()

SQL: Final = queries("webhooks/webhooks")
_QUEUES: Final = queries("tasks/queues")


class PostgresWebhookStore:
    """See `ports.webhooks.webhooks.WebhookStore` and `WebhookTargets`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def create(self, webhook: Webhook, *, secret: str | None, by: str, now: datetime) -> WebhookRecord:
        definition = orjson.dumps(webhook_to_json(webhook)).decode()
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(SQL["lock_all"])
                numbers = await connection.fetchrow(SQL["numbers"], f"{webhook.namespace}.")
                await check_number(connection, webhook.namespace, Quota.WEBHOOKS, numbers["of_namespace"], 1)
                if numbers["all"] >= MOST_WEBHOOKS:
                    raise ConflictError(f"there are {MOST_WEBHOOKS} webhooks, the most an installation can have")
                made = await connection.fetchval(SQL["create"], webhook.id, definition, secret, now, by)
                if made is None:
                    raise ConflictError(f"there is a webhook '{webhook.id}' already")
                await open_queue(connection, webhook.queue, POLICY, now)
                await connection.execute(_QUEUES["record"], now, webhook.queue, "webhook.created", f"by {by}")
                return (await records(connection, [webhook.id]))[0]

    async def change(
        self,
        webhook: str,
        change: Callable[[Webhook], Webhook],
        *,
        secret: str | None,
        keep_old: timedelta | None = None,
        by: str,
        now: datetime,
    ) -> WebhookRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                stored = await connection.fetchrow(SQL["lock_definition"], webhook)
                before = None if stored is None else readable(webhook, stored["definition"])
                if stored is None or before is None:
                    raise NotFoundError("webhook", webhook)
                after = change(before)
                if secret is not None or after.secret != before.secret:
                    until = now + (OLD_SECRET if keep_old is None else keep_old)
                    await connection.execute(SQL["keep_secret"], webhook, until)
                elif keep_old is not None:
                    if stored["old_until"] is None or stored["old_until"] <= now:
                        raise ConflictError(f"webhook '{webhook}' has no old secret")
                    await connection.execute(SQL["keep_old"], webhook, now + keep_old)
                definition = orjson.dumps(webhook_to_json(after)).decode()
                await connection.execute(SQL["change"], webhook, definition, secret, after.secret is not None)
                await connection.execute(SQL["forget_old"], webhook, now)
                await connection.execute(_QUEUES["record"], now, after.queue, "webhook.changed", f"by {by}")
                return await _record(connection, webhook)

    async def page(self, namespace: str | None, *, after: str, limit: int) -> Sequence[WebhookRecord]:
        prefix = "" if namespace is None else f"{namespace}."
        with translated():
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(SQL["page"], prefix, prefix + after, limit)
                return await records(connection, [row["id"] for row in rows])

    async def get(self, webhook: str) -> WebhookRecord:
        with translated():
            async with self._pool.acquire() as connection:
                return await _record(connection, webhook)

    async def enable(self, webhook: str, enabled: bool, reason: str, *, now: datetime) -> WebhookRecord:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if not await set_enabled(connection, webhook, enabled, reason, by_owner=True, now=now):
                    await _record(connection, webhook)
                return await _record(connection, webhook)

    async def put(self, webhook: str, request: TaskRequest, *, now: datetime) -> str:
        queue = queue_of(webhook)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                await enqueue(connection, [(queue, request)], now, changes=True)
        return POLICY.id_of(queue, request)[1]

    async def delete(self, webhook: str) -> None:
        queue = queue_of(webhook)
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(SQL["delete"], webhook) is None:
                    raise NotFoundError("webhook", webhook)
                for step in ("delete_queue", "delete_lanes", "delete_tasks"):
                    await connection.execute(SQL[step], queue)
                await connection.execute(_QUEUES["notify"])

    async def target(self, webhook: str) -> DeliveredWebhook | None:
        with translated():
            row = await self._pool.fetchrow(SQL["target"], webhook)
        if row is None:
            return None
        old = None
        if row["old_until"] is not None:
            reference = None if row["old_reference"] is None else Secret.parse(row["old_reference"])
            old = OldSecret(row["old_secret"], reference, row["old_until"])
        return DeliveredWebhook(definition_of(webhook, row["definition"]), row["enabled"], row["secret"], old)

    async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                return await set_enabled(connection, webhook, False, reason, by_owner=False, now=now)


async def set_enabled(
    connection: Connection, webhook: str, enabled: bool, reason: str, *, by_owner: bool, now: datetime
) -> bool:
    """Enables or disables a webhook, and resumes or pauses its queue; False when it is so already or does not exist."""
    before = await connection.fetchval(SQL["lock"], webhook)
    if before is None or before is enabled:
        return False
    queue, why = queue_of(webhook), storable_text(reason)
    await connection.execute(SQL["enable"], webhook, enabled, why, by_owner, now)
    await connection.execute(_QUEUES["pause"], queue, not enabled, now)
    await connection.execute(_QUEUES["record"], now, queue, f"webhook.{'enabled' if enabled else 'disabled'}", why)
    await connection.execute(_QUEUES["notify"])
    return True


async def records(connection: Connection, ids: Sequence[str]) -> list[WebhookRecord]:
    """Webhooks by id. One that this release cannot read is left out, and logged."""
    found: list[WebhookRecord] = []
    for row in await connection.fetch(SQL["records"], ids):
        given = dict(row)
        webhook = readable(given.pop("id"), given.pop("definition"))
        if webhook is not None:
            found.append(WebhookRecord(webhook=webhook, **given))
    return found


def readable(webhook: str, definition: Any) -> Webhook | None:
    """A stored definition; None, and logged, when a later release has stored it."""
    try:
        return definition_of(webhook, definition)
    except InvalidError as exc:
        log.error("webhooks.unreadable", webhook=webhook, path=exc.path, reason=exc.reason)
        return None


def definition_of(webhook: str, definition: Any) -> Webhook:
    """Raises:
    InvalidError: it was stored by a later release.
    """
    namespace, _, name = webhook.partition(".")
    with as_stored():
        return webhook_from_json(namespace, name, Fields(definition))


async def _record(connection: Connection, webhook: str) -> WebhookRecord:
    found = await records(connection, [webhook])
    if not found:
        raise NotFoundError("webhook", webhook)
    return found[0]
