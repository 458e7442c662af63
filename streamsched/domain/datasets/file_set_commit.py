"""Commits of file sets on storages that cannot create a file only if it is absent: a row is the commit point.

The row names the manifest, a file that is written before. Numbers of a dataset begin with 1 and have no gaps; a commit
appears after all those with smaller numbers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidError

#: Characters of a location and of the path of a manifest, at most.
LONGEST_PATH: Final = 2000
#: Characters of a job's id.
LONGEST_JOB: Final = 1000
_COMMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class FileSetCommit(NamedTuple):
    """One commit: its place in the order, its id, and its manifest's path below the location."""

    number: int
    commit: str
    manifest: str


class JobEpoch(NamedTuple):
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
