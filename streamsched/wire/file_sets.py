"""Commits of file sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final

from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.domain.datasets.file_set_commit import FileSetCommit, JobEpoch

_COMMIT: Final = About("3f1c")
_JOB: Final = "default.flights.weekly.1.1"
_LAST_ATTEMPT: Final = 2**31 - 1

COMMIT: Final = JsonShape(
    FileSetCommit, named=True, about={"commit": _COMMIT, "manifest": About("_manifests/3f1c.json")}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSetCommitPage:
    """Commits in order, and where the files are; None without commits."""

    location: str | None
    commits: Annotated[Sequence[FileSetCommit], About(shape=COMMIT)]
    next: Annotated[int, About(1000, "`after` of the following page.")] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFileSetCommit:
    """A write that is to be visible, perhaps of an attempt of a job."""

    commit: Annotated[str, _COMMIT]
    manifest: Annotated[str, About("_manifests/3f1c.json", minLength=1)]
    location: Annotated[str, About("s3://lake/flights", minLength=1)]
    job: Annotated[str | None, About(_JOB)] = None
    attempt: Annotated[int | None, About(1, least=1, most=_LAST_ATTEMPT)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgottenCommits:
    """How many commits are visible no more."""

    deleted: Annotated[int, About(2)]


COMMITS: Final = JsonShape(FileSetCommitPage, sometimes=("next",))
NEW: Final = JsonShape(NewFileSetCommit)
FENCE: Final = JsonShape(
    JobEpoch, "Fence", about={"job": About(_JOB, minLength=1), "attempt": About(2, least=1, most=_LAST_ATTEMPT)}
)
FENCED: Final = JsonShape(JobEpoch, "FencedAttempts", about={"job": About(_JOB), "attempt": About(2)})
FORGOTTEN: Final = JsonShape(ForgottenCommits)
