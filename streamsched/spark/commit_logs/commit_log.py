"""What the commits of a file set at a URL need of the place that orders them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from streamsched.domain.names import DatasetRef
from streamsched.spark.commit_logs.commit_rows import CommitRows
from streamsched.spark.commit_logs.numbered_manifests import NumberedManifests
from streamsched.spark.manifest import Manifest, PhaseCallback
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.writes.write import Author


class CommitLog(Protocol):
    """The commits of one file set, numbered from 1 without gaps. Any number of processes may add to it. Every method
    raises the errors of `FolderStorage`.
    """

    def manifests(self) -> list[Manifest]:
        """All commits, in order. Those that were read before are not read again."""
        ...

    def add(self, draft: Manifest, watch: PhaseCallback = lambda _: None) -> Manifest:
        """Makes a commit visible, as the last one. Returns it with its number; or the commit of the same id that was
        faster. When it fails otherwise than by a fence, the commit may be visible.

        Raises:
            AttemptFencedError: a later attempt of the draft's job has fenced.
        """
        ...

    def fence(self, author: Author, dataset: DatasetRef, at: datetime) -> list[Manifest]:
        """Fences the earlier attempts of a job: none of their commits follows. Returns the commits before it.

        Raises:
            AttemptFencedError: a later attempt has fenced.
        """
        ...

    def strays(self) -> list[StoredFile]:
        """Manifests that no commit has."""
        ...


def commit_log(storage: FolderStorage, dataset: DatasetRef, environ: Mapping[str, str] | None = None) -> CommitLog:
    """Numbered files where the storage creates a file only if it is absent, else rows behind the API. Does no I/O.

    Raises:
        ConfigurationError: the API is needed, and its URL is not known.
    """
    if storage.creates_if_absent:
        return NumberedManifests(storage)
    return CommitRows(storage, dataset, environ)
