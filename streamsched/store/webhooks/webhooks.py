"""Webhooks: for people, for the loop that puts changes into their queues, and for their deliveries. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson
import structlog

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, storable_text
from streamsched.domain.programs.secret import Secret
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.webhooks.webhook import MOST_QUEUED, MOST_WEBHOOKS, OLD_SECRET, POLICY, Webhook, queue_of
from streamsched.ports.webhook_targets import DeliveredWebhook, OldSecret
from streamsched.store.catalog.quota_counts import check_number
from streamsched.store.connections import Connection, Pool, translate_errors
from streamsched.store.sql import Select, queries
from streamsched.store.tasks.queues import open_queue
from streamsched.store.tasks.registration import enqueue
from streamsched.wire.webhook_definition import DEFINITION

log = structlog.get_logger()


class WebhookRecord(NamedTuple):
    """A webhook and how its deliveries go.

    Attributes:
        changed_at: when it was created, enabled or disabled; `reason`: of that.
        by_owner: False when the installation disabled it.
        queued: changes in its queue.
        unread: lines of the history after its position, those included that it does not want.
        delivered_at: of the latest delivery that was accepted and is still recorded; None: none.
        failing_since: since when deliveries fail and none is accepted; None: the next one has not failed.
        error: of the change that waits longest for its next attempt; "" when none has failed.
        attempts: failed ones of that change.
        next_at: of its next attempt.
        old_until: until when the secret before the last one signs beside it; None: there is none.
    """

    id: str
    webhook: Webhook
    enabled: bool
    changed_at: datetime
    reason: str
    by_owner: bool
    created_at: datetime
    created_by: str
    queued: int
    unread: int
    delivered_at: datetime | None
    failing_since: datetime | None
    error: str
    attempts: int
    next_at: datetime | None
    old_until: datetime | None


class FollowedWebhook(NamedTuple):
    """An enabled webhook. `position`: the number of the last line that was put into its queue or passed over; `queued`:
    changes in its queue, at most `MOST_QUEUED`; `sent_at`: when the latest message of one for people was made.
    """

    id: str
    webhook: Webhook
    position: int
    queued: int
    sent_at: datetime | None


class _Numbers(NamedTuple):
    installed: int
    of_namespace: int


class _LockedDefinition(NamedTuple):
    definition: Any
    old_until: datetime | None


class _LockedPosition(NamedTuple):
    id: str
    fed_at: datetime


class _Target(NamedTuple):
    definition: Any
    enabled: bool
    secret: str | None
    old_secret: str | None
    old_reference: str | None
    old_until: datetime | None


_SQL: Final = queries("webhooks/webhooks")
_NUMBERS: Final = Select(_SQL["numbers"], _Numbers)
_RECORDS: Final = Select(_SQL["records"], WebhookRecord)
_LOCK_DEFINITION: Final = Select(_SQL["lock_definition"], _LockedDefinition)
_TARGET: Final = Select(_SQL["target"], _Target)
_FOLLOWED: Final = Select(_SQL["list_followed"], FollowedWebhook)
_LOCK_AT: Final = Select(_SQL["lock_at"], _LockedPosition)
_QUEUES: Final = queries("tasks/queues")


class WebhookStore:
    """`ports.webhook_targets.WebhookTargets` on PostgreSQL, and all else about webhooks. All methods raise
    `UnavailableError` when PostgreSQL is unavailable, and those for people with an id `NotFoundError` when there is no
    such webhook. Of two that feed from the same position, one finds it moved.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def create(self, webhook: Webhook, *, secret: str | None, by: str, now: datetime) -> WebhookRecord:
        """Stores a webhook, which is sent changes from now on, and makes its queue. `secret`: the generated one.

        Raises:
            ConflictError: there is one of this name, or there are `MOST_WEBHOOKS`.
            QuotaExceededError: the namespace has as many as its quota allows.
        """
        definition = orjson.dumps(DEFINITION.write(webhook)).decode()
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await connection.execute(_SQL["lock_all"])
                numbers = await _NUMBERS.fetch_one(connection, f"{webhook.namespace}.")
                await check_number(connection, webhook.namespace, Quota.WEBHOOKS, numbers.of_namespace, 1)
                if numbers.installed >= MOST_WEBHOOKS:
                    raise ConflictError(f"there are {MOST_WEBHOOKS} webhooks, the most an installation can have")
                made = await connection.fetchval(_SQL["create"], webhook.id, definition, secret, now, by)
                if made is None:
                    raise ConflictError(f"there is a webhook '{webhook.id}' already")
                await open_queue(connection, webhook.queue, POLICY, now)
                await connection.execute(_QUEUES["record"], now, webhook.queue, "webhook.created", f"by {by}")
                return await _record(connection, webhook.id)

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
        """Stores what `change` makes of the definition. What is in its queue is sent as the new one says. `secret`: a
        new generated one; None keeps the one before, unless the definition refers to one. `keep_old`: how long a
        secret that is replaced signs beside the new one; None: `OLD_SECRET`. Without a new secret it is the time that
        the old one has from now on. Raises what `change` raises.

        Raises:
            ConflictError: `keep_old` is given, and there is neither a new secret nor an old one.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                stored = await _LOCK_DEFINITION.fetchrow(connection, webhook)
                before = None if stored is None else read_definition(webhook, stored.definition)
                if stored is None or before is None:
                    raise NotFoundError("webhook", webhook)
                after = change(before)
                if secret is not None or after.secret != before.secret:
                    until = now + (OLD_SECRET if keep_old is None else keep_old)
                    await connection.execute(_SQL["keep_secret"], webhook, until)
                elif keep_old is not None:
                    if stored.old_until is None or stored.old_until <= now:
                        raise ConflictError(f"webhook '{webhook}' has no old secret")
                    await connection.execute(_SQL["keep_old"], webhook, now + keep_old)
                definition = orjson.dumps(DEFINITION.write(after)).decode()
                await connection.execute(_SQL["change"], webhook, definition, secret, after.secret is not None)
                await connection.execute(_SQL["forget_old"], webhook, now)
                await connection.execute(_QUEUES["record"], now, after.queue, "webhook.changed", f"by {by}")
                return await _record(connection, webhook)

    async def page(self, namespace: str | None, *, after: str, limit: int) -> Sequence[WebhookRecord]:
        """Those of a namespace by name, after a name; None: of all namespaces by id, after an id."""
        prefix = "" if namespace is None else f"{namespace}."
        with translate_errors():
            async with self._pool.acquire() as connection:
                rows = await connection.fetch(_SQL["page"], prefix, prefix + after, limit)
                return await _records(connection, [webhook for (webhook,) in rows])

    async def get(self, webhook: str) -> WebhookRecord:
        """One by id."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await _record(connection, webhook)

    async def enable(self, webhook: str, enabled: bool, reason: str, *, now: datetime) -> WebhookRecord:
        """Enables it: it goes on after the last change that was accepted. Or disables it: nothing is started any more.
        Idempotent.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await _set_enabled(connection, webhook, enabled, reason, by_owner=True, now=now)
                return await _record(connection, webhook)

    async def put(self, webhook: str, request: TaskRequest, *, now: datetime) -> str:
        """Puts an event beside the changes into its queue; returns the id of the task."""
        queue = queue_of(webhook)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                await enqueue(connection, [(queue, request)], now, changes=True)
        return POLICY.id_of(queue, request)[1]

    async def delete(self, webhook: str) -> None:
        """Deletes it with its queue and what is in it."""
        queue = queue_of(webhook)
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["delete"], webhook) is None:
                    raise NotFoundError("webhook", webhook)
                for step in ("delete_queue", "delete_lanes", "delete_tasks"):
                    await connection.execute(_SQL[step], queue)
                await connection.execute(_QUEUES["notify"])

    async def target(self, webhook: str) -> DeliveredWebhook | None:
        """The webhook for a delivery, with the former secret while that is still used; None when there is none."""
        with translate_errors():
            row = await _TARGET.fetchrow(self._pool, webhook)
        if row is None:
            return None
        old = None
        if row.old_until is not None:
            reference = None if row.old_reference is None else Secret.parse(row.old_reference)
            old = OldSecret(row.old_secret, reference, row.old_until)
        return DeliveredWebhook(_definition(webhook, row.definition), row.enabled, row.secret, old)

    async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
        """Disables a webhook whose deliveries fail; False when it was disabled or deleted already."""
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                return await _set_enabled(connection, webhook, False, reason, by_owner=False, now=now)

    async def list_followed(self) -> Sequence[FollowedWebhook]:
        """The enabled webhooks. One that this release cannot read is left out, and logged."""
        with translate_errors():
            rows = await _FOLLOWED.fetch(self._pool, MOST_QUEUED)
        return [
            row._replace(webhook=webhook)
            for row in rows
            if (webhook := read_definition(row.id, row.webhook)) is not None
        ]

    async def feed(
        self, position: int, reached: int, changes: Mapping[str, Sequence[TaskRequest]], *, now: datetime
    ) -> int:
        """Puts changes into the queues of webhooks, by id, and moves their positions from `position` to `reached`, in
        one transaction; leaves out those that are elsewhere by now or disabled. Returns how many were put. In a queue,
        changes have the order in which they were given, also when `now` goes back. Of those with changes, `now` is when
        the latest message was made.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                due = dict(await _LOCK_AT.fetch(connection, list(changes), position))
                tasks = [
                    (queue_of(webhook), replace(request, due_at=max(now, fed_at)))
                    for webhook, fed_at in due.items()
                    for request in changes[webhook]
                ]
                if tasks:
                    await enqueue(connection, tasks, now, changes=True)
                given = [webhook for webhook in due if changes[webhook]]
                await connection.execute(_SQL["advance"], list(due), reached, now, given)
        return len(tasks)

    async def forget_old_secrets(self, *, now: datetime) -> int:
        """Removes old secrets whose time has ended; returns how many."""
        with translate_errors():
            return len(await self._pool.fetch(_SQL["forget_old"], None, now))

    async def list_failing(self) -> Sequence[WebhookRecord]:
        """Enabled webhooks of which a delivery waits for its next attempt."""
        with translate_errors():
            async with self._pool.acquire() as connection:
                return await _records(
                    connection, [webhook for (webhook,) in await connection.fetch(_SQL["list_failing"])]
                )


async def _set_enabled(
    connection: Connection, webhook: str, enabled: bool, reason: str, *, by_owner: bool, now: datetime
) -> bool:
    """Enables or disables a webhook, and resumes or pauses its queue; False when it is so already or does not exist."""
    before = await connection.fetchval(_SQL["lock"], webhook)
    if before is None or before is enabled:
        return False
    queue, why = queue_of(webhook), storable_text(reason)
    await connection.execute(_SQL["enable"], webhook, enabled, why, by_owner, now)
    await connection.execute(_QUEUES["pause"], queue, not enabled, now)
    await connection.execute(_QUEUES["record"], now, queue, f"webhook.{'enabled' if enabled else 'disabled'}", why)
    await connection.execute(_QUEUES["notify"])
    return True


async def _records(connection: Connection, ids: Sequence[str]) -> list[WebhookRecord]:
    """Webhooks by id. One that this release cannot read is left out, and logged."""
    return [
        row._replace(webhook=webhook)
        for row in await _RECORDS.fetch(connection, ids)
        if (webhook := read_definition(row.id, row.webhook)) is not None
    ]


def read_definition(webhook: str, definition: Any) -> Webhook | None:
    """A stored definition; None, and logged, when a later release has stored it."""
    try:
        return _definition(webhook, definition)
    except InvalidError as exc:
        log.error("webhooks.unreadable", webhook=webhook, path=exc.path, reason=exc.reason)
        return None


def _definition(webhook: str, definition: Any) -> Webhook:
    """Raises:
    InvalidError: it was stored by a later release.
    """
    namespace, _, name = webhook.partition(".")
    return DEFINITION.read(definition, namespace=namespace, name=name)


async def _record(connection: Connection, webhook: str) -> WebhookRecord:
    found = await _records(connection, [webhook])
    if not found:
        raise NotFoundError("webhook", webhook)
    return found[0]
