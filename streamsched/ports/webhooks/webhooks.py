"""Webhooks: for people, for the loop that puts changes into their queues, and for their deliveries. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from streamsched.domain.programs.secret import Secret
from streamsched.domain.tasks.task import TaskRequest
from streamsched.domain.webhooks.webhook import Webhook


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecord:
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


class WebhookStore(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable, and those with an id `NotFoundError` when
    there is no such webhook.
    """

    async def create(self, webhook: Webhook, *, secret: str | None, by: str, now: datetime) -> WebhookRecord:
        """Stores a webhook, which is sent changes from now on, and makes its queue. `secret`: the generated one.

        Raises:
            ConflictError: there is one of this name, or there are `MOST_WEBHOOKS`.
            QuotaExceededError: the namespace has as many as its quota allows.
        """
        ...

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
        ...

    async def page(self, namespace: str | None, *, after: str, limit: int) -> Sequence[WebhookRecord]:
        """Those of a namespace by name, after a name; None: of all namespaces by id, after an id."""
        ...

    async def get(self, webhook: str) -> WebhookRecord: ...

    async def enable(self, webhook: str, enabled: bool, reason: str, *, now: datetime) -> WebhookRecord:
        """Enables it: it goes on after the last change that was accepted. Or disables it: nothing is started any more.
        Idempotent.
        """
        ...

    async def put(self, webhook: str, request: TaskRequest, *, now: datetime) -> str:
        """Puts an event beside the changes into its queue; returns the id of the task."""
        ...

    async def delete(self, webhook: str) -> None:
        """Deletes it with its queue and what is in it."""
        ...


@dataclass(frozen=True, slots=True)
class FollowedWebhook:
    """An enabled webhook. `position`: the number of the last line that was put into its queue or passed over; `queued`:
    changes in its queue, at most `MOST_QUEUED`; `sent_at`: when the latest message of one for people was made.
    """

    webhook: Webhook
    position: int
    queued: int
    sent_at: datetime | None = None


class WebhookFeed(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def followed(self) -> Sequence[FollowedWebhook]:
        """The enabled webhooks. One that this release cannot read is left out, and logged."""
        ...

    async def feed(
        self, position: int, reached: int, changes: Mapping[str, Sequence[TaskRequest]], *, now: datetime
    ) -> int:
        """Puts changes into the queues of webhooks, by id, and moves their positions from `position` to `reached`, in
        one transaction; leaves out those that are elsewhere by now or disabled. Returns how many were put. In a queue,
        changes have the order in which they were given, also when `now` goes back. Of those with changes, `now` is when
        the latest message was made.
        """
        ...

    async def failing(self) -> Sequence[WebhookRecord]:
        """Enabled webhooks of which a delivery waits for its next attempt."""
        ...

    async def forget_old_secrets(self, *, now: datetime) -> int:
        """Removes old secrets whose time has ended; returns how many."""
        ...

    async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
        """Disables a webhook on behalf of the installation; False when it is not enabled."""
        ...


@dataclass(frozen=True, slots=True)
class OldSecret:
    """The secret before the last one: generated, or by reference. It signs beside that until `until`."""

    generated: str | None
    reference: Secret | None
    until: datetime


@dataclass(frozen=True, slots=True)
class DeliveredWebhook:
    """What a delivery needs. `secret`: the generated one."""

    webhook: Webhook
    enabled: bool
    secret: str | None
    old: OldSecret | None


class WebhookTargets(Protocol):
    """What a delivery needs."""

    async def target(self, webhook: str) -> DeliveredWebhook | None:
        """A webhook by id; None: it was deleted.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
        """As `WebhookFeed.disable_failing`."""
        ...
