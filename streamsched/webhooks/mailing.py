"""Delivers the messages in the queue of mail: to the addresses that the app names when it is sent, as far as the
installation permits them.
"""

from __future__ import annotations

from streamsched.codec.webhooks.mail import mail
from streamsched.codec.webhooks.notification import digest_of, recipient_of
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.domain.notices.mail_rules import refused_address
from streamsched.domain.notices.mail_server import MailSettings
from streamsched.domain.tasks.attempt import Acknowledged, AttemptEnd, AttemptFailed, Interrupted, StartedTask
from streamsched.ports.clock import Clock
from streamsched.secrets.resolver import Secrets
from streamsched.store.webhooks.notices import NoticeStore
from streamsched.webhooks.smtp import SmtpClient

#: A mail that the server refuses for good is sent so often.
_PERMANENT_TRIES = 3


class MailDelivery:
    """Belongs to one event loop. `settings` None: this process sends no mail."""

    def __init__(self, recipients: NoticeStore, settings: MailSettings | None, secrets: Secrets, clock: Clock) -> None:
        self._recipients = recipients
        self._settings = settings
        self._secrets = secrets
        self._clock = clock
        self._client = None if settings is None else SmtpClient(settings.server, user=settings.user)

    async def deliver(self, task: StartedTask) -> AttemptEnd:
        """As of `tasks.attempt.Receiver`. Each attempt has the same Message-ID."""
        settings, client = self._settings, self._client
        if settings is None or client is None:
            return AttemptFailed(self._clock.now(), "not sent: STREAMSCHED_SMTP_URL of this launcher is not set")
        try:
            found = await self._recipients.recipient(recipient_of(task.data))
            if found is None:
                return Acknowledged(self._clock.now(), "not sent: its app does not notify it any more")
            app, recipient = found
            refused = [refused_address(app.namespace, address, settings.rules) for address in recipient.to]
            to = [address for address, why in zip(recipient.to, refused, strict=True) if why is None]
            if not to:
                return AttemptFailed(self._clock.now(), f"not sent: {refused[0]}", final=True)
            password = await self._password(settings)
        except UnavailableError as exc:
            return Interrupted(self._clock.now(), f"the recipient cannot be read: {exc}")
        except ConfigurationError as exc:
            return AttemptFailed(self._clock.now(), f"not sent: {exc}")
        digest = digest_of(task.data)
        body = mail(digest, sender=settings.sender, to=to, message_id=task.id, at=digest.notifications[-1].at)
        answer = await client.send(body, sender=settings.sender, to=to, password=password)
        now = self._clock.now()
        if answer.accepted:
            return Acknowledged(now, answer.text)
        return AttemptFailed(now, answer.text, final=answer.permanent and task.failures + 1 >= _PERMANENT_TRIES)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()

    async def _password(self, settings: MailSettings) -> str:
        """Raises:
        ConfigurationError: it cannot be read.
        """
        if settings.secret is None:
            return ""
        path = "STREAMSCHED_SMTP_SECRET"
        return (await self._secrets.read("*", {settings.secret: path}))[settings.secret]
