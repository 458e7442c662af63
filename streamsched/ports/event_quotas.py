"""What a process of the API checks requests against."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from streamsched.domain.quotas.event_level import EventLease, LeaseRequest
from streamsched.domain.quotas.quota import Limits


class EventQuotas(Protocol):
    """Quotas, and shares of the events per second. Each method is one transaction, and raises UnavailableError when
    PostgreSQL is unavailable.
    """

    async def limits(self) -> Limits:
        """The quotas of all namespaces, without what is in use."""
        ...

    async def backlogs(self) -> Mapping[str, datetime]:
        """By namespace since when its first event waits to be read behind others of it (UTC)."""
        ...

    async def lease(
        self, process: str, demands: Mapping[str, LeaseRequest], limits: Mapping[str, int], *, now: datetime
    ) -> Mapping[str, EventLease]:
        """Takes a process's share of the events of these namespaces (`domain.quotas.event_level.leased`), and gives
        back what is left of its last one. `limits`: events a second. Tokens that are returned later than `HELD` after
        their lease are lost.
        """
        ...
