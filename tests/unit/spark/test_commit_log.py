"""The log of a file set's commits: a listing that is no snapshot, and a manifest that is gone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.spark.commit_logs.numbered_manifests import NumberedManifests
from streamsched.spark.manifest import Manifest, Mode
from streamsched.spark.storage import FolderStorage, StoredFile

DATASET = DatasetRef("default", "flights")


def draft(commit: str) -> Manifest:
    return Manifest(commit, 0, DATASET, datetime(2026, 1, 1, tzinfo=UTC), Mode.APPEND, ("day",), "{}", ())


class LateListing(FolderStorage):
    """Lists the files without one that was created while it listed."""

    hidden = ""

    def files(self, folder: str = "") -> list[StoredFile]:
        return [file for file in super().files(folder) if not file.path.endswith(self.hidden or "\0")]


def test_a_listing_that_lacks_an_earlier_manifest_loses_no_commit(tmp_path: Path) -> None:
    storage = LateListing(f"file://{tmp_path}/flights")
    for commit in "abc":
        NumberedManifests(storage).add(draft(commit))
    storage.hidden = "2.json"

    assert [each.commit for each in NumberedManifests(storage).manifests()] == ["a", "b", "c"]
    assert NumberedManifests(storage).add(draft("b")).sequence == 2


def test_a_deleted_manifest_is_an_error_and_not_a_missing_row(tmp_path: Path) -> None:
    storage = FolderStorage(f"file://{tmp_path}/flights")
    for commit in "abc":
        NumberedManifests(storage).add(draft(commit))
    (tmp_path / "flights" / "_manifest" / f"{2:016d}.json").unlink()

    with pytest.raises(NotFoundError, match=r"0000000000000002.json.*lost"):
        NumberedManifests(storage).manifests()


class CountingStorage(FolderStorage):
    """Counts its requests."""

    requests = 0

    def files(self, folder: str = "") -> list[StoredFile]:
        self.requests += 1
        return super().files(folder)

    def read(self, path: str) -> bytes:
        self.requests += 1
        return super().read(path)


def test_what_is_known_is_not_listed_again(tmp_path: Path) -> None:
    writer = NumberedManifests(FolderStorage(f"file://{tmp_path}/flights"))
    for number in range(50):
        writer.add(draft(f"c{number}"))
    storage = CountingStorage(f"file://{tmp_path}/flights")
    reader = NumberedManifests(storage)
    assert len(reader.manifests()) == 50
    storage.requests = 0
    writer.add(draft("new"))

    assert [each.commit for each in reader.manifests()][-1] == "new"
    assert storage.requests == 2
