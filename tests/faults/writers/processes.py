"""Processes of a trial that are killed: writers of a file set, and watchers of a table."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from typing import Any, Final, cast

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from fsspec.implementations.local import LocalFileSystem

from streamsched.domain.names import DatasetRef
from streamsched.emit import Emitter
from streamsched.emit.bookmarks import BookmarkClient
from streamsched.spark.manifest import Mode
from streamsched.spark.pfs import PartitionedFileSet
from streamsched.spark.storage import FolderStorage
from streamsched.spark.tables.delta_source import DeltaSource
from streamsched.spark.tables.iceberg_source import IcebergSource
from streamsched.spark.tables.table_source import TableSource
from streamsched.spark.tables.watcher import First, Watcher

DATASET: Final = DatasetRef("default", "flights")
#: Partitions of each commit of a file set. All have the same number of rows, so unequal ones are half a commit.
DAYS: Final = ("day=1", "day=2", "day=3")
#: Commits of a process, or checks of a watcher, at most.
_MOST: Final = 1000
#: Seconds before each file, about what the rest of a commit takes.
_PAUSE: Final = 0.1
_SCHEMA: Final = '{"type":"struct","fields":[]}'


@dataclass(frozen=True, slots=True)
class Place:
    """Where the dataset is, and where its events go.

    Attributes:
        store: `s3`, `file`, `plain`, `delta` or `iceberg`.
        location: a URL, a folder, or the name of a table.
        options: of the storage or the catalog.
        environ: `STREAMSCHED_EMIT_URL` and `STREAMSCHED_TOKEN`.
        spark: settings of the session with which attempts write; None: without Spark.
    """

    store: str
    location: str
    options: Mapping[str, Any]
    environ: Mapping[str, str]
    spark: Mapping[str, str] | None = None

    def file_set(self) -> PartitionedFileSet:
        return PartitionedFileSet(DATASET, self.location, environ=self.environ, storage_options=self.options)

    def source(self) -> TableSource:
        if self.store == "delta":
            return DeltaSource(self.location)
        return IcebergSource(self.location, catalog="lake", options=self.options)

    @property
    def url(self) -> str:
        return self.environ["STREAMSCHED_EMIT_URL"]


class PlainFiles(LocalFileSystem):
    """Files that cannot be created only if they are absent."""

    protocol = ("plain",)


fsspec.register_implementation("plain", PlainFiles, clobber=True)


class Frame:
    """As much of a Spark frame as `PartitionedFileSet.write` uses: rows of all `DAYS`, a file for each, written one
    after another, with pauses, so that kills meet this too.
    """

    def __init__(self, place: Place, rows: Callable[[str], pa.Table], *, pause_s: float = 0.0) -> None:
        """`rows`: those of a day."""
        self._place, self._rows, self._pause_s = place, rows, pause_s

    @property
    def schema(self) -> Frame:
        return self

    @property
    def write(self) -> Frame:
        return self

    def json(self) -> str:
        return _SCHEMA

    def partitionBy(self, *_: str) -> Frame:  # noqa: N802 - Spark's name
        return self

    def parquet(self, uri: str) -> None:
        if self._place.store == "folder":
            storage, folder = FolderStorage(uri), ""
        else:
            storage = FolderStorage(self._place.location, self._place.options)
            folder = uri.removeprefix(f"{storage.location.replace('s3://', 's3a://', 1)}/") + "/"
        for day in DAYS:
            content = io.BytesIO()
            pq.write_table(self._rows(day), content)
            time.sleep(self._pause_s)
            storage.put(f"{folder}{day}/part-0.parquet", content.getvalue())


def write(place: Place, name: str, seed: int, said: Connection) -> None:
    """Commits as often as it is asked; each number that it receives is so many commits, 0 the end. Says `ready`, then
    the id of each commit once it is done, then `done`.
    """
    chance = random.Random(seed)
    flights = place.file_set()
    said.send("ready")
    number = 0
    while wanted := cast("int", said.recv()):
        for _ in range(min(wanted, _MOST)):
            number += 1
            mode = Mode.OVERWRITE_PARTITIONS if chance.random() < 0.2 else Mode.APPEND
            rows = pa.table({"n": list(range(chance.randint(1, 5)))})
            frame: Any = Frame(place, lambda _, rows=rows: rows, pause_s=_PAUSE)
            flights.write(frame, partition_by=["day"], mode=mode, commit_id=f"{name}.{number}")
            said.send(f"{name}.{number}")
        said.send("done")


def watch(place: Place, said: Connection) -> None:
    """Checks the table again and again. Says `ready` before it does."""
    with Emitter(place.url, source="watcher", token=place.environ["STREAMSCHED_TOKEN"]) as emitter:
        bookmarks = BookmarkClient(place.url, place.environ)
        watcher = Watcher(DATASET, place.source(), bookmarks=bookmarks, emitter=emitter, first=First.START)
        said.send("ready")
        for _ in range(_MOST):
            watcher.run_once()


class DeltaWriter:
    """Writes a table: mostly appends, and commits that are no events."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        self._location, self._chance = place.location, chance
        self.commits: dict[str, dict[str, int]] = {}

    def step(self) -> None:
        from deltalake import DeltaTable, write_deltalake

        drawn = self._chance.random()
        if self.commits and drawn < 0.1:
            DeltaTable(self._location).optimize.compact()
        elif self.commits and drawn < 0.2:
            DeltaTable(self._location).delete(f"day = '{self._chance.randint(1, 6)}'")
        else:
            days = _days(self._chance)
            mode = "overwrite" if self.commits and drawn < 0.3 else "append"
            write_deltalake(self._location, _rows(days), partition_by=["day"], mode=mode)
            self.commits[f"delta-{DeltaTable(self._location).version()}"] = days


class IcebergWriter:
    """Writes a table: mostly appends, and commits that are no events."""

    def __init__(self, place: Place, chance: random.Random) -> None:
        from pyiceberg.catalog import load_catalog
        from pyiceberg.transforms import IdentityTransform

        catalog = load_catalog("lake", **place.options)
        catalog.create_namespace("db")
        self._table: Any = catalog.create_table(place.location, schema=_rows({}).schema)
        with self._table.update_spec() as spec:
            spec.add_field("day", IdentityTransform(), "day")
        self._chance = chance
        self.commits: dict[str, dict[str, int]] = {}

    def step(self) -> None:
        drawn = self._chance.random()
        if self.commits and drawn < 0.15:
            self._table.delete(f"day = '{self._chance.randint(1, 6)}'")
            return
        days = _days(self._chance)
        if self.commits and drawn < 0.3:
            self._table.overwrite(_rows(days))
        else:
            self._table.append(_rows(days))
        self.commits[f"iceberg-{self._table.current_snapshot().snapshot_id}"] = days


def _days(chance: random.Random) -> dict[str, int]:
    return {f"day={day}": chance.randint(1, 5) for day in chance.sample(range(1, 7), chance.randint(1, 4))}


def _rows(days: Mapping[str, int]) -> pa.Table:
    named = [key.partition("=")[2] for key, rows in days.items() for _ in range(rows)]
    return pa.table({"n": pa.array(range(len(named)), pa.int64()), "day": pa.array(named, pa.string())})


def half_commits(place: Place, stopped: Sequence[bool]) -> Iterator[str]:
    """Reads the file set until it is asked to stop, and yields what is wrong with what it sees."""
    from streamsched.ports.clock import SystemClock
    from streamsched.spark.manifest import visible_partitions
    from streamsched.spark.object_store import ObjectStore

    storage = FolderStorage(place.location, place.options)
    reader = ObjectStore(storage, dataset=DATASET, clock=SystemClock(), environ=place.environ)
    before: list[str] = []
    while not stopped:
        manifests = reader.manifests()
        commits = [each.commit for each in manifests]
        if commits[: len(before)] != before or [each.sequence for each in manifests] != list(
            range(1, len(commits) + 1)
        ):
            yield f"{commits} are not a continuation of {before}"
        if len({part.partition.rows for part in visible_partitions(manifests).values()}) > 1:
            yield f"unequal partitions after {commits[-1]}"
        for manifest in manifests[len(before) :]:
            if [each.key for each in manifest.partitions] != list(DAYS):
                yield f"{manifest.commit} has {[each.key for each in manifest.partitions]}"
            for part in manifest.partitions:
                rows = 0
                for path in part.files:
                    with storage.open_file(path) as file:
                        rows += pq.read_metadata(file).num_rows
                if rows != part.rows:
                    yield f"{part.key} of {manifest.commit} has {rows} of {part.rows} rows"
        before = commits


def now() -> datetime:
    return datetime.now(UTC)
