"""Commits as numbered files, each created only if it is absent. See `commit_log.CommitLog`.

_manifest/0000000000000001.json, _manifest/0000000000000002.json …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Final

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.spark.manifest import Manifest, Phase, PhaseCallback, fence_draft, find_visible
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.writes.write import Author

MANIFESTS: Final = "_manifest"


class NumberedManifests:
    """The commits of a file set, ordered by the numbers of manifest files, as `commit_log.CommitLog`."""

    def __init__(self, storage: FolderStorage) -> None:
        """Does no I/O."""
        self._storage = storage
        self._known: dict[int, Manifest] = {}

    def manifests(self) -> list[Manifest]:
        """The manifests of all commits, in commit order.

        Raises:
            NotFoundError: a manifest was deleted that later ones follow.
        """
        if self._known:
            self._follow()
            return self._in_order()
        listed = {_number(file.path) for file in self._storage.files(MANIFESTS)}
        self._read(number for number in listed if number is not None)
        # a listing is no snapshot: it may have a file and not the one before it, which was created first
        self._read(range(1, max(self._known, default=0)))
        return self._in_order()

    def add(self, draft: Manifest, watch: PhaseCallback = lambda _: None) -> Manifest:
        """A writer whose number is taken reads that manifest and tries the next. So what it has checked is true of the
        place where it commits, however long it slept in between.
        """
        while True:
            known = self.manifests()
            if (found := find_visible(known, draft)) is not None:
                return found
            manifest = replace(draft, sequence=len(known) + 1)
            watch(Phase.CHECKED)
            if self._storage.create(_path(manifest.sequence), manifest.encode()):
                self._known[manifest.sequence] = manifest
                return manifest

    def fence(self, author: Author, dataset: DatasetRef, at: datetime) -> list[Manifest]:
        fence = self.add(fence_draft(self.manifests(), author, dataset, at))
        return self._in_order()[: fence.sequence - 1]

    def strays(self) -> list[StoredFile]:
        """Always empty: each manifest is that of a commit."""
        return []

    def _in_order(self) -> list[Manifest]:
        return [self._known[number] for number in range(1, len(self._known) + 1)]

    def _follow(self) -> None:
        """Reads the manifests after the last known one by their names: one request when there is none, however many
        there are before.
        """
        while True:
            number = len(self._known) + 1
            try:
                self._known[number] = Manifest.decode(self._storage.read(_path(number)))
            except NotFoundError:
                return

    def _read(self, numbers: Iterable[int]) -> None:
        new = [number for number in numbers if number not in self._known]
        try:
            contents = self._storage.read_all([_path(number) for number in new])
        except NotFoundError as exc:
            raise NotFoundError(
                "manifest", exc.name, hint="it was deleted, so the rows of its commit are lost"
            ) from exc
        for number, content in zip(new, contents, strict=True):
            self._known[number] = Manifest.decode(content)


def _path(number: int) -> str:
    return f"{MANIFESTS}/{number:016d}.json"


def _number(path: str) -> int | None:
    name = path.removeprefix(f"{MANIFESTS}/").removesuffix(".json")
    return int(name) if len(name) == 16 and name.isdecimal() else None
