"""`ports.datasets.commits.FileSetCommitStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from streamsched.domain.errors import ConflictError
from streamsched.ports.datasets.commits import FileSetCommit
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("catalog/file_set_commits")


class PostgresFileSetCommitStore:
    """See `ports.datasets.commits.FileSetCommitStore`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def after(self, dataset: str, number: int, *, limit: int) -> Sequence[FileSetCommit]:
        with translated():
            return [_commit(row) for row in await self._pool.fetch(_SQL["after"], dataset, number, limit)]

    async def location(self, dataset: str) -> str | None:
        with translated():
            return await self._pool.fetchval(_SQL["location"], dataset)

    async def add(self, dataset: str, location: str, commit: str, manifest: str) -> FileSetCommit:
        with translated():
            row = await self._pool.fetchrow(_SQL["find"], dataset, commit)
            if row is None:
                try:
                    row = await self._pool.fetchrow(_SQL["add"], dataset, location, commit, manifest)
                except asyncpg.UniqueViolationError:
                    row = await self._pool.fetchrow(_SQL["find"], dataset, commit)
        if row is None:
            known = await self.location(dataset)
            raise ConflictError(
                f"the commits of {dataset} are at {known}, and not at {location}: give each location a dataset of its "
                "own, or the same URL in every process"
            )
        return _commit(row)

    async def forget(self, dataset: str) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["forget"], dataset) or 0


def _commit(row: Any) -> FileSetCommit:
    return FileSetCommit(row["number"], row["commit_id"], row["manifest"])
