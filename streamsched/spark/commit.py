"""Commits: staged Parquet files become visible atomically; recovery after a crash.

A file set is a folder on a local POSIX filesystem:

    day=2013-01-01/<commit>-00000.parquet       data, in Hive's layout
    _staging/<commit>.lock                      held (flock) by the writer while it lives
    _staging/<commit>/data/…                    Spark's output
    _staging/<commit>/manifest.json             the planned moves
    _manifest/<sequence>-<commit>.json          renamed into number: the commit point
    _announced/<commit>                         the event has been emitted

    STAGED ──▶ PREPARED ──▶ (moving) ──▶ MOVED ──▶ COMMITTED ──▶ EMITTED ──▶ ANNOUNCED
    └──── crash here: rolled back ──────────────┘  └─ crash here: announced by the next use ───┘

Readers read only files that manifests list, so partially moved commits are invisible.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from streamsched.domain.errors import ConfigurationError, InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.emit.claim import claimed
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock
from streamsched.process.files import sync_folder, write_atomically
from streamsched.spark.manifest import CommittedPartition, Manifest, Mode, commit_of

_MANIFESTS: Final = "_manifest"
_PREPARED: Final = "manifest.json"
_LOCK: Final = ".lock"


class Phase(StrEnum):
    """Phases of a commit, in order."""

    STAGED = "staged"
    PREPARED = "prepared"
    MOVING = "moving"
    MOVED = "moved"
    COMMITTED = "committed"
    EMITTED = "emitted"
    ANNOUNCED = "announced"


#: Called at each phase of a commit; tests end the process there.
PhaseCallback = Callable[[Phase], None]


@dataclass(frozen=True, slots=True)
class Columns:
    """The staged data's schema (Spark's JSON), and its partition columns in the order of the folders."""

    schema: str
    partition_by: tuple[str, ...]


def manifests_of(root: Path) -> list[Manifest]:
    """All commits of the file set in this folder, in commit order.

    Raises:
        OSError, InvalidError: one cannot be read.
    """
    return [Manifest.decode(path.read_bytes()) for path in sorted((root / _MANIFESTS).glob("*.json"))]


class Store:
    """The folder of one file set. Any number of processes may use it concurrently."""

    def __init__(self, root: Path, *, dataset: DatasetRef, clock: Clock, watch: PhaseCallback) -> None:
        self.root = root
        self._dataset = dataset
        self._clock = clock
        self._watch = watch
        self._staging = root / "_staging"
        self._manifests = root / _MANIFESTS
        self._announced = root / "_announced"

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
        """All commits, in commit order."""
        return manifests_of(self.root)

    def find(self, commit: str) -> Manifest | None:
        """The commit with this id; None if it is not visible."""
        for path in self._manifests.glob(f"*-{commit}.json"):
            if commit_of(path.name) == commit:
                return Manifest.decode(path.read_bytes())
        return None

    @contextmanager
    def writing(self, commit: str) -> Iterator[Path]:
        """The folder to stage the commit's data in. If the block ends without a commit, the staged data is deleted.

        Waits for another process that writes the same commit.

        Raises:
            ConfigurationError: pyarrow, which `publish` needs, is not installed.
        """
        if find_spec("pyarrow") is None:
            raise ConfigurationError("pyarrow is not installed: pip install 'streamsched[spark]'")
        _make(self.root)
        for folder in (self._staging, self._manifests, self._announced):
            folder.mkdir(exist_ok=True)
        with claimed(self._lock(commit), create=True, wait=True):
            try:
                yield self._staging / commit / "data"
            finally:
                self._clear(commit)

    def publish(self, commit: str, columns: Columns, mode: Mode) -> Manifest | None:
        """Makes staged data visible, durably; None when Spark staged no rows. Call within `writing`."""
        self._watch(Phase.STAGED)
        staged = sorted((self._staging / commit / "data").rglob("*.parquet"))
        moves = self._moves(commit, staged)
        if not moves:
            return None
        manifest = self._manifest(commit, columns, mode, moves)
        _write(self._staging / commit / _PREPARED, manifest.encode())
        self._watch(Phase.PREPARED)
        self._move(moves)
        self._watch(Phase.MOVED)
        manifest = replace(manifest, sequence=self._next_sequence())
        _write(self._manifests / manifest.name, manifest.encode())
        self._watch(Phase.COMMITTED)
        return manifest

    def announced(self, commit: str) -> None:
        """Stores that the commit's event has been emitted."""
        self._watch(Phase.EMITTED)
        (self._announced / commit).touch()
        sync_folder(self._announced)
        self._watch(Phase.ANNOUNCED)

    def is_announced(self, commit: str) -> bool:
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
        for path in sorted(self._manifests.glob("*.json")):
            commit = commit_of(path.name)
            if commit is None or commit in known:
                continue
            with claimed(self._lock(commit), create=True) as held:
                if held is None:
                    continue
                try:
                    if not self.is_announced(commit):
                        emit(Manifest.decode(path.read_bytes()))
                        self.announced(commit)
                        announced.append(commit)
                except InvalidError as exc:
                    refused = refused or exc
                finally:
                    self._clear(commit)
        if refused is not None:
            raise refused
        return announced

    def recover(self) -> list[str]:
        """Rolls back commits whose writers ended before the commit point. Returns their ids."""
        left = {path.name.removesuffix(_LOCK) for path in self._staging.glob("*")}
        undone = []
        for commit in sorted(left):
            with claimed(self._lock(commit), create=True) as held:
                if held is not None:
                    if self.find(commit) is None:
                        undone.append(commit)
                    self._clear(commit)
        return undone

    def _lock(self, commit: str) -> Path:
        return self._staging / f"{commit}{_LOCK}"

    def _clear(self, commit: str) -> None:
        """Deletes the commit's staging folder and lock, and its moved files if it is not visible. Claim it first."""
        work = self._staging / commit
        prepared = work / _PREPARED
        if prepared.exists() and self.find(commit) is None:
            for partition in Manifest.decode(prepared.read_bytes()).partitions:
                for file in partition.files:
                    (self.root / file).unlink(missing_ok=True)
        if work.exists():
            shutil.rmtree(work)
        self._lock(commit).unlink(missing_ok=True)

    def _moves(self, commit: str, staged: list[Path]) -> list[tuple[Path, str]]:
        data = self._staging / commit / "data"
        return [
            (path, f"{path.parent.relative_to(data).as_posix()}/{commit}-{number:05d}.parquet")
            for number, path in enumerate(staged)
        ]

    def _manifest(self, commit: str, columns: Columns, mode: Mode, moves: list[tuple[Path, str]]) -> Manifest:
        by_key: dict[str, list[tuple[Path, str]]] = {}
        for path, target in moves:
            by_key.setdefault(target.rpartition("/")[0], []).append((path, target))
        return Manifest(
            commit=commit,
            sequence=0,
            dataset=self._dataset,
            at=self._clock.now(),
            mode=mode,
            partition_by=columns.partition_by,
            schema=columns.schema,
            partitions=tuple(_partition(key, files) for key, files in by_key.items()),
        )

    def _move(self, moves: list[tuple[Path, str]]) -> None:
        for path, target in moves:
            _sync(path)
            (self.root / target).parent.mkdir(parents=True, exist_ok=True)
            path.rename(self.root / target)
            self._watch(Phase.MOVING)
        for folder in {self.root / above for _, target in moves for above in Path(target).parents}:
            sync_folder(folder)

    def _next_sequence(self) -> int:
        """Greater than every visible sequence, whatever the clock says. Equal sequences are ordered by commit id."""
        latest = max((int(path.name[:16]) for path in self._manifests.glob("*.json")), default=0)
        return max(int(self._clock.now().timestamp() * 1_000_000), latest + 1)


def _partition(key: str, files: list[tuple[Path, str]]) -> CommittedPartition:
    rows = sum(_rows(path) for path, _ in files)
    size = sum(path.stat().st_size for path, _ in files)
    return CommittedPartition(key, hive_values(key), tuple(target for _, target in files), size, rows)


def _rows(path: Path) -> int:
    """Read from the file's footer, without a Spark job."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (readers need no Arrow; `writing` has checked for it)

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
