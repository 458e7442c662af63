"""Sends changes to the targets of webhooks, signed as the Standard Webhooks specification says, and messages for people
to those of Slack and Teams. Mail is delivered by `webhooks.mailing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, assert_never

import orjson
import structlog
from yarl import URL

from streamsched.codec.webhooks.chat import slack, teams
from streamsched.codec.webhooks.cloud_event import BATCH, STRUCTURED, binary, message_id
from streamsched.codec.webhooks.notification import NOTICE, digest_of, events_of
from streamsched.domain.errors import ConfigurationError, InvalidError, UnavailableError
from streamsched.domain.programs.secret import Secret
from streamsched.domain.tasks.attempt import (
    LEASE_OVER,
    Acknowledged,
    AttemptEnd,
    AttemptFailed,
    Interrupted,
    StartedTask,
)
from streamsched.domain.tasks.queue import Target
from streamsched.domain.webhooks.form import EventMode, WebhookFormat
from streamsched.domain.webhooks.signature import secret_text, signature_headers, signing_key
from streamsched.domain.webhooks.webhook import AT_ONCE, MAIL_QUEUE, Webhook, webhook_of
from streamsched.ports.clock import Clock
from streamsched.ports.webhook_targets import DeliveredWebhook, WebhookTargets
from streamsched.process.http_client import HttpClient, PreparedRequest
from streamsched.secrets.redaction import Redaction
from streamsched.secrets.resolver import SHORTEST, Secrets
from streamsched.webhooks.mailing import MailDelivery

log = structlog.get_logger()

#: How long the value of a secret is used without being read again.
_REUSE_SECRET: Final = timedelta(seconds=30)
_AGENT: Final = "streamsched-webhooks"
_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class _Ready:
    """A webhook with its signing keys. `hidden`: what its target may not say back: the secrets, and the query of the
    URL, which may have one; of one for people its path is one.
    """

    webhook: Webhook
    keys: tuple[bytes, ...]
    hidden: Redaction


@dataclass(frozen=True, slots=True)
class _ReadKey:
    """The key of a reference, until it is read again; None: it cannot be used."""

    key: bytes | None
    until: datetime


class WebhookReceiver:
    """A `tasks.attempt.Receiver`: webhooks. Belongs to one event loop. An answer of 410 disables the webhook. Its
    definition is read for each delivery: one that was made again under the same name is another.

    `leased`: as of `HttpReceiver`. `mail`: delivers what is in the queue of mail.
    """

    def __init__(
        self,
        targets: WebhookTargets,
        client: HttpClient,
        secrets: Secrets,
        clock: Clock,
        *,
        leased: Callable[[], bool],
        mail: MailDelivery | None = None,
    ) -> None:
        self._leased = leased
        self._mail = mail
        self._targets = targets
        self._client = client
        self._secrets = secrets
        self._clock = clock
        self._read: dict[tuple[str, Secret], _ReadKey] = {}

    def room(self, queue: str) -> int:
        """How many more messages it sends now."""
        del queue
        return AT_ONCE

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        """Signs the message and sends it to the webhook's URL; the answer is the end of the attempt."""
        del target
        if task.queue == MAIL_QUEUE and self._mail is not None:
            return await self._mail.deliver(task)
        webhook = webhook_of(task.queue)
        try:
            ready = await self._prepare(webhook)
        except UnavailableError as exc:
            return Interrupted(self._clock.now(), f"the webhook cannot be read: {exc}")
        except (ConfigurationError, InvalidError) as exc:
            return AttemptFailed(self._clock.now(), f"not sent: {exc}")
        if ready is None:
            return Interrupted(self._clock.now(), "the webhook is disabled or was deleted")
        request = request_of(
            ready.webhook, task.data, *ready.keys, at=self._clock.now(), notice=task.content_type == NOTICE
        )
        answer = await self._client.send(request, ready.webhook.timeout, allowed=self._leased)
        now = self._clock.now()
        if answer.withheld:
            return Interrupted(now, LEASE_OVER)
        if answer.is_accepted:
            return Acknowledged(now, f"HTTP {answer.status}")
        if answer.status == HTTPStatus.GONE:
            await self._disable(webhook, "its target answered HTTP 410: it is gone")
        return AttemptFailed(now, ready.hidden.text(answer.text))

    async def close(self) -> None:
        await self._client.close()
        if self._mail is not None:
            await self._mail.close()

    async def _prepare(self, webhook: str) -> _Ready | None:
        """The webhook; None when it may not be sent to.

        Raises:
            ConfigurationError, InvalidError: its secret cannot be used.
            UnavailableError: PostgreSQL is unavailable.
        """
        found = await self._targets.target(webhook)
        if found is None or not found.enabled:
            return None
        keys = await self._keys(found, self._clock.now())
        url = URL(found.webhook.url, encoded=True)
        parts = (*url.query.values(), *(url.parts[1:] if found.webhook.is_for_people else ()))
        values = (*map(secret_text, keys), *(each for each in parts if len(each) >= SHORTEST))
        return _Ready(found.webhook, keys, Redaction(values))

    async def _keys(self, found: DeliveredWebhook, now: datetime) -> tuple[bytes, ...]:
        """The key, and the one before it while that signs too. An old one that cannot be used any more is left out."""
        namespace, old = found.webhook.namespace, found.old
        self._read = {secret: read for secret, read in self._read.items() if read.until > now}
        key = await self._key(namespace, found.secret, found.webhook.secret, now)
        if old is None or old.until <= now:
            return (key,)
        if old.reference is not None and (read := self._read.get((namespace, old.reference))) is not None:
            return (key,) if read.key is None else (key, read.key)
        try:
            return key, await self._key(namespace, old.generated, old.reference, now)
        except (ConfigurationError, InvalidError) as exc:
            if old.reference is not None:
                self._read[namespace, old.reference] = _ReadKey(None, now + _REUSE_SECRET)
            log.warning("webhooks.old_secret_unusable", webhook=found.webhook.id, reason=str(exc))
            return (key,)

    async def _key(self, namespace: str, generated: str | None, reference: Secret | None, now: datetime) -> bytes:
        if generated is not None:
            return signing_key(generated)
        if reference is None:
            raise ConfigurationError("the webhook has no secret")
        read = self._read.get((namespace, reference))
        if read is not None and read.key is not None:
            return read.key
        values = await self._secrets.read(namespace, {reference: "$.secret"})
        key = signing_key(values[reference])
        self._read[namespace, reference] = _ReadKey(key, now + _REUSE_SECRET)
        return key

    async def _disable(self, webhook: str, reason: str) -> None:
        try:
            if await self._targets.disable_failing(webhook, reason, now=self._clock.now()):
                log.error("webhooks.disabled", webhook=webhook, reason=reason)
        except UnavailableError as exc:
            log.warning("webhooks.not_disabled", webhook=webhook, reason=str(exc))


def request_of(webhook: Webhook, data: bytes, *keys: bytes, at: datetime, notice: bool = False) -> PreparedRequest:
    """The request of an attempt at `at` (UTC). What is signed, with each key, is the body as it is sent. `data`: a
    structured event, or with `notice` a message for people (`codec.webhooks.notification`), whose format may have been
    changed since it was made.
    """
    headers, body = _content(webhook, data, notice=notice)
    url = URL(webhook.url, encoded=True)
    headers = {**headers, **signature_headers(message_id(data), int(at.timestamp()), body, *keys)}
    whole = {"User-Agent": _AGENT, **headers, "Content-Length": str(len(body))}
    return PreparedRequest("POST", url, list(whole.items()), body)


def _content(webhook: Webhook, data: bytes, *, notice: bool) -> tuple[Mapping[str, str], bytes]:
    match webhook.format:
        case WebhookFormat.SLACK:
            return {"Content-Type": _JSON}, slack(digest_of(data))
        case WebhookFormat.TEAMS:
            return {"Content-Type": _JSON}, teams(digest_of(data))
        case WebhookFormat.CLOUDEVENTS if notice:
            return {"Content-Type": BATCH}, orjson.dumps(events_of(data))
        case WebhookFormat.CLOUDEVENTS if webhook.mode is EventMode.BINARY:
            return binary(data)
        case WebhookFormat.CLOUDEVENTS:
            return {"Content-Type": STRUCTURED}, data
        case _:
            assert_never(webhook.format)
