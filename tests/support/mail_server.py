"""A real mail server on this machine, which keeps what it is given and answers as the test says."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from tests.support.services import need_module


@dataclass
class MailBox:
    """What a server was given. `answer`: its reply to the content of a mail; `recipient`: to the address of one."""

    port: int = 0
    answer: Callable[[EmailMessage], str] = lambda _: "250 OK"
    recipient: Callable[[str], str] = lambda _: "250 OK"
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:  # noqa: N802
        del server, session, options
        reply = self.recipient(address)
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        message = message_from_bytes(envelope.content, policy=default)
        assert isinstance(message, EmailMessage)
        self.mails.append(message)
        self.envelopes.append((envelope.mail_from, tuple(envelope.rcpt_tos)))
        self.encrypted.append(server.transport.get_extra_info("ssl_object") is not None)
        return self.answer(message)

    @property
    def subjects(self) -> list[str]:
        return [str(mail["Subject"]) for mail in self.mails]

    @property
    def ids(self) -> list[str]:
        return [str(mail["Message-ID"]) for mail in self.mails]


def text_of(mail: EmailMessage) -> str:
    """The text of a mail, with plain line ends."""
    return mail.get_content().replace("\r\n", "\n")


@contextmanager
def receiving_mail(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, login: tuple[str, str] | None = None
) -> Iterator[MailBox]:
    """A server on a free port, in a thread. With `login` it wants that user and password."""
    need_module("aiosmtpd", "dev")
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import AuthResult, LoginPassword

    box = MailBox()

    def authenticated(server: Any, session: Any, envelope: Any, mechanism: str, given: LoginPassword) -> AuthResult:
        del server, session, envelope, mechanism
        box.logins.append((given.login, given.password))
        right = login is not None and (given.login, given.password) == tuple(part.encode() for part in login)
        return AuthResult(success=right, handled=False)

    controller = Controller(
        box,
        hostname="127.0.0.1",
        port=_free_port(),
        ssl_context=tls,
        tls_context=starttls,
        require_starttls=starttls is not None,
        authenticator=authenticated if login else None,
        auth_required=login is not None,
        auth_require_tls=False,
    )
    controller.start()
    box.port = controller.port
    try:
        yield box
    finally:
        controller.stop()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
