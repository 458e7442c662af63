"""`ports.datasets.commits.FileSetCommitStore` on PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import asyncpg

from streamsched.domain.errors import AttemptFencedError, ConflictError
from streamsched.ports.datasets.commits import FileSetCommit, JobEpoch
from streamsched.store.connections import translated
from streamsched.store.sql import queries

_SQL: Final = queries("datasets/file_set_commits")


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

    async def add(
        self, dataset: str, location: str, commit: str, manifest: str, epoch: JobEpoch | None = None
    ) -> FileSetCommit:
        job, attempt = (None, None) if epoch is None else (epoch.job, epoch.attempt)
        with translated():
            row = await self._pool.fetchrow(_SQL["find"], dataset, commit)
            if row is None:
                try:
                    row = await self._pool.fetchrow(_SQL["add"], dataset, location, commit, manifest, job, attempt)
                except asyncpg.UniqueViolationError:
                    row = await self._pool.fetchrow(_SQL["find"], dataset, commit)
        if row is None:
            await self._check_fence(dataset, epoch)
            known = await self.location(dataset)
            raise ConflictError(
                f"the commits of {dataset} are at {known}, and not at {location}: give each location a dataset of its "
                "own, or the same URL in every process"
            )
        return _commit(row)

    async def fence(self, dataset: str, epoch: JobEpoch) -> None:
        with translated():
            done = await self._pool.fetchval(_SQL["fence"], dataset, epoch.job, epoch.attempt)
        if done is None:
            await self._check_fence(dataset, epoch)

    async def _check_fence(self, dataset: str, epoch: JobEpoch | None) -> None:
        if epoch is None:
            return
        with translated():
            fence = await self._pool.fetchval(_SQL["fence_of"], dataset, epoch.job)
        if fence is not None and fence > epoch.attempt:
            raise AttemptFencedError(epoch.job, epoch.attempt, fence)

    async def forget(self, dataset: str) -> int:
        with translated():
            return await self._pool.fetchval(_SQL["forget"], dataset) or 0


def _commit(row: Any) -> FileSetCommit:
    return FileSetCommit(row["number"], row["commit_id"], row["manifest"])
