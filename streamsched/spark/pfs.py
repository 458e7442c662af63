"""Partitioned file sets: Parquet partitions that are committed atomically and announced once, by one event.

    flights = PartitionedFileSet("flights", "/data/flights")
    flights.write(df, partition_by=["day"])                # lands the partitions of df, then emits one event

    new = PartitionedFileSet("flights", "/data/flights").read_new(current_run())    # in the job it started

A write becomes visible atomically, and its event follows. After a crash, the next use rolls back commits that were not
visible and announces those that were. The commit id is the event id, so repeated announcements are duplicates. See
`spark.posix_store`.

A path is a folder of a POSIX filesystem, whose commits need its locks and renames (`spark.posix_store`). A URL, such as
`s3://lake/flights` or `file:///mnt/lake/flights`, is on any storage (`spark.object_store`): commits are files that are
created if they are absent, or, where the storage cannot do that, rows behind the API.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, StreamschedError, UnavailableError
from streamsched.domain.events.event import Event, Partition
from streamsched.domain.names import DatasetRef
from streamsched.emit.bookmarks import BookmarkClient, api_url
from streamsched.emit.client import Emitted, Emitter
from streamsched.emit.destination import NO_DESTINATION, find_destination, namespace
from streamsched.emit.draft import EventDraft, check_keys, commit_events
from streamsched.ports.clock import Clock, SystemClock
from streamsched.spark.consumed import Consumed
from streamsched.spark.context import RunContext
from streamsched.spark.manifest import Columns, Manifest, Mode, Phase, Visible, check_match, visible_partitions
from streamsched.spark.object_store import ObjectStore
from streamsched.spark.posix_store import PosixStore
from streamsched.spark.storage import FolderStorage
from streamsched.spark.writes.job_writes import begun_write
from streamsched.spark.writes.write import Author, run_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("streamsched.spark")

#: One slash suffices to be no path, because `Path` collapses two.
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:/")

_CLOCK: Final = SystemClock()


class Announcer(Protocol):
    """Announces commits; implemented by `Emitter`."""

    def emit(self, *what: EventDraft | Event) -> Emitted:
        """Emits the events, in order; returns what became of them."""
        ...


class ManualRead(StrEnum):
    """What `read_new` reads in a manual run."""

    RAISE = "raise"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Commit:
    """A visible write.

    Attributes:
        id: also the id of its event.
        partitions: the partitions it added, with bytes and rows of this commit alone.
        announced: whether its event was accepted or spooled. If not, the next use of the file set announces it.
    """

    id: str
    partitions: tuple[Partition, ...]
    announced: bool


class PartitionedFileSet:
    """A dataset as a folder of Parquet partitions. Any number of processes may write and read it concurrently."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        path: str | Path,
        *,
        emitter: Announcer | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Clock = _CLOCK,
        watch: Callable[[Phase], None] = lambda _: None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Does no I/O.

        Args:
            dataset: `namespace.name`, or a name in the run's namespace, outside runs in `default`.
            path: a folder that has this path in every process that uses the dataset, or a URL.
            emitter: None sends events to the installation of this process (`emit.destination`): that of its run,
                `STREAMSCHED_EMIT_URL`, or the `streamsched dev` of this folder or one above it. Without any, commits
                are visible but stay unannounced, with a warning, until a process that has one uses the file set.
            watch: called at each phase of a commit.
            storage_options: of a URL's storage, by `fsspec`; without any, it reads the environment.

        Raises:
            InvalidError: the dataset's name is invalid, or the path is a URL with one slash.
            ConfigurationError: a URL's storage is unknown, a package is missing, or the storage cannot create a file
                only if it is absent, so that the API is needed, and its URL is not known.
        """
        self._environ = os.environ if environ is None else environ
        self.dataset = (
            dataset if isinstance(dataset, DatasetRef) else DatasetRef.parse(dataset, namespace(self._environ))
        )
        self._emitter = emitter
        self._store: PosixStore | ObjectStore
        if "://" in str(path):
            storage = FolderStorage(str(path), storage_options)
            self.path: Path | str = storage.location
            self._store = ObjectStore(storage, dataset=self.dataset, clock=clock, watch=watch, environ=environ)
            return
        if _URL.match(str(path)):
            raise InvalidError("$.path", f"must be a folder, or a URL such as s3://lake/flights, but is '{path}'")
        self.path = Path(path).absolute()
        self._store = PosixStore(self.path, dataset=self.dataset, clock=clock, watch=watch)

    def write(
        self,
        df: DataFrame,
        *,
        partition_by: Sequence[str],
        mode: Mode | str = Mode.APPEND,
        commit_id: str | None = None,
    ) -> Commit:
        """Commits the rows of `df`, then emits one event with all partition keys; of more than 2,000, several events,
        so that each fits into a record of the log.

        Args:
            mode: `append` adds files to existing partitions, `overwrite_partitions` replaces those that `df` contains.
            commit_id: if the commit of this id is already visible, nothing is written and it is returned. Default:
                in a run, the job's for this write of the dataset (`RunContext.commit_id`), so that each attempt of the
                job has the same; elsewhere a random one, so that a repeated write is another commit.

        Returns:
            The commit; for an empty `df` one without partitions, for which no event is emitted.

        Raises:
            InvalidError: no list of partition columns, an unknown mode, or an invalid commit id.
            AttemptFencedError: a later attempt of this run's job has begun to write; nothing was committed.
            ConflictError: an earlier attempt's commit cannot be matched with this write; nothing was committed.
            RefusedError, ConfigurationError: the server refuses the event; the commit is visible.
            Any error of Spark: nothing becomes visible and no event is emitted.
        """
        partition_by = tuple(check_keys(partition_by, "$.partition_by"))
        if not partition_by:
            raise InvalidError("$.partition_by", "must name at least one column")
        if mode not in tuple(Mode):
            raise InvalidError("$.mode", f"must be one of {', '.join(Mode)} but is '{mode}'")
        mode = Mode(mode)
        with begun_write(self._environ, self.dataset, commit_id) as (write, writes):
            if writes is not None and writes.must_fence(str(self.path)):
                before = self._store.fence(writes.author)
                writes.note_fence(self.dataset, str(self.path), (each.author for each in before if not each.fence))
            self.settle()
            with self._store.stage(write) as staging:
                manifest = self._store.find(write.commit)
                if manifest is None:
                    df.write.partitionBy(*partition_by).parquet(self._store.uri(staging))
                    manifest = self._store.publish(write, Columns(df.schema.json(), partition_by), mode)
                if manifest is None:
                    return Commit(write.commit, (), announced=True)
                if manifest.work != write.work:
                    check_match(write, manifest, mode, partition_by)
                announced = self._store.is_announced(write.commit) or self._announce(manifest)
        return Commit(write.commit, tuple(each.partition() for each in manifest.partitions), announced)

    def partitions(self) -> tuple[Partition, ...]:
        """All visible partitions, sorted by key, with bytes and rows of all their commits."""
        self.settle()
        return tuple(each.partition for each in visible_partitions(self._commits()).values())

    def read(self, spark: SparkSession | None = None) -> DataFrame:
        """The rows of all visible partitions. `spark` None uses the active session.

        Raises:
            NotFoundError: nothing was committed yet, so there is no schema.
        """
        self.settle()
        return self._frame(spark, None)

    def read_partitions(self, spark: SparkSession | None, keys: Iterable[str]) -> DataFrame:
        """The rows of exactly these partitions, such as `day=2013-01-01`; an empty frame without keys.

        Raises:
            InvalidError: `keys` is a single string.
            NotFoundError: a key is not visible.
        """
        keys = tuple(check_keys(keys, "$.keys"))
        self.settle()
        return self._frame(spark, keys)

    def read_new(
        self, run: RunContext, spark: SparkSession | None = None, *, in_manual_run: ManualRead | str = ManualRead.RAISE
    ) -> DataFrame:
        """The rows of exactly the partitions that started this run, as they are now: including rows that later commits
        appended to them.

        Columns, including partition columns, have the types they were written with.

        Args:
            in_manual_run: what to read in a manual run (`run.triggered` is false), which has no new partitions: `raise`
                an error, `all` visible partitions, or `none`, an empty frame.

        Raises:
            ConflictError: the run is manual, and `in_manual_run` is `raise`.
            NotFoundError: a partition that started the run is not visible here: wrong folder, or another emitter.
        """
        if in_manual_run not in tuple(ManualRead):
            raise InvalidError("$.in_manual_run", f"must be one of {', '.join(ManualRead)} but is '{in_manual_run}'")
        if run.triggered:
            if not run.waits_for(self.dataset):
                log.warning(
                    "read_new: the schedule %s does not wait for dataset %s, so none of its partitions are new",
                    *(run.schedule, self.dataset),
                )
            return self.read_partitions(spark, [partition.key for partition in run.new_partitions(self.dataset)])
        match ManualRead(in_manual_run):
            case ManualRead.RAISE:
                raise ConflictError(
                    f"run {run.run_id} was started by hand, so no partitions of {self.dataset} started it and read_new "
                    'has nothing to read. Choose what to read then: read_new(run, spark, in_manual_run="all") reads '
                    'every partition, in_manual_run="none" none; or check run.triggered and call read_partitions('
                    "spark, keys)"
                )
            case ManualRead.ALL:
                return self.read(spark)
            case ManualRead.NONE:
                return self.read_partitions(spark, ())

    def consume(self, run: RunContext, spark: SparkSession | None = None, *, reader: str = "") -> DataFrame:
        """The rows of all commits that no successful run of this program has consumed, whatever started the run.

        They are consumed when the run completes. When it fails, the next one gets them too, with what came since; so
        runs of one program that consume must not overlap (`max_concurrent=1`). A second call in a run reads the same.

        Args:
            reader: the name of the consumer, by default the program; the bookmark is `consume.<reader>.<dataset>`.

        Raises:
            NotFoundError: nothing was committed yet; or the server does not know the run.
            ConflictError: another run of the reader completed meanwhile: call it again.
            UnavailableError, ConfigurationError: the server does not answer, or its URL is not known.
        """
        self.settle()
        manifests = self._commits()
        if not manifests:
            raise NotFoundError("dataset", f"{self.dataset} in {self.path}")
        bookmarks = BookmarkClient(api_url(self._environ), self._environ)
        name = f"consume.{reader or run.program}.{self.dataset}"
        value, revision, pending = bookmarks.get_by_run(name, run.run_id)
        limit = Consumed.all_of(manifests) if pending is None else Consumed.decode(pending)
        if pending is None:
            bookmarks.set_by_run(name, limit.encode(), revision, run.run_id)
        new = [manifest for manifest in Consumed.decode(value).select_new(manifests) if limit.has(manifest)]
        return self._frame_of(spark, manifests, visible_partitions(new))

    def vacuum(self, keep: timedelta = timedelta(days=7)) -> int:
        """Deletes files of a URL's file set that no partition has had for so long: what killed writers left, and what
        was overwritten. Returns how many. No write and no read may take as long.

        Raises:
            ConflictError: the file set is a folder of a POSIX filesystem, whose readers have no bound.
        """
        if isinstance(self._store, PosixStore):
            raise ConflictError(
                f"{self.path} is a folder, which has no vacuum: it has one as a URL, file://{self.path}"
            )
        return self._store.vacuum(keep)

    def fence(self, author: Author) -> None:
        """Fences the attempts of a job before the author's: none of their commits follows. For launchers, when the job
        is not continued; an attempt that writes does it by itself.

        Raises:
            AttemptFencedError: a later attempt has fenced.
            ConfigurationError, UnavailableError: the storage cannot be written.
        """
        self._store.fence(author)

    def settle(self) -> None:
        """Recovers after crashed writers: rolls back commits that are not visible, announces those that are.

        Every use calls it. A commit that cannot be announced now is logged and left to the next use, so that reading
        still works.
        """
        for commit in self._store.recover():
            log.warning("commit.rolled_back dataset=%s commit=%s", self.dataset, commit)
        if self._emitter is None and find_destination(self._environ) is None:
            return
        try:
            self._store.announce_missing(self._emit_late)
        except StreamschedError as exc:
            log.warning("commit.unannounced dataset=%s why=%s", self.dataset, exc)

    def _announce(self, manifest: Manifest) -> bool:
        try:
            self._emit(manifest)
        except UnavailableError as exc:
            log.warning("commit.unannounced dataset=%s commit=%s why=%s", self.dataset, manifest.commit, exc)
            return False
        self._store.mark_announced(manifest.commit)
        return True

    def _emit(self, manifest: Manifest) -> None:
        partitions = tuple(each.partition() for each in manifest.partitions)
        run = run_of(manifest.author)
        events = commit_events(manifest.dataset, partitions, event_id=manifest.commit, time=manifest.at, run=run)
        with nullcontext(self._emitter) if self._emitter else self._from_environment() as emitter:
            emitter.emit(*events)

    def _emit_late(self, manifest: Manifest) -> None:
        self._emit(manifest)
        log.warning("commit.announced_late dataset=%s commit=%s", self.dataset, manifest.commit)

    def _from_environment(self) -> Emitter:
        found = find_destination(self._environ)
        if found is None:
            raise UnavailableError(f"{NO_DESTINATION}; the next use of the file set announces the commit")
        return Emitter(found.url, source=f"/datasets/{self.dataset}", spool=found.spool, token=found.token)

    def _commits(self) -> list[Manifest]:
        """In commit order, without fences."""
        return [each for each in self._store.manifests() if not each.fence]

    def _frame(self, spark: SparkSession | None, keys: tuple[str, ...] | None) -> DataFrame:
        manifests = self._commits()
        if not manifests:
            raise NotFoundError("dataset", f"{self.dataset} in {self.path}")
        seen = visible_partitions(manifests)
        if missing := [key for key in keys or () if key not in seen]:
            raise NotFoundError("partition", f"{', '.join(missing)} of {self.dataset} in {self.path}")
        return self._frame_of(spark, manifests, seen if keys is None else {key: seen[key] for key in keys})

    def _frame_of(
        self, spark: SparkSession | None, manifests: Sequence[Manifest], chosen: Mapping[str, Visible]
    ) -> DataFrame:
        """The rows of these partitions, with the columns of all commits."""
        from pyspark.sql.types import StructType  # noqa: PLC0415 (a job that only emits events needs no PySpark)

        if not manifests:
            raise NotFoundError("dataset", f"{self.dataset} in {self.path}")
        schema = StructType.fromJson(_schema(manifests))
        session = spark or _active_session()
        files = [self._store.uri(file) for part in chosen.values() for file in part.files]
        if not files:
            return session.createDataFrame([], schema)
        frame = session.read.schema(schema).option("basePath", self._store.base).parquet(*files)
        return frame.select(*schema.names)


def _schema(manifests: Sequence[Manifest]) -> dict[str, object]:
    """The columns of all commits: those of the latest, followed by columns that only older ones have."""
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
