"""Partitioned file sets: Parquet partitions that land whole, say so once, and are read by who was told.

    flights = PartitionedFileSet("flights", "/data/flights")
    flights.write(df, partition_by=["day"])                # lands the partitions of df, then emits one event

    new = PartitionedFileSet("flights", "/data/flights").read_new(current_run())    # in the job it started

A write becomes visible in one step or not at all, and its event follows it. What a crash left behind, the next use
puts right: a commit that was not visible is gone, one that was visible is announced. The commit's id is the event's, so
announcing twice is announcing once. How: `spark.commit`.

Today on local POSIX filesystems (locks, atomic renames); an object store needs another commit point.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

from streamsched.domain.errors import InvalidError, NotFoundError, StreamschedError, UnavailableError
from streamsched.domain.event import Event, Partition
from streamsched.domain.names import DatasetRef
from streamsched.emit.client import Emitted, Emitter
from streamsched.emit.draft import Draft, partitions_added
from streamsched.ports.clock import Clock, SystemClock
from streamsched.spark.commit import Columns, Phase, Store
from streamsched.spark.context import RunContext
from streamsched.spark.manifest import Manifest, Mode, checked_commit, visible

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("streamsched.spark")

EMIT_URL: Final = "STREAMSCHED_EMIT_URL"
SPOOL: Final = "STREAMSCHED_SPOOL"

#: One slash is enough: of two, a `Path` keeps one.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")

_CLOCK: Final = SystemClock()


class Announcer(Protocol):
    """What a file set says its commits to: an `Emitter`."""

    def emit(self, *what: Draft | Event) -> Emitted: ...


@dataclass(frozen=True, slots=True)
class Commit:
    """A write that is visible.

    Attributes:
        id: also the id of its event.
        partitions: what it added, with bytes and rows of this commit alone.
        announced: whether its event is out (taken, or in the spool). If not, the next use of the file set says it.
    """

    id: str
    partitions: tuple[Partition, ...]
    announced: bool


class PartitionedFileSet:
    """A dataset as a folder of Parquet partitions. Any number of processes may write and read it side by side."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        path: str | Path,
        *,
        emitter: Announcer | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = _CLOCK,
        watch: Callable[[Phase], None] = lambda _: None,
    ) -> None:
        """Touches nothing yet.

        Args:
            dataset: `namespace.name`, or a name in the default namespace.
            path: a folder that every process which uses the dataset sees under this name.
            emitter: None takes `STREAMSCHED_EMIT_URL` and `STREAMSCHED_SPOOL`, which every run is given; without them
                commits are visible but stay unannounced until someone with an emitter uses the file set.
            watch: told each phase of a commit.

        Raises:
            InvalidError: the dataset's name is none, or the path is a URL.
        """
        self.dataset = dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset)
        if _URL.match(str(path)):
            raise InvalidError("$.path", f"must be a folder of a POSIX filesystem, not a URL, but is '{path}'")
        self.path = Path(path).absolute()
        self._emitter = emitter
        self._environ = os.environ if environ is None else environ
        self._store = Store(self.path, dataset=self.dataset, clock=clock, watch=watch)

    def write(
        self,
        df: DataFrame,
        *,
        partition_by: Sequence[str],
        mode: Mode | str = Mode.APPEND,
        commit_id: str | None = None,
    ) -> Commit:
        """Lands the rows of `df` and then says so, once, with all partition keys.

        Args:
            mode: `append` adds files to partitions that are there already, `overwrite_partitions` takes the place of
                those that `df` touches.
            commit_id: a deterministic one (such as the run's id) makes the write idempotent: if that commit is already
                visible, nothing is written and it is returned.

        Returns:
            The commit; of an empty `df` one without partitions, of which nothing is said.

        Raises:
            InvalidError: no partition column, an unknown mode, or an id that can be no file name.
            RefusedError, ConfigurationError: the far end will not take the event; the commit is visible.
            Whatever Spark raises: then nothing is visible and nothing is said.
        """
        if not partition_by:
            raise InvalidError("$.partition_by", "must name at least one column")
        if mode not in tuple(Mode):
            raise InvalidError("$.mode", f"must be one of {', '.join(Mode)} but is '{mode}'")
        commit = checked_commit(commit_id or uuid4().hex)
        self.settle()
        with self._store.writing(commit) as staging:
            manifest = self._store.find(commit)
            if manifest is None:
                df.write.partitionBy(*partition_by).parquet(_uri(staging))
                columns = Columns(df.schema.json(), tuple(partition_by))
                manifest = self._store.publish(commit, columns, Mode(mode))
            if manifest is None:
                return Commit(commit, (), announced=True)
            announced = self._store.is_announced(commit) or self._announce(manifest)
        return Commit(commit, tuple(piece.partition() for piece in manifest.pieces), announced)

    def partitions(self) -> tuple[Partition, ...]:
        """All visible partitions in order of their keys, with bytes and rows of all their commits."""
        self.settle()
        return tuple(seen.partition for seen in visible(self._store.manifests()).values())

    def read(self, spark: SparkSession | None = None) -> DataFrame:
        """All visible partitions. `spark` None takes the active session.

        Raises:
            NotFoundError: nothing was ever committed, so there is no schema either.
        """
        self.settle()
        return self._frame(spark, None)

    def read_partitions(self, spark: SparkSession | None, keys: Iterable[str]) -> DataFrame:
        """Exactly these partitions, such as `day=2013-01-01`; of no keys an empty frame.

        Raises:
            NotFoundError: a key is not visible.
        """
        self.settle()
        return self._frame(spark, tuple(keys))

    def read_new(self, run: RunContext, spark: SparkSession | None = None) -> DataFrame:
        """Exactly the partitions that started this run, each as it is now: with what later commits appended to it.

        Columns come back with the types they were written with, partition columns too.

        Raises:
            NotFoundError: a partition that started the run is not visible here: wrong folder, or a foreign emitter.
        """
        return self.read_partitions(spark, (partition.key for partition in run.new_partitions(self.dataset)))

    def settle(self) -> None:
        """Puts right what dead writers left: rolls back what was not visible, announces what was.

        Every use calls it. A commit that cannot be announced now is logged and left to the next use: it must not keep
        anybody from reading.
        """
        for commit in self._store.recover():
            log.warning("commit.rolled_back dataset=%s commit=%s", self.dataset, commit)
        if self._emitter is None and not self._environ.get(EMIT_URL):
            return
        try:
            self._store.announce_missing(self._say_late)
        except StreamschedError as exc:
            log.warning("commit.unannounced dataset=%s why=%s", self.dataset, exc)

    def _announce(self, manifest: Manifest) -> bool:
        try:
            self._say(manifest)
        except UnavailableError as exc:
            log.warning("commit.unannounced dataset=%s commit=%s why=%s", self.dataset, manifest.commit, exc)
            return False
        self._store.announced(manifest.commit)
        return True

    def _say(self, manifest: Manifest) -> None:
        event = partitions_added(
            manifest.dataset,
            [piece.partition() for piece in manifest.pieces],
            event_id=manifest.commit,
            time=manifest.at,
            source=manifest.source,
        )
        with nullcontext(self._emitter) if self._emitter else self._from_environment() as emitter:
            emitter.emit(event)

    def _say_late(self, manifest: Manifest) -> None:
        self._say(manifest)
        log.warning("commit.announced_late dataset=%s commit=%s", self.dataset, manifest.commit)

    def _from_environment(self) -> Emitter:
        url = self._environ.get(EMIT_URL)
        if not url:
            raise UnavailableError(f"nobody to tell: no emitter was given and {EMIT_URL} is not set")
        return Emitter(url, source=f"/datasets/{self.dataset}", spool=self._environ.get(SPOOL) or None)

    def _frame(self, spark: SparkSession | None, keys: tuple[str, ...] | None) -> DataFrame:
        from pyspark.sql.types import StructType  # noqa: PLC0415 (a job that only writes events needs no PySpark)

        manifests = self._store.manifests()
        if not manifests:
            raise NotFoundError("dataset", f"{self.dataset} in {self.path}")
        seen = visible(manifests)
        if missing := [key for key in keys or () if key not in seen]:
            raise NotFoundError("partition", f"{', '.join(missing)} of {self.dataset} in {self.path}")
        chosen = seen if keys is None else {key: seen[key] for key in keys}
        schema = StructType.fromJson(_schema(manifests))
        session = spark or _active_session()
        files = [_uri(self.path / file) for part in chosen.values() for file in part.files]
        if not files:
            return session.createDataFrame([], schema)
        frame = session.read.schema(schema).option("basePath", _uri(self.path)).parquet(*files)
        return frame.select(*schema.names)


def _schema(manifests: Sequence[Manifest]) -> dict[str, object]:
    """The columns of all commits; the latest says their order and types, older ones add what it lacks."""
    latest, *older = (json.loads(manifest.schema) for manifest in reversed(manifests))
    known = {column["name"] for column in latest["fields"]}
    for schema in older:
        for column in schema["fields"]:
            if column["name"] not in known:
                known.add(column["name"])
                latest["fields"].append({**column, "nullable": True})
    return latest


def _active_session() -> SparkSession:
    from pyspark.sql import SparkSession as Session  # noqa: PLC0415

    session = Session.getActiveSession()
    if session is None:
        raise InvalidError("$.spark", "no Spark session is active here: pass one")
    return session


def _uri(path: Path) -> str:
    """Local, whatever Spark's default filesystem is. Not percent-encoded: Hadoop takes paths as they are."""
    return f"file://{path}"
