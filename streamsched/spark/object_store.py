"""Commits of a file set on any storage: no rename and no lock, only files, and a log that orders the commits.

    _data/_commit=<work>/day=2013-01-01/…       data, written in place; <work> is of one write: <commit>.<random>
    _manifest/…                                 see `commit_logs.commit_log`: the commit point
    _announced/<commit>                         the event has been emitted

    STAGED ──▶ CHECKED ──▶ COMMITTED ──▶ EMITTED ──▶ ANNOUNCED

Commits are numbered without gaps: they have one order, a commit id is visible once, and no commit appears before one
that was visible. So a commit has seen every fence that is before it.
What a killed writer has written is in no manifest, so it is not read; `vacuum` deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError, NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock
from streamsched.spark.commit_logs.commit_log import commit_log
from streamsched.spark.manifest import (
    Columns,
    CommittedPartition,
    Manifest,
    Mode,
    Phase,
    PhaseCallback,
    visible_partitions,
)
from streamsched.spark.storage import FolderStorage, StoredFile
from streamsched.spark.writes.write import Author, Write

_DATA: Final = "_data"
_ANNOUNCED: Final = "_announced"


class ObjectStore:
    """The commits of one file set. Any number of processes on any number of machines may use it concurrently."""

    def __init__(
        self,
        storage: FolderStorage,
        *,
        dataset: DatasetRef,
        clock: Clock,
        watch: PhaseCallback = lambda _: None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Does no I/O. `environ` names the API, for storages whose commits it keeps.

        Raises:
            ConfigurationError: the API is needed, and its URL is not known.
        """
        self._storage = storage
        self._log = commit_log(storage, dataset, environ)
        self._dataset = dataset
        self._clock = clock
        self._watch = watch

    @property
    def base(self) -> str:
        """The URI, for Spark, of the folder below which partition columns begin."""
        return self.uri(_DATA)

    def uri(self, path: str | Path) -> str:
        """The URI, for Spark, of a path relative to the file set."""
        return f"{self._storage.location.replace('s3://', 's3a://', 1)}/{path}"

    def manifests(self) -> list[Manifest]:
        """All commits, in commit order. Those that were read before are not read again."""
        return self._log.manifests()

    def find(self, commit: str) -> Manifest | None:
        """The commit with this id; None if it is not visible."""
        return next((manifest for manifest in self.manifests() if manifest.commit == commit), None)

    @contextmanager
    def stage(self, write: Write) -> Iterator[str]:
        """The folder, relative to the file set, to write the data to. Each write has one of its own, so that a repeated
        attempt meets no files of an earlier one. If the block ends without a commit, they are deleted.

        Raises:
            ConfigurationError: pyarrow, which `publish` needs, is not installed.
        """
        if find_spec("pyarrow") is None:
            raise ConfigurationError("pyarrow is not installed: pip install 'streamsched[storage]'")
        folder = _folder(write)
        try:
            yield folder
        finally:
            # once its manifest is being created it may be visible, also when that failed: then `vacuum` decides
            if not write.kept:
                self._storage.delete([file.path for file in self._storage.files(folder)])

    def publish(self, write: Write, columns: Columns, mode: Mode) -> Manifest | None:
        """Makes written data visible, durably; None when there are no rows. Call within `stage`. When another writer
        of the same commit was faster, it is that one's that is returned.

        Raises:
            AttemptFencedError: a later attempt of the write's job has fenced.
        """
        self._watch(Phase.STAGED)
        partitions = self._partitions(_folder(write))
        if not partitions:
            return None
        if (found := self.find(write.commit)) is not None:
            return found
        draft = Manifest(
            *(write.commit, 0, self._dataset, self._clock.now(), mode, columns.partition_by, columns.schema),
            partitions,
            write.author,
            write.work,
        )
        write.kept = True
        try:
            manifest = self._log.add(draft, self._watch)
        except ConflictError:
            write.kept = False
            raise
        write.kept = manifest.work == write.work
        if write.kept:
            self._watch(Phase.COMMITTED)
        return manifest

    def fence(self, author: Author) -> list[Manifest]:
        """Fences the earlier attempts of a job. Returns the commits before it.

        Raises:
            AttemptFencedError: a later attempt has fenced.
        """
        return self._log.fence(author, self._dataset, self._clock.now())

    def mark_announced(self, commit: str) -> None:
        """Stores that the commit's event has been emitted."""
        self._watch(Phase.EMITTED)
        self._storage.put(f"{_ANNOUNCED}/{commit}", b"")
        self._watch(Phase.ANNOUNCED)

    def is_announced(self, commit: str) -> bool:
        """Whether the commit's event has been emitted."""
        try:
            self._storage.read(f"{_ANNOUNCED}/{commit}")
        except NotFoundError:
            return False
        return True

    def announce_missing(self, emit: Callable[[Manifest], None]) -> list[str]:
        """Emits, in commit order, the events of commits that are not announced. Returns their ids. A writer between its
        commit and its event may do the same: the event counts once.

        Raises:
            InvalidError: the event of a commit was refused as invalid; later commits were announced nevertheless.
            Any other error of `emit`: that commit and all later ones stay unannounced.
        """
        announced: list[str] = []
        refused: InvalidError | None = None
        known = {PurePosixPath(file.path).name for file in self._storage.files(_ANNOUNCED)}
        for manifest in self.manifests():
            if manifest.fence or manifest.commit in known:
                continue
            try:
                emit(manifest)
                self.mark_announced(manifest.commit)
                announced.append(manifest.commit)
            except InvalidError as exc:
                refused = refused or exc
        if refused is not None:
            raise refused
        return announced

    def recover(self) -> list[str]:
        """Nothing: what killed writers left is not visible. See `vacuum`."""
        return []

    def vacuum(self, keep: timedelta) -> int:
        """Deletes data files that no partition has had for so long: of killed writers, and those that were overwritten.
        Returns how many. `keep` is longer than any write and any read takes.
        """
        limit = self._clock.now() - keep
        manifests = self.manifests()
        before = visible_partitions(manifest for manifest in manifests if manifest.at < limit)
        used = {file for each in before.values() for file in each.files}
        used |= {file for manifest in manifests if manifest.at >= limit for file in _files_of(manifest)}
        old = [file.path for file in self._storage.files(_DATA) if file.at < limit and file.path not in used]
        old += [file.path for file in self._log.strays() if file.at < limit]
        self._storage.delete(old)
        return len(old)

    def _partitions(self, folder: str) -> tuple[CommittedPartition, ...]:
        """The partitions below a write's folder, by key; a file that is gone is an error, not a missing row."""
        found: dict[str, list[StoredFile]] = {}
        for file in self._storage.files(folder):
            if file.path.endswith(".parquet"):
                found.setdefault(file.path.removeprefix(f"{folder}/").rpartition("/")[0], []).append(file)
        return tuple(
            CommittedPartition(
                key,
                hive_values(key),
                tuple(file.path for file in files),
                sum(file.size for file in files),
                sum(self._rows(file.path) for file in files),
            )
            for key, files in sorted(found.items())
        )

    def _rows(self, path: str) -> int:
        """Read from the file's footer, without a Spark job."""
        import pyarrow.parquet as pq  # noqa: PLC0415

        with self._storage.open_file(path) as file:
            return pq.read_metadata(file).num_rows


def _folder(write: Write) -> str:
    return f"{_DATA}/_commit={write.work}"


def _files_of(manifest: Manifest) -> tuple[str, ...]:
    return tuple(file for partition in manifest.partitions for file in partition.files)
