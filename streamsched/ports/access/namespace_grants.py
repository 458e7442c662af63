"""Grants between namespaces, and the owners of groups and pools. Times are UTC. Each method raises UnavailableError
when PostgreSQL is unavailable.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from streamsched.domain.access.namespace_grant import NamespaceGrant, SharedKind
from streamsched.domain.access.references import KnownGrants


class NamespaceGrantStore(Protocol):
    """Every call is one transaction."""

    async def known(
        self, grantee: str, owners: Collection[str], shared: Collection[tuple[SharedKind, str]]
    ) -> KnownGrants:
        """What these namespaces, and the owners of these groups and pools, have given to `grantee`."""
        ...

    async def list_of(
        self, namespace: str, *, after: tuple[str, str, str, str] | None = None, limit: int
    ) -> Sequence[NamespaceGrant]:
        """Those that the namespace has given and those that it has, ordered by owner, kind, name and grantee; at most
        `limit` of those after `after`.
        """
        ...

    async def record(self, grants: Sequence[NamespaceGrant], *, now: datetime) -> None:
        """Stores or replaces grants.

        Raises:
            ConflictError: a namespace would give or have more than `MOST_NAMESPACE_GRANTS`; nothing changed.
        """
        ...

    async def claim(self, namespace: str, shared: Collection[tuple[SharedKind, str]], *, now: datetime) -> int:
        """Makes groups and pools without an owner those of the namespace, and notes that it still asks for those which
        are its already; returns how many are now its.

        Raises:
            QuotaExceededError: it would own more names than its quota allows.
        """
        ...

    async def free(self, *, before: datetime, now: datetime) -> int:
        """Takes the owner from names of groups and pools that nothing uses and that no definition has asked for since
        `before`; returns how many. The history of each owner has them.
        """
        ...

    async def hand_over(self, kind: SharedKind, name: str, namespace: str, *, now: datetime) -> None:
        """Makes the namespace the owner of a group or pool."""
        ...

    async def remove(self, grant: NamespaceGrant, *, now: datetime) -> NamespaceGrant:
        """Removes the grant with the owner, kind, name and grantee of this one, and returns what it was.

        Raises:
            NotFoundError: there is none.
        """
        ...

    async def list_pending(self, *, limit: int) -> Sequence[NamespaceGrant]:
        """Those that wait for their owner's decision, ordered as `of`."""
        ...
