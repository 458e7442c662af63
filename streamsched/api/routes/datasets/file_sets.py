"""Commits of file sets on storages that cannot create a file only if it is absent."""

from __future__ import annotations

from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject
from streamsched.api.deps import FileSetCommitsDep
from streamsched.api.rendering import rendered
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE, Rule
from streamsched.codec.json.reading import Fields
from streamsched.domain.access.grant import Caller, Denied
from streamsched.domain.access.permission import Permission
from streamsched.domain.datasets.file_set_commit import (
    LONGEST_JOB,
    LONGEST_PATH,
    FileSetCommit,
    JobEpoch,
    checked_commit_id,
)
from streamsched.domain.errors import ForbiddenError, InvalidError
from streamsched.domain.names import DatasetRef

routes = Routes("/v1/datasets", "datasets")

_LAST_ATTEMPT: Final = 2**31 - 1

AfterNumber = Annotated[int, Query(ge=0, le=2**63 - 1, description="Only commits with greater numbers.")]
CommitLimit = Annotated[int, Query(ge=1, le=10_000, description="Commits in a page.")]


@routes.get(
    "/{namespace}/{dataset}/commits",
    "List the commits of a file set",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    answers="FileSetCommitPage",
)
async def list_commits(
    namespace: str, dataset: str, commits: FileSetCommitsDep, after: AfterNumber = 0, limit: CommitLimit = 1000
) -> Response:
    """A page in order, and the `location` of the files, null without commits. `next` is the number to continue after;
    without it, these were the last. Empty for a dataset whose storage has its commits itself.
    """
    name = _named(namespace, dataset)
    found = await commits.list_after(name, after, limit=limit + 1)
    shown = found[:limit]
    following = {"next": shown[-1].number} if len(found) > limit else {}
    location = await commits.location(name)
    return rendered({"location": location, "commits": [_view(each) for each in shown], **following})


@routes.post(
    "/{namespace}/{dataset}/commits",
    "Commit a write to a file set",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    body="NewFileSetCommit",
    answers="FileSetCommit",
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
    fields = Fields(body)
    commit, manifest = checked_commit_id(fields.text("commit")), _path(fields, "manifest")
    location = _path(fields, "location")
    epoch = _epoch(fields, caller) if fields.optional_value("job") is not None else None
    fields.check_all_read()
    return rendered(_view(await commits.add(_named(namespace, dataset), location, commit, manifest, epoch)))


@routes.post(
    "/{namespace}/{dataset}/fences",
    "Fence the earlier attempts of a job",
    may=Rule(Permission.EMIT, emits="{dataset}"),
    body="Fence",
    answers="FencedAttempts",
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
    fields = Fields(body)
    epoch = _epoch(fields, caller)
    fields.check_all_read()
    await commits.fence(_named(namespace, dataset), epoch)
    return rendered({"job": epoch.job, "attempt": epoch.attempt})


@routes.delete(
    "/{namespace}/{dataset}/commits", "Forget the commits of a file set", may=OPERATE, answers="ForgottenCommits"
)
async def forget_commits(namespace: str, dataset: str, commits: FileSetCommitsDep) -> Response:
    """For a file set whose files were deleted: nothing of it is visible any more. `deleted` counts the commits."""
    return rendered({"deleted": await commits.forget(_named(namespace, dataset))})


def _named(namespace: str, dataset: str) -> str:
    """Raises:
    InvalidError: it is no name of a dataset.
    """
    return str(DatasetRef.parse(f"{namespace}.{dataset}"))


def _path(fields: Fields, name: str) -> str:
    found = fields.text(name)
    if not 0 < len(found) <= LONGEST_PATH or "\0" in found:
        raise InvalidError(f"$.{name}", f"must have 1 to {LONGEST_PATH} characters, without NUL")
    return found


def _epoch(fields: Fields, caller: Caller) -> JobEpoch:
    """Raises:
    ForbiddenError: the caller may not speak for attempts of the job.
    """
    job = fields.text("job")
    if not 0 < len(job) <= LONGEST_JOB or "\0" in job:
        raise InvalidError("$.job", f"must have 1 to {LONGEST_JOB} characters, without NUL")
    attempt = fields.integer("attempt", minimum=1)
    if attempt > _LAST_ATTEMPT:
        fields.fail("attempt", f"must be at most {_LAST_ATTEMPT} but is {attempt}")
    verdict = caller.may_fence(job)
    if isinstance(verdict, Denied):
        raise ForbiddenError(f"$.job: {verdict.reason}")
    return JobEpoch(job, attempt)


def _view(commit: FileSetCommit) -> dict[str, Any]:
    return {"number": commit.number, "commit": commit.commit, "manifest": commit.manifest}
