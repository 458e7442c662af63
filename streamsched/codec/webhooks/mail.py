"""A message as a mail. Header fields are set as values, which the standard library encodes and folds; what comes from
outside has no line breaks by then, and addresses were checked where they were defined.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Final

from streamsched.domain.notices.notification import Digest, paragraphs, subject

_TAG: Final = "[streamsched] "
#: A subject that is not encoded is one line: folded before its first word, some readers show a space.
_UNFOLDED: Final = SMTP.clone(max_line_length=998)


def mail(digest: Digest, *, sender: str, to: Sequence[str], message_id: str, at: datetime) -> bytes:
    """The mail, with CRLF. `message_id`: the same for each attempt, without angles; `at` (UTC): of the message."""
    line = _TAG + subject(digest)
    made = EmailMessage(policy=_UNFOLDED if line.isascii() else SMTP)
    made["From"] = sender
    made["To"] = ", ".join(to)
    made["Subject"] = line
    made["Date"] = format_datetime(at)
    made["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2].rstrip('>')}>"
    made["Auto-Submitted"] = "auto-generated"
    made["X-Auto-Response-Suppress"] = "All"
    made.set_content("\n".join(_lines(digest)), charset="utf-8", cte="quoted-printable")
    return made.as_bytes()


def _lines(digest: Digest) -> list[str]:
    found: list[str] = []
    for each in paragraphs(digest):
        if found:
            found.append("")
        if each.verbatim:
            found += ["--- the end of its log ---", *each.lines, "---"]
        elif each.link:
            found.append(each.link)
        else:
            found += each.lines
    return found
