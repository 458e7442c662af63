"""What a check-up asks of PostgreSQL, at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.ports.archive import Kept
from streamsched.ports.leases import Lease


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """How PostgreSQL and what is in it stand.

    Attributes:
        server: its version in words.
        revision: of the schema; None: it has none.
        now: its clock (UTC).
        forbidden: `table: privilege` of what this user may not do and must be able to.
        outbox: control records that are not in the log yet; `outbox_since` is when the oldest came.
        leases: all of them, also those that have run out.
        hidden: of each partition of `dead-letter`, the position below which letters are put away.
        late: seconds by which the first overdue tick or wake-up is late.
        history: the tables of what has ended.
    """

    server: str
    revision: str | None
    now: datetime
    forbidden: Sequence[str]
    outbox: int
    outbox_since: datetime | None
    leases: Sequence[Lease]
    hidden: Mapping[int, int]
    late: float
    history: Sequence[Kept] = ()


class DatabaseProbe(Protocol):
    """Asks."""

    async def facts(self) -> DatabaseFacts:
        """Raises:
        UnavailableError: PostgreSQL is away.
        ConfigurationError: it is not what we need.
        """
        ...
