"""Commits of file sets on storages that cannot create a file only if it is absent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import FileSetCommitsDep
from streamsched.api.rendering import rendered
from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.ports.datasets.commits import LONGEST_PATH, FileSetCommit, checked_commit_id

router = APIRouter(prefix="/v1/datasets", tags=["datasets"])

AfterNumber = Annotated[int, Query(ge=0, le=2**63 - 1, description="Only commits with greater numbers.")]
CommitLimit = Annotated[int, Query(ge=1, le=10_000, description="Commits in a page.")]


@router.get("/{namespace}/{dataset}/commits", summary="List the commits of a file set")
async def list_commits(
    namespace: str, dataset: str, commits: FileSetCommitsDep, after: AfterNumber = 0, limit: CommitLimit = 1000
) -> Response:
    """A page in order, and the `location` of the files, null without commits. `next` is the number to continue after;
    without it, these were the last. Empty for a dataset whose storage has its commits itself.
    """
    name = _named(namespace, dataset)
    found = await commits.after(name, after, limit=limit + 1)
    shown = found[:limit]
    following = {"next": shown[-1].number} if len(found) > limit else {}
    location = await commits.location(name)
    return rendered({"location": location, "commits": [_view(each) for each in shown], **following})


@router.post("/{namespace}/{dataset}/commits", summary="Commit a write to a file set")
async def add_commit(namespace: str, dataset: str, body: BodyObject, commits: FileSetCommitsDep) -> Response:
    """Makes the write with the id `commit` visible: the file `manifest` below `location` names its data. The response
    has the commit of that id, with the manifest that was first. The same request again changes nothing. 409 when the
    dataset's commits are at another location.
    """
    fields = Fields(body)
    commit, manifest = checked_commit_id(fields.text("commit")), _path(fields, "manifest")
    location = _path(fields, "location")
    fields.done()
    return rendered(_view(await commits.add(_named(namespace, dataset), location, commit, manifest)))


@router.delete("/{namespace}/{dataset}/commits", summary="Forget the commits of a file set")
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


def _view(commit: FileSetCommit) -> dict[str, Any]:
    return {"number": commit.number, "commit": commit.commit, "manifest": commit.manifest}
