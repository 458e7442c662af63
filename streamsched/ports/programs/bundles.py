"""Bundles: folders of apps as archives, stored by namespace and digest. Times are UTC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """A stored bundle. `used_at`: of its latest upload or deployment. `programs`: how many refer to it."""

    namespace: str
    digest: str
    bytes: int
    files: int
    created_at: datetime
    used_at: datetime
    programs: int = 0


class BundleStore(Protocol):
    """The archives."""

    async def put(
        self, namespace: str, digest: str, chunks: Iterable[bytes], *, size: int, files: int, now: datetime
    ) -> bool:
        """Stores the archive; False when it was stored already. In both cases it is in use from now on for a while. The
        caller has checked that the chunks have this digest.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the call may be repeated.
        """
        ...

    async def use(self, namespace: str, digest: str, *, now: datetime) -> bool:
        """Whether the bundle exists; it is in use from now on for a while."""
        ...

    async def list(self, namespace: str) -> Sequence[BundleRecord]:
        """Those of the namespace, the newest first, at most 1000."""
        ...

    def read(self, namespace: str, digest: str) -> AsyncIterator[bytes]:
        """The archive in chunks.

        Raises:
            NotFoundError: there is no such bundle.
            UnavailableError: PostgreSQL is unavailable.
        """
        ...

    async def remove_unused(self, *, before: datetime) -> Sequence[str]:
        """Removes bundles not in use since then, to which no program and no active run refers; returns their digests.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
