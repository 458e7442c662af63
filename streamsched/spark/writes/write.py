"""One write to a dataset, and who makes it: values that the logs of all stores keep with a commit.

A run's commit belongs to its job. Attempt 2 of a job has the ids of attempt 1, so it finds what that one has committed;
and it fences: no earlier attempt commits to a log that has the fence of a later one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from uuid import uuid4

from streamsched.domain.datasets.file_set_commit import LONGEST_JOB
from streamsched.domain.errors import AttemptFencedError, ConflictError, InvalidError
from streamsched.domain.jobs.run import run_id
from streamsched.domain.names import DatasetRef

#: Characters of a commit id, at most.
LONGEST_COMMIT: Final = 200
_COMMIT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_OTHER: Final = re.compile(r"[^A-Za-z0-9._-]")
_DIGITS: Final = 32
#: The attempt that a commit names.
_ATTEMPT: Final = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Author:
    """The attempt of a job that made a commit.

    Attributes:
        job: the job's id; of a run without a job the run's.
        attempt: from 1.
        ordinal: which write of the dataset it was in its process, from 1; 0 when the program gave the commit id.
        ordered: whether its ordinal is the same in each attempt, as far as is known: no other write of the dataset
            overlapped it in its process, and none failed before.
    """

    job: str
    attempt: int
    ordinal: int = 0
    ordered: bool = True

    def check_fence(self, fence: int) -> None:
        """`fence`: the highest attempt of the job that has fenced, 0 without one.

        Raises:
            AttemptFencedError: it is a later one.
        """
        if fence > self.attempt:
            raise AttemptFencedError(self.job, self.attempt, fence)


@dataclass(slots=True)
class Write:
    """One write, from its begin to its end.

    Attributes:
        commit: the id of its commit.
        author: None outside runs.
        work: names its files, which no other write has.
        kept: whether its files stay when it ends, because they are or may be visible.
    """

    commit: str
    author: Author | None = None
    work: str = field(init=False)
    kept: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self.work = f"{self.commit}.{uuid4().hex[:8]}"

    def check_match(self, found: Author | None, differs: str = "") -> None:
        """The commit of this id is visible, by `found`: whether it is what this write would have written, as far as can
        be known. An id that the program gave is always believed.

        Args:
            differs: what is known to be another than in this write; "" for nothing.

        Raises:
            ConflictError: it is another write.
            AttemptFencedError: a later attempt made it.
        """
        mine = self.author
        if mine is None or not mine.ordinal or found is None:
            return
        mine.check_fence(found.attempt)
        if found.attempt == mine.attempt:
            differs = "this attempt has made it, in another process or by a write whose outcome was not known"
        elif not (found.ordered and mine.ordered):
            differs = "writes of the dataset ran at the same time, or one failed before, so their order is not certain"
        if differs:
            raise ConflictError(
                f"attempt {mine.attempt} of job {mine.job} cannot match its write {mine.ordinal} with commit "
                f"{self.commit} of attempt {found.attempt}: {differs}. Nothing was written. Give such writes ids of "
                'their own, commit_id=f"{run.commit_id}-<name>"; to write all of it again, rerun the job'
            )


def run_of(author: Author | None) -> str:
    """The id of the run that made a commit; "" of one that no run made. A run without a job is its own job."""
    return "" if author is None else run_id(author.job, author.attempt)


def run_named_by(said: Mapping[str, object]) -> str:
    """The id of the run by which a commit says that it was made; "" when it says nothing of the kind. Others write to
    the table too, and an event with a name that is none would be refused.
    """
    job, attempt = said.get("job"), str(said.get("attempt", ""))
    if not isinstance(job, str) or not 0 < len(job) <= LONGEST_JOB or not job.isprintable():
        return ""
    return run_id(job, int(attempt)) if _ATTEMPT.fullmatch(attempt) else ""


def checked_commit(commit: str) -> str:
    """Validates a commit id, which becomes part of file names, and returns it.

    Raises:
        InvalidError: other characters than letters, digits, `.`, `_`, `-`, or too many.
    """
    if not _COMMIT.fullmatch(commit):
        raise InvalidError("$.commit_id", f"'{commit}' may only hold {_COMMIT.pattern}")
    return commit


def commit_of_job(job: str, dataset: DatasetRef, ordinal: int) -> str:
    """The id of a job's commit: job × dataset × ordinal, within the limits of commit ids."""
    whole = f"{job}.{dataset}-{ordinal}"
    name = _OTHER.sub("-", whole)
    if name == whole and len(name) <= LONGEST_COMMIT:
        return name
    return f"{name[: LONGEST_COMMIT - _DIGITS - 1]}-{sha256(whole.encode()).hexdigest()[:_DIGITS]}"


def fence_name(author: Author) -> str:
    """The id of the entry of a log by which an attempt fences the earlier ones."""
    return f"fence-{sha256(author.job.encode()).hexdigest()[:_DIGITS]}-{author.attempt}"


def highest_fence(job: str, fences: Iterable[Author]) -> int:
    """The highest attempt of a job among fences; 0 without one."""
    return max((each.attempt for each in fences if each.job == job), default=0)
