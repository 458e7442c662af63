"""Commits: how staged Parquet files become visible, all of them or none, and how what a crash left is put right.

A file set is a folder on a local POSIX filesystem:

    day=2013-01-01/<commit>-00000.parquet       data, in Hive's layout
    _staging/<commit>.lock                      held (flock) by the writer while it lives
    _staging/<commit>/data/…                    what Spark writes
    _staging/<commit>/manifest.json             what is about to be moved where
    _manifest/<sequence>-<commit>.json          renamed into place: THE commit point
    _announced/<commit>                         the event is out

    STAGED ──▶ PREPARED ──▶ (moving) ──▶ MOVED ──▶ COMMITTED ──▶ EMITTED ──▶ ANNOUNCED
    └──── a crash here: rolled back ────────────┘  └─ a crash here: announced by the next use ─┘

Readers read only what manifests list, so a commit that was half moved was never there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from streamsched.domain.errors import InvalidError
from streamsched.domain.names import DatasetRef
from streamsched.durable import sync_folder, whole
from streamsched.emit.claim import claimed
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock
from streamsched.spark.manifest import Manifest, Mode, Piece, commit_of

_PREPARED: Final = "manifest.json"
_LOCK: Final = ".lock"


class Phase(StrEnum):
    """How far a commit has come."""

    STAGED = "staged"
    PREPARED = "prepared"
    MOVING = "moving"
    MOVED = "moved"
    COMMITTED = "committed"
    EMITTED = "emitted"
    ANNOUNCED = "announced"


#: Told each phase as it is reached; tests end the process there.
Watch = Callable[[Phase], None]


@dataclass(frozen=True, slots=True)
class Columns:
    """The shape of what was staged: Spark's schema in JSON, and the partition columns in the order of the folders."""

    schema: str
    partition_by: tuple[str, ...]


class Store:
    """The folder of one file set. Any number of processes may use it."""

    def __init__(self, root: Path, *, dataset: DatasetRef, clock: Clock, watch: Watch) -> None:
        self.root = root
        self._dataset = dataset
        self._clock = clock
        self._watch = watch
        self._staging = root / "_staging"
        self._manifests = root / "_manifest"
        self._announced = root / "_announced"

    def manifests(self) -> list[Manifest]:
        """All commits, in their order."""
        return [Manifest.decode(path.read_bytes()) for path in sorted(self._manifests.glob("*.json"))]

    def find(self, commit: str) -> Manifest | None:
        """That commit, if it is visible."""
        for path in self._manifests.glob(f"*-{commit}.json"):
            if commit_of(path.name) == commit:
                return Manifest.decode(path.read_bytes())
        return None

    @contextmanager
    def writing(self, commit: str) -> Iterator[Path]:
        """The folder to stage the commit's data in. When the block ends without the commit, nothing of it is left.

        Waits for another process that writes the same commit.
        """
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
        """Notes that the commit's event is out."""
        self._watch(Phase.EMITTED)
        (self._announced / commit).touch()
        sync_folder(self._announced)
        self._watch(Phase.ANNOUNCED)

    def is_announced(self, commit: str) -> bool:
        return (self._announced / commit).exists()

    def announce_missing(self, say: Callable[[Manifest], None]) -> list[str]:
        """Says, in their order, the commits whose event is not out and whose writer is gone; which these were.

        Raises:
            InvalidError: a commit's event was refused for what it says; those after it were said all the same.
            Whatever else `say` raises: that commit and those after it stay unannounced.
        """
        said: list[str] = []
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
                        say(Manifest.decode(path.read_bytes()))
                        self.announced(commit)
                        said.append(commit)
                except InvalidError as exc:
                    refused = refused or exc
                finally:
                    self._clear(commit)
        if refused is not None:
            raise refused
        return said

    def recover(self) -> list[str]:
        """Rolls back what dead writers left before their commit point; the commits that were."""
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
        """Takes away all that is in the way of the commit, and its data too when it is not visible. Claim it first."""
        work = self._staging / commit
        prepared = work / _PREPARED
        if prepared.exists() and self.find(commit) is None:
            for piece in Manifest.decode(prepared.read_bytes()).pieces:
                for file in piece.files:
                    (self.root / file).unlink(missing_ok=True)
        if work.exists():
            shutil.rmtree(work)
        self._lock(commit).unlink(missing_ok=True)

    def _moves(self, commit: str, staged: list[Path]) -> list[tuple[Path, str]]:
        data = self._staging / commit / "data"
        return [
            (path, f"{path.parent.relative_to(data).as_posix()}/{commit}-{place:05d}.parquet")
            for place, path in enumerate(staged)
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
            pieces=tuple(_piece(key, files) for key, files in by_key.items()),
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
        """Later than every commit we see, whatever its clock said. Two at once are ordered by commit id."""
        latest = max((int(path.name[:16]) for path in self._manifests.glob("*.json")), default=0)
        return max(int(self._clock.now().timestamp() * 1_000_000), latest + 1)


def _piece(key: str, files: list[tuple[Path, str]]) -> Piece:
    rows = sum(_rows(path) for path, _ in files)
    size = sum(path.stat().st_size for path, _ in files)
    return Piece(key, hive_values(key), tuple(target for _, target in files), size, rows)


def _rows(path: Path) -> int:
    """Counted from the file's footer: no second Spark job."""
    import pyarrow.parquet as pq  # noqa: PLC0415 (reading a file set needs no Arrow)

    return pq.read_metadata(path).num_rows


def _make(folder: Path) -> None:
    """Makes it and what is missing above it, durably."""
    missing = [above for above in (folder, *folder.parents) if not above.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        sync_folder(made.parent)


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing, and durable."""
    with whole(path) as file:
        file.write(content)
    sync_folder(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
