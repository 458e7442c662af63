"""Who is notified of the failures of apps: which lines of the history wait for them, and what messages are made. Times
are UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from streamsched.domain.names import AppRef
from streamsched.domain.notices.recipient import MailRecipient, Recipient
from streamsched.domain.webhooks.change import WorkLine


class WaitingRecipient(NamedTuple):
    """A recipient for whom there may be something. `first`: the number of the first line."""

    id: str
    app: AppRef
    recipient: Recipient
    first: int


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of the history for one recipient.

    Attributes:
        lines: those that it wants, oldest first.
        following: the number of the next line for it that is not among these; None: there is none.
    """

    lines: Sequence[WorkLine]
    following: int | None = None


class NoticeStore(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable. Of two instances that read the same, one
    finds that the other was first.
    """

    async def notice(self, settled: int, *, limit: int) -> int:
        """Notes for which recipients there is something in the next lines of the history up to a number that is
        settled; returns how many lines of failures were read.
        """
        ...

    async def due_recipients(self, *, now: datetime, pace: timedelta, limit: int) -> Sequence[WaitingRecipient]:
        """Recipients for whom there is something, whose latest message was made at least `pace` ago and has been
        delivered, those that wait longest first. One that this release cannot read is left out, and logged.
        """
        ...

    async def send(
        self, waiting: WaitingRecipient, wants: Callable[[WorkLine], bool], *, now: datetime, limit: int
    ) -> int:
        """Makes the message about at most `limit` lines, and puts it into its queue, or starts the program, in one
        transaction. Returns about how many lines it is; 0: there was none that it wants.
        """
        ...


class MailRecipients(Protocol):
    """What the delivery of a mail needs."""

    async def recipient(self, identity: str) -> tuple[AppRef, MailRecipient] | None:
        """The recipient of this id; None: its app notifies it no more.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
