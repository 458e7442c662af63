"""The outbox: records to append to the log, stored in the transaction of the change they describe.

Rows become visible when their transaction commits, not in the order of their ids. Of two changes that exclude each
other (of one schedule, of one run) the later has the greater ids and is visible later. The log needs no other order,
and this port guarantees no other (ADR 3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol


class OutboxRecord(NamedTuple):
    """A record as a change writes it; its partition is the home of `key`."""

    topic: str
    key: str
    value: bytes


class PendingRecord(NamedTuple):
    """A record that waits for the relay. `id` is never reused."""

    id: int
    topic: str
    key: str
    value: bytes


class Outbox(Protocol):
    """What the relay needs."""

    async def list_pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        """The visible records, smallest ids first, without the ids `beside`.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def forget(self, ids: Sequence[int]) -> None:
        """Deletes records the log has acknowledged, and notifies `RELAYED`. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing was deleted, or everything.
        """
        ...

    async def advance(self, last: int) -> bool:
        """Has new records get ids greater than `last`. Returns whether they would have got others: then the database is
        older than the record with that id, because it was restored from a backup.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
