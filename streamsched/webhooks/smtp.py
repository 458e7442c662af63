"""Hands mail over to a server by SMTP, in threads, which the standard library's client needs."""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

from streamsched.domain.notices.mail_server import MailSecurity, MailServer
from streamsched.secrets.redaction import Redaction

#: Mails on their way at a time.
AT_ONCE: Final = 4
#: Seconds for each answer of the server, and for a whole mail.
_ANSWER_S: Final = 15.0
_WHOLE_S: Final = 50.0
_REASON: Final = 300
#: Replies from here on are refusals for good.
_PERMANENT: Final = 500


@dataclass(frozen=True, slots=True)
class SmtpAnswer:
    """What became of a mail. `permanent`: the server refused it for good."""

    accepted: bool
    text: str
    permanent: bool = False


class SmtpClient:
    """Belongs to one event loop."""

    def __init__(self, server: MailServer, *, user: str = "") -> None:
        self._server = server
        self._user = user
        self._threads: ThreadPoolExecutor | None = None

    async def send(self, mail: bytes, *, sender: str, to: Sequence[str], password: str) -> SmtpAnswer:
        """Hands a mail over. Does not raise for what the server does; the text has no password."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="mail")
        loop, open_sockets = asyncio.get_running_loop(), list[socket.socket]()
        sending = partial(self._send, mail, sender, list(to), password, open_sockets)
        call = loop.run_in_executor(self._threads, sending)
        try:
            async with asyncio.timeout(_WHOLE_S):
                answer = await asyncio.shield(call)
        except TimeoutError:
            answer = SmtpAnswer(False, f"the mail server took longer than {_WHOLE_S:g} s")
        finally:
            for each in open_sockets:  # ends a thread that still waits for the server
                each.close()
        hidden = Redaction([password] if password else [])
        return SmtpAnswer(answer.accepted, hidden.text(answer.text), answer.permanent)

    async def close(self) -> None:
        """Ends its threads. Idempotent."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def _send(
        self, mail: bytes, sender: str, to: list[str], password: str, open_sockets: list[socket.socket]
    ) -> SmtpAnswer:
        try:
            with self._connect() as smtp:
                if smtp.sock is not None:
                    open_sockets.append(smtp.sock)
                if self._server.security is MailSecurity.STARTTLS:
                    smtp.starttls(context=ssl.create_default_context())
                if self._user:
                    smtp.login(self._user, password)
                refused = smtp.sendmail(sender, to, mail)
        except smtplib.SMTPRecipientsRefused as exc:
            code, text = next(iter(exc.recipients.values()), (0, b""))
            return _refuse(code, text)
        except smtplib.SMTPResponseException as exc:
            return _refuse(exc.smtp_code, exc.smtp_error)
        except (smtplib.SMTPException, OSError, ValueError) as exc:
            return SmtpAnswer(False, f"no mail server: {_text(str(exc) or type(exc).__name__)}")
        listed = ", ".join(f"{address} ({code} {_text(text)})" for address, (code, text) in refused.items())
        return SmtpAnswer(True, f"handed over; refused for {listed}" if refused else "handed over")

    def _connect(self) -> smtplib.SMTP:
        host, port, name = self._server.host, self._server.port, socket.gethostname()
        if self._server.security is MailSecurity.TLS:
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(host, port, local_hostname=name, timeout=_ANSWER_S, context=context)
        return smtplib.SMTP(host, port, local_hostname=name, timeout=_ANSWER_S)


def _refuse(code: int, text: bytes | str) -> SmtpAnswer:
    return SmtpAnswer(False, f"the mail server answered {code} {_text(text)}", code >= _PERMANENT)


def _text(answer: bytes | str) -> str:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:_REASON]
