"""Bundles: folders of apps as archives, stored by namespace and digest. Times are UTC."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import NotFoundError
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("programs/bundles")


class BundleRecord(NamedTuple):
    """A stored bundle. `used_at`: of its latest upload or deployment. `programs`: how many refer to it."""

    namespace: str
    digest: str
    bytes: int
    files: int
    created_at: datetime
    used_at: datetime
    programs: int


_LIST: Final = Select(_SQL["list"], BundleRecord)


class BundleStore:
    """The archives."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(
        self, namespace: str, digest: str, chunks: Iterable[bytes], *, size: int, files: int, now: datetime
    ) -> bool:
        """Stores the archive; False when it was stored already. In both cases it is in use from now on for a while. The
        caller has checked that the chunks have this digest.

        Raises:
            UnavailableError: PostgreSQL is unavailable; the call may be repeated.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["put"], namespace, digest, size, files, now) is None:
                    await connection.execute(_SQL["use"], namespace, digest, now)
                    return False
                for number, chunk in enumerate(chunks):
                    await connection.execute(_SQL["put_chunk"], namespace, digest, number, chunk)
        return True

    async def use(self, namespace: str, digest: str, *, now: datetime) -> bool:
        """Whether the bundle exists; it is in use from now on for a while."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["use"], namespace, digest, now) is not None

    async def list(self, namespace: str) -> Sequence[BundleRecord]:
        """Those of the namespace, the newest first, at most 1000."""
        with translate_errors():
            return await _LIST.fetch(self._pool, namespace)

    async def read(self, namespace: str, digest: str) -> AsyncIterator[bytes]:
        """The archive in chunks.

        Raises:
            NotFoundError: there is no such bundle.
            UnavailableError: PostgreSQL is unavailable.
        """
        number = 0
        while True:
            with translate_errors():
                chunk = await self._pool.fetchval(_SQL["chunk"], namespace, digest, number)
            if chunk is None:
                break
            yield chunk
            number += 1
        if not number:
            raise NotFoundError("bundle", f"{namespace}.{digest}")

    async def remove_unused(self, *, before: datetime) -> Sequence[str]:
        """Removes bundles not in use since then, to which no program and no active run refers; returns their digests.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        with translate_errors():
            return [row["digest"] for row in await self._pool.fetch(_SQL["remove_unused"], before)]
