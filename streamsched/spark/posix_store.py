"""File sets on a POSIX filesystem: staged Parquet files become visible atomically; recovery after a crash.

A file set is a folder on a local POSIX filesystem:

    day=2013-01-01/<work>-00000.parquet         data, in Hive's layout; <work> is of one write: <commit>.<random>
    _staging/<work>.lock                        held (flock) by the writer while it lives
    _staging/<work>/data/…                      Spark's output
    _staging/<work>/moves.json                  the planned moves
    _manifest/<number>.json                     linked to its number, if that is free: the commit point
    _announced/<commit>                         the event has been emitted

    STAGED ──▶ PREPARED ──▶ (moving) ──▶ MOVED ──▶ CHECKED ──▶ COMMITTED ──▶ EMITTED ──▶ ANNOUNCED
    └──── crash here: rolled back ────────────────────────┘    └─ crash here: announced by the next use

Readers read only files that manifests list, so partially moved commits are invisible. A writer whose number is taken
reads that manifest and tries the next, so it has seen every commit and every fence before its own.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.emit.claim import hold_claim
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock
from streamsched.process.files import create_atomically, sync_folder, write_atomically
from streamsched.spark.manifest import (
    Columns,
    CommittedPartition,
    Manifest,
    Mode,
    Phase,
    PhaseCallback,
    fence_draft,
    find_visible,
)
from streamsched.spark.writes.write import Author, Write

_MANIFESTS: Final = "_manifest"
_PREPARED: Final = "moves.json"
_LOCK: Final = ".lock"


def manifests_of(root: Path) -> list[Manifest]:
    """All commits of the file set in this folder, in commit order.

    Raises:
        OSError, InvalidError: one cannot be read.
    """
    folder = root / _MANIFESTS
    return [Manifest.decode((folder / name).read_bytes()) for name in _names(folder, ())]


class PosixStore:
    """The folder of one file set. Any number of processes may use it concurrently."""

    def __init__(self, root: Path, *, dataset: DatasetRef, clock: Clock, watch: PhaseCallback) -> None:
        self.root = root
        self._dataset = dataset
        self._clock = clock
        self._watch = watch
        self._staging = root / "_staging"
        self._manifests = root / _MANIFESTS
        self._announced = root / "_announced"
        self._known: dict[str, Manifest] = {}

    @property
    def base(self) -> str:
        """The URI, for Spark, of the folder below which partition columns begin."""
        return self.uri("")

    def uri(self, path: str | Path) -> str:
        """The URI, for Spark, of a path relative to the file set, independent of Spark's default filesystem. Not
        percent-encoded, because Hadoop expects raw paths.
        """
        return f"file://{self.root / path}"

    def manifests(self) -> list[Manifest]:
        """All entries of the log, in order. Those that were read before are not read again."""
        names = _names(self._manifests, self._known)
        for name in names:
            if name not in self._known:
                self._known[name] = Manifest.decode((self._manifests / name).read_bytes())
        return [self._known[name] for name in names]

    def find(self, commit: str) -> Manifest | None:
        """The commit with this id; None if it is not visible."""
        return next((manifest for manifest in self.manifests() if manifest.commit == commit), None)

    @contextmanager
    def stage(self, write: Write) -> Iterator[Path]:
        """The folder to stage the write's data in. If the block ends without a commit, the staged data is deleted.

        Raises:
            ConfigurationError: pyarrow, which `publish` needs, is not installed.
        """
        if find_spec("pyarrow") is None:
            raise ConfigurationError("pyarrow is not installed: pip install 'streamsched[spark]'")
        self._make_folders()
        with hold_claim(self._lock(write.work), create=True, wait=True):
            try:
                yield self._staging / write.work / "data"
            finally:
                self._clear(write.work)

    def publish(self, write: Write, columns: Columns, mode: Mode) -> Manifest | None:
        """Makes staged data visible, durably; None when Spark staged no rows. Call within `stage`. When another
        writer of the same commit was faster, it is that one's that is returned.

        Raises:
            AttemptFencedError: a later attempt of the write's job has fenced.
        """
        self._watch(Phase.STAGED)
        staged = sorted((self._staging / write.work / "data").rglob("*.parquet"))
        moves = self._moves(write.work, staged)
        if not moves:
            return None
        draft = self._manifest(write, columns, mode, moves)
        if (found := find_visible(self.manifests(), draft)) is not None:
            return found
        _write(self._staging / write.work / _PREPARED, draft.encode())
        self._watch(Phase.PREPARED)
        self._move(moves)
        self._watch(Phase.MOVED)
        manifest = self._add(lambda: replace(draft, author=write.author))
        if manifest.work == write.work:
            self._watch(Phase.COMMITTED)
        return manifest

    def fence(self, author: Author) -> list[Manifest]:
        """Fences the earlier attempts of a job. Returns the log before it.

        Raises:
            AttemptFencedError: a later attempt has fenced.
        """
        self._make_folders()
        fence = self._add(lambda: fence_draft(self.manifests(), author, self._dataset, self._clock.now()))
        return [each for each in self.manifests() if each.sequence < fence.sequence]

    def _add(self, drafted: Callable[[], Manifest]) -> Manifest:
        """Adds an entry as the last one; returns it, or the entry with its id that is there already."""
        while True:
            known, draft = self.manifests(), drafted()
            if (found := find_visible(known, draft)) is not None:
                return found
            manifest = replace(draft, sequence=known[-1].sequence + 1 if known else 1)
            self._watch(Phase.CHECKED)
            if self._create(manifest):
                return manifest

    def _create(self, manifest: Manifest) -> bool:
        """Creates the entry if its number is free.

        Raises:
            ConfigurationError: the filesystem has no hard links.
        """
        try:
            return create_atomically(self._manifests / f"{manifest.sequence:016d}.json", manifest.encode())
        except OSError as exc:
            if exc.errno in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise ConfigurationError(f"the filesystem of {self.root} has no hard links: {exc}") from exc
            raise

    def mark_announced(self, commit: str) -> None:
        """Stores that the commit's event has been emitted."""
        self._watch(Phase.EMITTED)
        (self._announced / commit).touch()
        sync_folder(self._announced)
        self._watch(Phase.ANNOUNCED)

    def is_announced(self, commit: str) -> bool:
        """Whether the commit's event has been emitted."""
        return (self._announced / commit).exists()

    def announce_missing(self, emit: Callable[[Manifest], None]) -> list[str]:
        """Emits, in commit order, the events of commits that are not announced and whose writer has ended. Returns
        their ids.

        Raises:
            InvalidError: the event of a commit was refused as invalid; later commits were announced nevertheless.
            Any other error of `emit`: that commit and all later ones stay unannounced.
        """
        announced: list[str] = []
        refused: InvalidError | None = None
        known = {path.name for path in self._announced.glob("*")}
        for manifest in self.manifests():
            if manifest.fence or manifest.commit in known:
                continue
            with hold_claim(self._lock(manifest.work), create=True) as held:
                if held is None:
                    continue
                try:
                    if not self.is_announced(manifest.commit):
                        emit(manifest)
                        self.mark_announced(manifest.commit)
                        announced.append(manifest.commit)
                except InvalidError as exc:
                    refused = refused or exc
                finally:
                    self._clear(manifest.work)
        if refused is not None:
            raise refused
        return announced

    def recover(self) -> list[str]:
        """Rolls back writes whose writers ended before the commit point. Returns the ids of their commits."""
        left = {path.name.removesuffix(_LOCK) for path in self._staging.glob("*")}
        undone = []
        for work in sorted(left):
            with hold_claim(self._lock(work), create=True) as held:
                if held is not None:
                    if not self._is_visible(work):
                        undone.append(work.rpartition(".")[0] or work)
                    self._clear(work)
        return undone

    def _is_visible(self, work: str) -> bool:
        return any(work == manifest.work for manifest in self.manifests())

    def _lock(self, work: str) -> Path:
        return self._staging / f"{work}{_LOCK}"

    def _clear(self, work: str) -> None:
        """Deletes the write's staging folder and lock, and its moved files if it is not visible. Claim it first."""
        staged = self._staging / work
        prepared = staged / _PREPARED
        if prepared.exists() and not self._is_visible(work):
            for partition in Manifest.decode(prepared.read_bytes()).partitions:
                for file in partition.files:
                    (self.root / file).unlink(missing_ok=True)
        if staged.exists():
            shutil.rmtree(staged)
        self._lock(work).unlink(missing_ok=True)

    def _moves(self, work: str, staged: list[Path]) -> list[tuple[Path, str]]:
        data = self._staging / work / "data"
        return [
            (path, f"{path.parent.relative_to(data).as_posix()}/{work}-{number:05d}.parquet")
            for number, path in enumerate(staged)
        ]

    def _manifest(self, write: Write, columns: Columns, mode: Mode, moves: list[tuple[Path, str]]) -> Manifest:
        by_key: dict[str, list[tuple[Path, str]]] = {}
        for path, target in moves:
            by_key.setdefault(target.rpartition("/")[0], []).append((path, target))
        return Manifest(
            commit=write.commit,
            sequence=0,
            dataset=self._dataset,
            at=self._clock.now(),
            mode=mode,
            partition_by=columns.partition_by,
            schema=columns.schema,
            partitions=tuple(_partition(key, files) for key, files in by_key.items()),
            author=write.author,
            work=write.work,
        )

    def _move(self, moves: list[tuple[Path, str]]) -> None:
        for path, target in moves:
            _sync(path)
            (self.root / target).parent.mkdir(parents=True, exist_ok=True)
            path.rename(self.root / target)
            self._watch(Phase.MOVING)
        for folder in {self.root / above for _, target in moves for above in Path(target).parents}:
            sync_folder(folder)

    def _make_folders(self) -> None:
        _make(self.root)
        for folder in (self._staging, self._manifests, self._announced):
            folder.mkdir(exist_ok=True)


def _names(folder: Path, known: Container[str]) -> list[str]:
    """The names of the manifests, in order. A listing is no snapshot: it may have a file and not the one before it,
    which was created first. Another listing has it.
    """
    names = sorted(path.name for path in folder.glob("*.json"))
    if not names or all(name in known for name in names):
        return names
    return sorted(path.name for path in folder.glob("*.json") if path.name <= names[-1])


def _partition(key: str, files: list[tuple[Path, str]]) -> CommittedPartition:
    rows = sum(_rows(path) for path, _ in files)
    size = sum(path.stat().st_size for path, _ in files)
    return CommittedPartition(key, hive_values(key), tuple(target for _, target in files), size, rows)


def _rows(path: Path) -> int:
    """Read from the file's footer, without a Spark job."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (readers need no Arrow; `stage` has checked for it)

    return pq.read_metadata(path).num_rows


def _make(folder: Path) -> None:
    """Creates the folder and its missing parents, durably."""
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def _write(path: Path, content: bytes) -> None:
    """Writes the file atomically and durably."""
    with write_atomically(path) as file:
        file.write(content)
    sync_folder(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
