"""What the commits of a file set at a URL need of the place that orders them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamsched.domain.names import DatasetRef
from streamsched.spark.commits.commit_table import CommitTable
from streamsched.spark.commits.numbered_manifests import NumberedManifests
from streamsched.spark.manifest import Manifest
from streamsched.spark.storage import FolderStorage, StoredFile


class CommitLog(Protocol):
    """The commits of one file set, numbered from 1 without gaps. Any number of processes may add to it. Every method
    raises the errors of `FolderStorage`.
    """

    def manifests(self) -> list[Manifest]:
        """All commits, in order. Those that were read before are not read again."""
        ...

    def add(self, draft: Manifest) -> Manifest:
        """Makes a commit visible, as the last one. Returns it with its number; or the commit of the same id that was
        faster. When it fails, the commit may be visible.
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
    return CommitTable(storage, dataset, environ)
