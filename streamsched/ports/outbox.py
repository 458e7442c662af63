"""The outbox: records to append to the log, stored in the transaction of the change they tell of.

Rows become visible when their transaction commits, so not in the order of their ids; of two changes that exclude each
other (of one schedule, of one run) the later has the greater ids and is visible later. That is all the order the log
needs, and all this port promises (ADR 0002).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple, Protocol

from streamsched.domain.names import ScheduleRef


class OutboxRecord(NamedTuple):
    """A record as a change writes it; the home of `key` will be its partition."""

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

    async def pending(self, *, limit: int, beside: Collection[int] = ()) -> Sequence[PendingRecord]:
        """What is visible now, smallest ids first, without the ids `beside`.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def forget(self, ids: Sequence[int]) -> None:
        """Deletes records the log has acknowledged and tells those who wait for it. Idempotent.

        Raises:
            UnavailableError: PostgreSQL is away; nothing was deleted, or everything.
        """
        ...


class Receipts(Protocol):
    """What a change needs to know that the log has it."""

    async def outstanding(self, ids: Sequence[int]) -> int:
        """How many of these records the log has not acknowledged yet.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


class Mending(Protocol):
    """Writes what the log must be told again."""

    async def mend(self, ref: ScheduleRef, generation: int, records: Sequence[OutboxRecord]) -> Sequence[int]:
        """Ids of the records in the outbox; none, and nothing written, when the schedule (0: nobody knows it) is not of
        this generation any more.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...
