"""Commits as rows of PostgreSQL behind the API, for storages that cannot create a file only if it is absent. See
`commit_log.CommitLog`.

    _manifest/<commit>.<attempt>.json           written first; the row that names it is the commit point
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import uuid4

from streamsched.domain.datasets.file_set_commit import JobEpoch
from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.emit.api_client import api_url
from streamsched.emit.file_set_commits import FileSetCommitClient
from streamsched.spark.manifest import Manifest, Phase, PhaseCallback
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.writes.write import Author

_MANIFESTS: Final = "_manifest"


class CommitRows:
    """The commits of a file set, ordered by rows behind the API, as `commit_log.CommitLog`. Every method raises
    `UnavailableError` when the API does not answer.
    """

    def __init__(self, storage: FolderStorage, dataset: DatasetRef, environ: Mapping[str, str] | None = None) -> None:
        """Does no I/O.

        Raises:
            ConfigurationError: the URL of the API is not known.
        """
        why = f"{storage.location}: its storage cannot create a file only if it is absent, so its commits"
        self._storage = storage
        self._commits = FileSetCommitClient(api_url(environ, why=why), dataset, storage.location, environ)
        self._known: list[Manifest] = []
        self._paths: set[str] = set()

    def manifests(self) -> list[Manifest]:
        """The manifests of all commits, in commit order.

        Raises:
            NotFoundError: the manifest of a commit was deleted.
            ConflictError: the dataset's commits are at another location.
        """
        rows = self._commits.commits_after(len(self._known))
        try:
            contents = self._storage.read_all([row.manifest for row in rows])
        except NotFoundError as exc:
            hint = (
                "it was deleted; `DELETE /v1/datasets/<namespace>/<name>/commits` forgets the commits of deleted files"
            )
            raise NotFoundError("manifest", exc.name, hint=hint) from exc
        self._known += [
            replace(Manifest.decode(content), sequence=row.number) for row, content in zip(rows, contents, strict=True)
        ]
        self._paths |= {row.manifest for row in rows}
        return list(self._known)

    def add(self, draft: Manifest, watch: PhaseCallback = lambda _: None) -> Manifest:
        """PostgreSQL refuses the row of an attempt that is fenced.

        Raises:
            ConflictError: the dataset's commits are at another location.
        """
        path = f"{_MANIFESTS}/{draft.commit}.{uuid4().hex[:8]}.json"
        self._storage.put(path, draft.encode())
        watch(Phase.CHECKED)
        row = self._commits.add(draft.commit, path, _epoch(draft.author))
        content = draft.encode() if row.manifest == path else self._storage.read(row.manifest)
        return replace(Manifest.decode(content), sequence=row.number)

    def fence(self, author: Author, dataset: DatasetRef, at: datetime) -> list[Manifest]:
        self._commits.fence(JobEpoch(author.job, author.attempt))
        return self.manifests()

    def strays(self) -> list[StoredFile]:
        """Of attempts that ended before their commit, or that another attempt was faster than."""
        self.manifests()
        return [file for file in self._storage.files(_MANIFESTS) if file.path not in self._paths]


def _epoch(author: Author | None) -> JobEpoch | None:
    return None if author is None else JobEpoch(author.job, author.attempt)
