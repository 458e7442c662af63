"""Commits of file sets on storages that cannot create a file only if it is absent."""

from __future__ import annotations

from typing import Annotated

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject
from streamsched.api.deps import FileSetCommitsDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE, Rule
from streamsched.domain.access.grant import Caller, Denied
from streamsched.domain.access.permission import Permission
from streamsched.domain.datasets.file_set_commit import (
    LONGEST_JOB,
    LONGEST_PATH,
    JobEpoch,
    checked_commit_id,
)
from streamsched.domain.errors import DecodeError, ForbiddenError, InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.wire.file_sets import COMMIT, COMMITS, FENCE, FENCED, FORGOTTEN, NEW

routes = Routes("/v1/datasets", "datasets")

AfterNumber = Annotated[int, Query(ge=0, le=2**63 - 1, description="Only commits with greater numbers.")]
CommitLimit = Annotated[int, Query(ge=1, le=10_000, description="Commits in a page.")]


@routes.get(
    "/{namespace}/{dataset}/commits",
    "List the commits of a file set",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    answers=COMMITS.answer,
)
async def list_commits(
    namespace: str, dataset: str, commits: FileSetCommitsDep, after: AfterNumber = 0, limit: CommitLimit = 1000
) -> Response:
    """A page in order, and the `location` of the files, null without commits. `next` is the number to continue after;
    without it, these were the last. Empty for a dataset whose storage has its commits itself.
    """
    name = _dataset_name(namespace, dataset)
    found = await commits.list_after(name, after, limit=limit + 1)
    following = found[limit - 1].number if len(found) > limit else 0
    return json_response(
        COMMITS.answer_of(location=await commits.location(name), commits=found[:limit], next=following)
    )


@routes.post(
    "/{namespace}/{dataset}/commits",
    "Commit a write to a file set",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    body=NEW.body,
    answers=COMMIT.answer,
    conflict=True,
)
async def add_commit(
    namespace: str, dataset: str, body: BodyObject, commits: FileSetCommitsDep, caller: CallerDep
) -> Response:
    """Makes the write with the id `commit` visible: the file `manifest` below `location` names its data. The response
    has the commit of that id, with the manifest that was first. The same request again changes nothing. 409 when the
    dataset's commits are at another location, or a later attempt of `job` than `attempt` has fenced or committed. 403
    when the caller is neither a run of `job` nor may operate in its namespace.
    """
    wanted = NEW.read(body)
    commit, manifest = checked_commit_id(wanted.commit), _check_text(wanted.manifest, "manifest")
    location, epoch = _check_text(wanted.location, "location"), None
    if wanted.job is not None and wanted.attempt is not None:
        epoch = _check_epoch(JobEpoch(wanted.job, wanted.attempt), caller)
    elif wanted.job is not None or wanted.attempt is not None:
        raise DecodeError("$.job" if wanted.job is None else "$.attempt", "is missing")
    return json_response(
        COMMIT.write(await commits.add(_dataset_name(namespace, dataset), location, commit, manifest, epoch))
    )


@routes.post(
    "/{namespace}/{dataset}/fences",
    "Fence the earlier attempts of a job",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    body=FENCE.body,
    answers=FENCED.answer,
    conflict=True,
)
async def fence(
    namespace: str, dataset: str, body: BodyObject, commits: FileSetCommitsDep, caller: CallerDep
) -> Response:
    """Attempts of `job` before `attempt` commit no more to the file set, also those that have begun to. The same
    request again changes nothing. 409 when a later attempt has fenced or committed. 403 when the caller is neither a
    run of `job` nor may operate in its namespace. For storages that cannot create a
    file only if it is absent; in others the fence is a file.
    """
    epoch = _check_epoch(FENCE.read(body), caller)
    await commits.fence(_dataset_name(namespace, dataset), epoch)
    return json_response(FENCED.write(epoch))


@routes.delete(
    "/{namespace}/{dataset}/commits", "Forget the commits of a file set", may=OPERATE, answers=FORGOTTEN.answer
)
async def forget_commits(namespace: str, dataset: str, commits: FileSetCommitsDep) -> Response:
    """For a file set whose files were deleted: nothing of it is visible any more. `deleted` counts the commits."""
    return json_response(FORGOTTEN.answer_of(deleted=await commits.forget(_dataset_name(namespace, dataset))))


def _dataset_name(namespace: str, dataset: str) -> str:
    """Raises:
    InvalidError: it is no name of a dataset.
    """
    return str(DatasetRef.parse(f"{namespace}.{dataset}"))


def _check_text(text: str, name: str, most: int = LONGEST_PATH) -> str:
    if not 0 < len(text) <= most or "\0" in text:
        raise InvalidError(f"$.{name}", f"must have 1 to {most} characters, without NUL")
    return text


def _check_epoch(epoch: JobEpoch, caller: Caller) -> JobEpoch:
    """Raises:
    ForbiddenError: the caller may not speak for attempts of the job.
    """
    verdict = caller.may_fence(_check_text(epoch.job, "job", LONGEST_JOB))
    if isinstance(verdict, Denied):
        raise ForbiddenError(f"$.job: {verdict.reason}")
    return epoch
