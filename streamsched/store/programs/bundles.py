"""`ports.programs.bundles.BundleStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import datetime
from typing import Final

from streamsched.domain.errors import NotFoundError
from streamsched.ports.programs.bundles import BundleRecord
from streamsched.store.connections import Pool, translated
from streamsched.store.sql import queries

_SQL: Final = queries("programs/bundles")


class PostgresBundleStore:
    """See `ports.programs.bundles.BundleStore`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def put(
        self, namespace: str, digest: str, chunks: Iterable[bytes], *, size: int, files: int, now: datetime
    ) -> bool:
        with translated():
            async with self._pool.acquire() as connection, connection.transaction():
                if await connection.fetchval(_SQL["put"], namespace, digest, size, files, now) is None:
                    await connection.execute(_SQL["use"], namespace, digest, now)
                    return False
                for number, chunk in enumerate(chunks):
                    await connection.execute(_SQL["put_chunk"], namespace, digest, number, chunk)
        return True

    async def use(self, namespace: str, digest: str, *, now: datetime) -> bool:
        with translated():
            return await self._pool.fetchval(_SQL["use"], namespace, digest, now) is not None

    async def list(self, namespace: str) -> Sequence[BundleRecord]:
        with translated():
            return [BundleRecord(**row) for row in await self._pool.fetch(_SQL["list"], namespace)]

    async def read(self, namespace: str, digest: str) -> AsyncIterator[bytes]:
        number = 0
        while True:
            with translated():
                chunk = await self._pool.fetchval(_SQL["chunk"], namespace, digest, number)
            if chunk is None:
                break
            yield chunk
            number += 1
        if not number:
            raise NotFoundError("bundle", f"{namespace}.{digest}")

    async def remove_unused(self, *, before: datetime) -> Sequence[str]:
        with translated():
            return [row["digest"] for row in await self._pool.fetch(_SQL["remove_unused"], before)]
