"""Quotas of namespaces. Times are UTC. Each method raises UnavailableError when PostgreSQL is unavailable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from streamsched.domain.quotas.event_level import EventLease, LeaseRequest
from streamsched.domain.quotas.quota import Quota, QuotaGrowth, QuotaUse
from streamsched.domain.revision import Expected

#: The limits that are set, by namespace.
Limits = Mapping[str, Mapping[Quota, int]]


class QuotaStore(Protocol):
    """Administration, and what requests are checked against. Every call is one transaction."""

    async def limits(self) -> Limits:
        """The quotas of all namespaces, without what is in use."""
        ...

    async def all(self, *, now: datetime, after: str = "", limit: int | None = None) -> Sequence[QuotaUse]:
        """Quotas with what is in use, by namespace; those of at most `limit` namespaces after `after`."""
        ...

    async def of(self, namespace: str, *, now: datetime) -> Sequence[QuotaUse]:
        """The quotas of a namespace with what is in use, in the order of `Quota`."""
        ...

    async def check(self, namespace: str, growth: QuotaGrowth, *, now: datetime) -> None:
        """Checks what a plan would add. The change itself is checked again, in its transaction.

        Raises:
            QuotaExceededError: the namespace would have more than a limit.
        """
        ...

    async def set(
        self, namespace: str, quota: Quota, limit: int, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        """Sets or replaces a quota. What exists stays, also when it is more than the limit. Jobs that wait for the
        quota `runs` are rechecked. Idempotent.

        Raises:
            RevisionChangedError: the quota has no expected revision; nothing changed.
        """
        ...

    async def unset(
        self, namespace: str, quota: Quota, reason: str, *, now: datetime, expected: Expected | None = None
    ) -> QuotaUse:
        """Removes a quota and returns what it was.

        Raises:
            NotFoundError: it is not set.
            RevisionChangedError: it has no expected revision; nothing changed.
        """
        ...

    async def lease(
        self, process: str, demands: Mapping[str, LeaseRequest], limits: Mapping[str, int], *, now: datetime
    ) -> Mapping[str, EventLease]:
        """Takes a process's share of the events of these namespaces (`domain.quotas.event_level.leased`), and gives
        back what is left of its last one. `limits`: events a second. Tokens that are returned later than `HELD` after
        their lease are lost.
        """
        ...
