"""What the delivery of a change to a webhook needs."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

from streamsched.domain.programs.secret import Secret
from streamsched.domain.webhooks.webhook import Webhook


class OldSecret(NamedTuple):
    """The secret before the last one: generated, or by reference. It signs beside that until `until`."""

    generated: str | None
    reference: Secret | None
    until: datetime


class DeliveredWebhook(NamedTuple):
    """What a delivery needs. `secret`: the generated one."""

    webhook: Webhook
    enabled: bool
    secret: str | None
    old: OldSecret | None


class WebhookTargets(Protocol):
    """Both methods raise UnavailableError when PostgreSQL is unavailable."""

    async def target(self, webhook: str) -> DeliveredWebhook | None:
        """A webhook by id; None: it was deleted."""
        ...

    async def disable_failing(self, webhook: str, reason: str, *, now: datetime) -> bool:
        """Disables a webhook on behalf of the installation; False when it is not enabled."""
        ...
