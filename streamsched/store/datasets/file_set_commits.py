"""Commits of file sets (`domain.datasets.file_set_commit`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import asyncpg

from streamsched.domain.datasets.file_set_commit import FileSetCommit, JobEpoch
from streamsched.domain.errors import AttemptFencedError, ConflictError
from streamsched.store.connections import Pool, translate_errors
from streamsched.store.sql import Select, queries

_SQL: Final = queries("datasets/file_set_commits")
_AFTER: Final = Select(_SQL["after"], FileSetCommit)
_FIND: Final = Select(_SQL["find"], FileSetCommit)
_ADD: Final = Select(_SQL["add"], FileSetCommit)


class FileSetCommitStore:
    """Every method raises `UnavailableError` when PostgreSQL is unavailable."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def list_after(self, dataset: str, number: int, *, limit: int) -> Sequence[FileSetCommit]:
        """The commits with greater numbers, in order."""
        with translate_errors():
            return await _AFTER.fetch(self._pool, dataset, number, limit)

    async def location(self, dataset: str) -> str | None:
        """Where the dataset's files are; None when it has no commits."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["location"], dataset)

    async def add(
        self, dataset: str, location: str, commit: str, manifest: str, epoch: JobEpoch | None = None
    ) -> FileSetCommit:
        """Makes a commit visible, as the last one. Returns the commit of that id, which may be visible already, then
        with the manifest it has. To repeat a call whose answer was lost changes nothing.

        Raises:
            ConflictError: the dataset's commits are at another location.
            AttemptFencedError: a later attempt of the epoch's job has fenced or committed.
        """
        job, attempt = epoch or (None, None)
        with translate_errors():
            found = await _FIND.fetchrow(self._pool, dataset, commit)
            if found is None:
                try:
                    found = await _ADD.fetchrow(self._pool, dataset, location, commit, manifest, job, attempt)
                except asyncpg.UniqueViolationError:
                    found = await _FIND.fetchrow(self._pool, dataset, commit)
        if found is None:
            await self._check_fence(dataset, epoch)
            known = await self.location(dataset)
            raise ConflictError(
                f"the commits of {dataset} are at {known}, and not at {location}: give each location a dataset of its "
                "own, or the same URL in every process"
            )
        return found

    async def fence(self, dataset: str, epoch: JobEpoch) -> None:
        """Keeps the earlier attempts of the job from committing, also where they have begun to.

        Raises:
            AttemptFencedError: a later attempt has fenced or committed.
        """
        with translate_errors():
            done = await self._pool.fetchval(_SQL["fence"], dataset, epoch.job, epoch.attempt)
        if done is None:
            await self._check_fence(dataset, epoch)

    async def _check_fence(self, dataset: str, epoch: JobEpoch | None) -> None:
        if epoch is None:
            return
        with translate_errors():
            fence = await self._pool.fetchval(_SQL["fence_of"], dataset, epoch.job)
        if fence is not None and fence > epoch.attempt:
            raise AttemptFencedError(epoch.job, epoch.attempt, fence)

    async def forget(self, dataset: str) -> int:
        """Deletes all commits of a dataset; returns how many there were. Its files stay."""
        with translate_errors():
            return await self._pool.fetchval(_SQL["forget"], dataset) or 0
