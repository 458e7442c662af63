"""Commits of a file set through the API: `GET` and `POST /v1/datasets/<namespace>/<name>/commits`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streamsched.domain.datasets.file_set_commit import FileSetCommit, JobEpoch
from streamsched.domain.errors import ConfigurationError, ConflictError
from streamsched.domain.names import DatasetRef
from streamsched.emit.api_client import ApiClient

#: Commits in a request.
_PAGE: Final = 10_000


class FileSetCommitClient:
    """Reads and adds the commits of one dataset, whose files are at one location."""

    def __init__(self, url: str, dataset: DatasetRef, location: str, environ: Mapping[str, str] | None = None) -> None:
        """Opens no connection."""
        self._api = ApiClient(url, environ)
        self._dataset = dataset
        self._location = location
        self._path = f"/v1/datasets/{dataset.namespace}/{dataset.name}/commits"

    def commits_after(self, number: int) -> list[FileSetCommit]:
        """All commits with greater numbers, in order.

        Raises:
            ConflictError: the dataset's commits are at another location.
            UnavailableError: the API does not answer.
            ConfigurationError: it is not a streamsched API, or it denies access.
        """
        found: list[FileSetCommit] = []
        following: int | None = number
        while following is not None:
            page = self._ask("GET", "commits", params={"after": str(following), "limit": str(_PAGE)})
            if page.get("location") not in (None, self._location):
                raise ConflictError(
                    f"{_subject_text(self._dataset)} are at {page['location']}, and not at {self._location}"
                )
            found += [_commit(each) for each in page["commits"]]
            following = page.get("next")
        return found

    def add(self, commit: str, manifest: str, epoch: JobEpoch | None = None) -> FileSetCommit:
        """Makes a commit visible; returns the commit of that id. To repeat a failed call is safe.

        Raises:
            ConflictError: the dataset's commits are at another location, or a later attempt of the epoch's job has
                fenced.
            UnavailableError, ConfigurationError: as `commits_after`.
        """
        body = {"commit": commit, "manifest": manifest, "location": self._location}
        if epoch is not None:
            body |= {"job": epoch.job, "attempt": epoch.attempt}
        return _commit(self._ask("POST", "number", body=body))

    def fence(self, epoch: JobEpoch) -> None:
        """Keeps the earlier attempts of a job from committing. Raises as `add`."""
        body = {"job": epoch.job, "attempt": epoch.attempt}
        self._ask("POST", "attempt", body=body, path=f"{self._path.removesuffix('commits')}fences")

    def _ask(
        self,
        method: str,
        has: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        path: str | None = None,
    ) -> Mapping[str, Any]:
        subject = _subject_text(self._dataset)
        answer = self._api.ask(method, path or self._path, about=subject, has=has, body=body, params=params)
        if answer.status == 404:
            raise ConfigurationError(f"{self._api.url} knows nothing of {subject}")
        return answer.body


def _subject_text(dataset: DatasetRef) -> str:
    return f"the commits of {dataset}"


def _commit(found: Mapping[str, Any]) -> FileSetCommit:
    return FileSetCommit(int(found["number"]), str(found["commit"]), str(found["manifest"]))
