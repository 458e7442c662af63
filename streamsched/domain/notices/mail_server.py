"""The mail server of an installation, as its settings name it.

>>> MailServer.parse("smtp://mail.example.org:587")
MailServer(host='mail.example.org', port=587, security=<MailSecurity.STARTTLS: 'smtp'>)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import urlsplit

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.notices.mail_rules import MailRule
from streamsched.domain.notices.recipient import check_address
from streamsched.domain.programs.secret import Secret


class MailSecurity(StrEnum):
    """How the connection is encrypted: by STARTTLS, which is required; from its first byte; not at all."""

    STARTTLS = "smtp"
    TLS = "smtps"
    PLAIN = "smtp+plain"


_PORTS: Final = {MailSecurity.STARTTLS: 587, MailSecurity.TLS: 465, MailSecurity.PLAIN: 25}


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over."""

    host: str
    port: int
    security: MailSecurity

    @classmethod
    def parse(cls, url: str) -> MailServer:
        """Reads `smtp://host:587`, `smtps://host:465` or `smtp+plain://host:25`; the port may be left out.

        Raises:
            InvalidDefinitionError: it is none of these.
        """
        wrong = InvalidDefinitionError("$", "must be smtp://host:587, smtps://host:465 or smtp+plain://host:25")
        try:
            parts = urlsplit(url)
            security = MailSecurity(parts.scheme)
            port = parts.port or _PORTS[security]
        except ValueError:
            raise wrong from None
        if not parts.hostname or parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
            raise wrong
        return cls(parts.hostname, port, security)


@dataclass(frozen=True, slots=True)
class MailSettings:
    """How an installation sends mail. `secret`: reference to the password of `user`; None: it needs none."""

    server: MailServer
    sender: str
    rules: Sequence[MailRule]
    user: str = ""
    secret: Secret | None = None


def parse_mail_server(url: str) -> MailServer | None:
    """`MailServer.parse`; None of an empty text.

    Raises:
        InvalidDefinitionError: it is none.
    """
    return MailServer.parse(url) if url else None


def parse_sender(address: str) -> str:
    """A sender's address, which may be empty.

    Raises:
        InvalidDefinitionError: it is none.
    """
    if address:
        check_address(address, "$")
    return address


def parse_secret(reference: str) -> Secret | None:
    """The secret that a text refers to; None of an empty one.

    Raises:
        InvalidDefinitionError: it is no reference.
    """
    return Secret.parse(reference) if reference else None
