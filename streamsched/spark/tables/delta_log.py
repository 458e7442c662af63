"""Writes to a Delta Lake table: data files beside the table's own, and a version of its log that names them.

    <table>/<work>/day=2013-01-01/…             data, in place; <work> is of one write: <commit>.<random>
    <table>/_delta_log/<version>.json           created if it is absent: the commit point

A version has two `txn` actions: of the commit's id, by which a repeated attempt finds it, and of the job with the
number of the attempt, which is its fence. A version that is taken is read, checked, and followed by the next: nothing
is rebased on what was not checked. No jars of Delta Lake are needed: Spark writes Parquet, and `deltalake` commits it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import orjson

from streamsched.codec.delta import DeltaCommit
from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import ConfigurationError, ConflictError, InvalidError, NotFoundError, UnavailableError
from streamsched.domain.names import DatasetRef
from streamsched.emit.draft import hive_values
from streamsched.ports.clock import Clock, SystemClock
from streamsched.spark.manifest import Mode
from streamsched.spark.tables.delta_source import DeltaSource, added_files
from streamsched.spark.tables.rows import Rows, stage
from streamsched.spark.tables.table_log import WriteCallback, WritePhase, WrittenCommit
from streamsched.spark.writes.write import Author, Write, commit_of_job

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.schema import Schema
    from deltalake.transaction import AddAction, RemoveAction

_CLOCK: Final = SystemClock()
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
#: Ordinals without a commit after which no more commits of a job are looked for.
_GAP: Final = 100
#: Properties of columns and features of tables that only a writer keeps who sees the rows.
_COLUMN_RULES: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.start")


class DeltaLog:
    """Writes commits into the log of a Delta table, as `table_log.TableLog`."""

    def __init__(
        self,
        source: DeltaSource,
        dataset: DatasetRef,
        rows: Rows,
        partition_by: Sequence[str],
        clock: Clock = _CLOCK,
    ) -> None:
        """Does no I/O."""
        self._source = source
        self._dataset = dataset
        self._rows = rows
        self._clock = clock
        self._partition_by = list(partition_by)

    def fence(self, author: Author) -> Sequence[Author]:
        """Has every later commit of an earlier attempt fail; returns the authors of the job's commits."""
        while True:
            table = self._open()
            if table is None:
                self._create(author)
                continue
            fence = table.transaction_version(_job(author.job)) or 0
            author.check_fence(fence)
            if fence == author.attempt or self._add(table, [], self._properties(author)):
                return self._committed_authors(table, author)

    def find(self, commit: str) -> WrittenCommit | None:
        """What the commit with this id wrote; None when it is not there."""
        table = self._open()
        return None if table is None else self._find(table, commit)

    def publish(self, write: Write, mode: Mode, watch: WriteCallback) -> WrittenCommit | None:
        """Commits the files of the write in one step; None when there was nothing to commit. A commit id that is there
        already is not committed again.
        """
        table = self._open()
        if table is None:
            self._create(None)
            table = self._open_existing()
        self._check(table, mode)
        with self._write_files(write, table.metadata().partition_columns) as files:
            watch(WritePhase.STAGED)
            if not files:
                return None
            while True:
                table = self._open_existing()
                if (found := self._find(table, write.commit)) is not None:
                    return found
                if write.author is not None:
                    write.author.check_fence(table.transaction_version(_job(write.author.job)) or 0)
                self._check(table, mode)
                actions: list[AddAction | RemoveAction] = [*files]
                if mode is Mode.OVERWRITE_PARTITIONS:
                    actions += _replaced_files(table, files, self._now_ms)
                watch(WritePhase.CHECKED)
                write.kept = True
                if self._add(table, actions, self._properties(write.author, write, mode)):
                    watch(WritePhase.COMMITTED)
                    return self._written_commit(table.version() + 1)
                write.kept = False

    def _open(self) -> DeltaTable | None:
        """The table as it is now; None before it is created."""
        try:
            return self._source.open()
        except NotFoundError:
            return None

    def _open_existing(self) -> DeltaTable:
        return self._source.open()

    def _create(self, fence: Author | None) -> None:
        """Creates the table without rows. When another process was faster, nothing is changed."""
        from deltalake.exceptions import DeltaError  # noqa: PLC0415 (comes with an extra)
        from deltalake.transaction import create_table_with_add_actions  # noqa: PLC0415

        self._source.make_folder()
        with self._source.translate_errors():
            try:
                create_table_with_add_actions(
                    *(self._source.location, self._schema(), []),
                    partition_by=self._partition_by,
                    storage_options=dict(self._source.options),
                    commit_properties=None if fence is None else self._properties(fence),
                )
            except DeltaError:
                if self._open() is None:
                    raise

    def _add(self, table: DeltaTable, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> bool:
        """Adds the version that follows the table's; False when there is one."""
        from deltalake.exceptions import CommitFailedError  # noqa: PLC0415

        with self._source.translate_errors():
            try:
                table.create_write_transaction(
                    actions, "append", table.schema(), table.metadata().partition_columns, commit_properties=properties
                )
            except CommitFailedError as exc:
                if self._open_existing().version() > table.version():
                    return False
                raise UnavailableError(f"{self._source.location}: {exc}") from exc
        return True

    def _committed_authors(self, table: DeltaTable, author: Author) -> list[Author]:
        """The authors of the job's commits."""
        found: list[Author] = []
        ordinal, last = 1, 0
        while ordinal <= last + _GAP:
            attempt = table.transaction_version(_commit(commit_of_job(author.job, self._dataset, ordinal)))
            if attempt is not None:
                found.append(Author(author.job, attempt, ordinal))
                last = ordinal
            ordinal += 1
        return found

    def _find(self, table: DeltaTable, commit: str) -> WrittenCommit | None:
        if table.transaction_version(_commit(commit)) is None:
            return None
        for version in range(table.version(), -1, -1):
            found = self._source.version(version)
            if found is None:
                break
            if _commit(commit) in found.transactions:
                return self._written_commit(version, found)
        raise ConflictError(f"{self._source.location} has commit {commit}, in a version that its log has no more")

    def _written_commit(self, version: int, found: DeltaCommit | None = None) -> WrittenCommit:
        known = found or self._source.version(version)
        commit = self._source.commit(version)
        if known is None or commit is None:
            raise NotFoundError("version", f"{version} of {self._source.location}", hint="it was cleaned up")
        fields = Fields(known.streamsched)
        job, attempt = fields.optional_text("job"), fields.optional_integer("attempt") or 1
        ordinal, ordered = fields.optional_integer("ordinal") or 0, fields.optional_value("ordered") is not False
        author = Author(job, attempt, ordinal, ordered) if job else None
        return WrittenCommit(
            commit, fields.choice("mode", Mode), author, fields.text("work"), self._source.position(version - 1)
        )

    @contextmanager
    def _write_files(self, write: Write, columns: Sequence[str]) -> Iterator[list[AddAction]]:
        """The rows as data files. When the block ends without a commit, they are deleted."""
        with self._source.translate_errors():
            filesystem = self._source.filesystem()
            try:
                stage(self._rows, filesystem, self._source.spark_root, write.work, columns)
                yield _adds(filesystem, write.work, self._now_ms)
            finally:
                if not write.kept:
                    with suppress(OSError):
                        for path in _paths(filesystem, write.work):
                            filesystem.delete_file(path)

    @property
    def _now_ms(self) -> int:
        """In milliseconds."""
        return int(self._clock.now().timestamp() * 1000)

    def _properties(
        self, author: Author | None, write: Write | None = None, mode: Mode = Mode.APPEND
    ) -> CommitProperties:
        """Of one version: what it says of itself, and that it is not to be moved to a later number."""
        from deltalake import CommitProperties as Properties  # noqa: PLC0415
        from deltalake import Transaction  # noqa: PLC0415

        now = self._now_ms
        transactions: list[Transaction] = []
        said: dict[str, Any] = {}
        if author is not None:
            transactions.append(Transaction(_job(author.job), author.attempt, now))
            said = {
                "job": author.job,
                "attempt": author.attempt,
                "ordinal": author.ordinal,
                "ordered": author.ordered,
            }
        named: dict[str, Any] = {}
        if write is not None:
            transactions.append(Transaction(_commit(write.commit), 1 if author is None else author.attempt, now))
            said |= {"commit": write.commit, "work": write.work, "mode": str(mode)}
            named["userMetadata"] = write.commit
        return Properties({"streamsched": said, **named}, max_commit_retries=0, app_transactions=transactions)

    def _schema(self) -> Schema:
        from deltalake.schema import Schema as DeltaSchema  # noqa: PLC0415

        if self._rows.spark is not None:
            return DeltaSchema.from_json(self._rows.spark.schema.json())
        return DeltaSchema.from_arrow(self._rows.schema)

    def _check(self, table: DeltaTable, mode: Mode) -> None:
        metadata, place = table.metadata(), self._source.location
        if self._partition_by and self._partition_by != metadata.partition_columns:
            wanted = ", ".join(metadata.partition_columns) or "no column"
            raise InvalidError("$.partition_by", f"must be that of {place}, which is partitioned by {wanted}")
        if mode is Mode.OVERWRITE_PARTITIONS and not metadata.partition_columns:
            raise InvalidError("$.mode", f"{place} has no partitions to overwrite")
        features = {*(table.protocol().writer_features or ())}
        refused = sorted(name for name in metadata.configuration if name.startswith("delta.constraints."))
        refused += [name for name in ("columnMapping", "identityColumns", "rowTracking") if name in features]
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            refused.append("delta.columnMapping.mode")
        if mode is Mode.OVERWRITE_PARTITIONS and "deletionVectors" in features:
            refused.append("deletionVectors")
        known = {field.name: field for field in table.schema().fields}
        refused += [rule for field in known.values() for rule in _COLUMN_RULES if rule in field.metadata]
        if refused:
            raise ConfigurationError(
                f"{place} has {', '.join(refused)}, which this cannot keep: write it by Delta Lake's own means, and "
                "call announce() then"
            )
        given = {field.name: field for field in self._schema().fields}
        for name, field in given.items():
            if name not in known:
                raise InvalidError("$.rows", f"column {name} is not in {place}")
            if _type(field) != _type(known[name]):
                raise InvalidError("$.rows", f"column {name} is {_type(field)}, and in {place} {_type(known[name])}")
        for name, field in known.items():
            if name not in given and (name in metadata.partition_columns or not field.nullable):
                raise InvalidError("$.rows", f"column {name} of {place} is missing")


def _job(job: str) -> str:
    return f"streamsched.job:{job}"


def _commit(commit: str) -> str:
    return f"streamsched.commit:{commit}"


def _adds(filesystem: Any, work: str, now: int) -> list[AddAction]:
    """The staged files with their partition values and rows; others, such as Spark's marks, are deleted."""
    import pyarrow.parquet as pq  # noqa: PLC0415
    from deltalake.transaction import AddAction as Add  # noqa: PLC0415

    found: list[AddAction] = []
    for path, size in _paths(filesystem, work).items():
        if not path.endswith(".parquet"):
            filesystem.delete_file(path)
            continue
        with filesystem.open_input_file(path) as file:
            rows = pq.read_metadata(file).num_rows
        if not rows:
            filesystem.delete_file(path)
            continue
        key = path.removeprefix(f"{work}/").rpartition("/")[0]
        values = {name: None if value == _NULL else value for name, value in hive_values(key).items()}
        stats = orjson.dumps({"numRecords": rows}).decode()
        found.append(Add(path, size, values, now, True, stats))
    return found


def _paths(filesystem: Any, folder: str) -> dict[str, int]:
    """All files below a folder, with their bytes."""
    from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415

    listed = filesystem.get_file_info(FileSelector(folder, recursive=True, allow_not_found=True))
    return {info.path: info.size for info in listed if info.type == FileType.File}


def _replaced_files(table: DeltaTable, files: Sequence[AddAction], now: int) -> list[RemoveAction]:
    """The files of the table in the partitions of these files."""
    from deltalake.transaction import RemoveAction as Remove  # noqa: PLC0415

    touched = {_values(file.partition_values) for file in files}
    return [
        Remove(unquote(path), True, now, file.bytes, dict(file.values))
        for path, file in added_files(table).items()
        if _values(file.values) in touched
    ]


def _values(values: Mapping[str, str | None]) -> frozenset[tuple[str, str | None]]:
    return frozenset(values.items())


def _type(field: Any) -> str:
    found = orjson.loads(field.type.to_json())
    return found if isinstance(found, str) else orjson.dumps(found).decode()
