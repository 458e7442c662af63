"""Commits of file sets on storages that cannot create a file only if it is absent: a row is the commit point.

The row names the manifest, a file that is written before. Numbers of a dataset begin with 1 and have no gaps; a commit
appears after all those with smaller numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from streamsched.domain.errors import InvalidError

#: Characters of a location and of the path of a manifest, at most.
LONGEST_PATH: Final = 2000
#: Characters of a job's id.
LONGEST_JOB: Final = 1000
_COMMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class FileSetCommit:
    """One commit: its place in the order, its id, and its manifest's path below the location."""

    number: int
    commit: str
    manifest: str


@dataclass(frozen=True, slots=True)
class JobEpoch:
    """An attempt of a job, which fences the earlier ones: to a dataset that has it, they commit no more."""

    job: str
    attempt: int


def checked_commit_id(commit: str) -> str:
    """Validates a commit's id and returns it.

    Raises:
        InvalidError: other characters than letters, digits, `.`, `_`, `-`, or more than 200.
    """
    if not _COMMIT.fullmatch(commit):
        raise InvalidError("$.commit", f"may only hold {_COMMIT.pattern}")
    return commit


class FileSetCommitStore(Protocol):
    """Stores commits. Every method raises `UnavailableError` when PostgreSQL is unavailable."""

    async def after(self, dataset: str, number: int, *, limit: int) -> Sequence[FileSetCommit]:
        """The commits with greater numbers, in order."""
        ...

    async def location(self, dataset: str) -> str | None:
        """Where the dataset's files are; None when it has no commits."""
        ...

    async def add(
        self, dataset: str, location: str, commit: str, manifest: str, epoch: JobEpoch | None = None
    ) -> FileSetCommit:
        """Makes a commit visible, as the last one. Returns the commit of that id, which may be visible already, then
        with the manifest it has. To repeat a call whose answer was lost changes nothing.

        Raises:
            ConflictError: the dataset's commits are at another location.
            AttemptFencedError: a later attempt of the epoch's job has fenced or committed.
        """
        ...

    async def fence(self, dataset: str, epoch: JobEpoch) -> None:
        """Keeps the earlier attempts of the job from committing, also where they have begun to.

        Raises:
            AttemptFencedError: a later attempt has fenced or committed.
        """
        ...

    async def forget(self, dataset: str) -> int:
        """Deletes all commits of a dataset; returns how many there were. Its files stay."""
        ...
