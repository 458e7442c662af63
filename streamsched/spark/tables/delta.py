"""A Delta Lake table as a dataset. Needs the extra `delta`; Spark and Delta's own jars only where Spark reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from streamsched.codec.delta import DeltaFile
from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.emit.draft import check_keys, hive_key
from streamsched.spark.context import RunContext
from streamsched.spark.manifest import Mode
from streamsched.spark.tables.dataset import TableDataset
from streamsched.spark.tables.delta_log import DeltaLog
from streamsched.spark.tables.delta_source import DeltaSource, unpartitioned_key
from streamsched.spark.tables.rows import Rows
from streamsched.spark.tables.table_log import WriteCallback
from streamsched.spark.tables.table_source import TableCommit
from streamsched.spark.writes.write import Author

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ID: Final = re.compile(r"delta-(\d+)-([0-9a-f]{16})")
_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://")


class DeltaDataset(TableDataset):
    """Writes, reads and announces commits of one table."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        location: str,
        *,
        storage_options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        watch: WriteCallback = lambda _: None,
    ) -> None:
        """Does no I/O.

        Args:
            dataset: `namespace.name`, or a name in the run's namespace, outside runs in `default`.
            location: a folder or URL.
            watch: called at each phase of a write.
            storage_options: those of `deltalake`; without any, it reads the environment.

        Raises:
            InvalidError: the dataset's name is invalid.
        """
        self._source = DeltaSource(location, storage_options)
        super().__init__(dataset, self._source, environ, watch)

    def write(
        self,
        rows: DataFrame | pa.Table,
        *,
        partition_by: Sequence[str] = (),
        mode: Mode | str = Mode.APPEND,
        commit_id: str | None = None,
    ) -> TableCommit | None:
        """Commits the rows as one version of the table, and announces it, once. Creates the table when there is none.
        Spark needs no jars of Delta Lake: it writes Parquet files into the table's folder.

        Args:
            rows: a Spark frame, or an Arrow table, which needs no Spark.
            partition_by: the partition columns of a new table; of one that exists, those or none.
            mode: `append`, or `overwrite_partitions`, which replaces the partitions that the rows have.
            commit_id: if the commit of this id is already in the table, nothing is written and it is returned. Default:
                as of `PartitionedFileSet.write`.

        Returns:
            The commit, whose id is that of its event; None without rows.

        Raises:
            InvalidError: an unknown mode, or an invalid commit id, or rows that do not fit to the table.
            AttemptFencedError: a later attempt of this run's job has begun to write; nothing was committed.
            ConflictError: an earlier attempt's commit cannot be matched with this write; nothing was committed.
            ConfigurationError: the table has constraints, mapped or generated columns, which this cannot keep; or as
                `to_arrow`.
            UnavailableError: the storage does not answer; the rows may be committed: the same commit id again finds
                them.
        """
        columns = check_keys(partition_by, "$.partition_by")
        log = DeltaLog(self._source, self.dataset, Rows.read(rows), tuple(columns))
        return self._write(log, mode, commit_id)

    def fence(self, author: Author) -> None:
        """As `PartitionedFileSet.fence`.

        Raises:
            NotFoundError: there is no such table yet.
            AttemptFencedError, ConfigurationError, UnavailableError: as there.
        """
        self._source.open()
        DeltaLog(self._source, self.dataset, Rows(), ()).fence(author)

    def new_files(self, run: RunContext) -> tuple[DeltaFile, ...]:
        """The data files that the commits which started this run added to the partitions that counted.

        Raises:
            ConflictError: the run was started by hand.
            NotFoundError: a commit is not in the table's log any more; then read its partitions as they are now.
        """
        found: list[DeltaFile] = []
        for name, keys in self.new_commits(run).items():
            version = _ID.fullmatch(name)
            if version is None:
                hint = "it stands for versions whose log was cleaned up, or another program emitted it"
                raise NotFoundError("commit", f"{name} of {self._source.location}", hint=hint)
            commit = self._source.read(int(version[1]), version[2])
            alone = unpartitioned_key(commit.version)
            found += (file for file in commit.added if (hive_key(file.values) or alone) in keys)
        return tuple(found)

    def to_arrow(self, run: RunContext) -> pa.Table:
        """The rows of `new_files`, with the columns of the newest version of the table. Without Spark, in memory.

        Raises:
            NotFoundError, ConflictError: as `new_files`; or a file was vacuumed.
            ConfigurationError: the table maps columns or has deletion vectors, which this cannot read.
        """
        import pyarrow as pa  # noqa: PLC0415 (comes with an extra)
        from pyarrow.dataset import FileSystemDataset, ParquetFileFormat  # noqa: PLC0415

        files, table = self.new_files(run), self._readable_table(run)
        schema = pa.schema(table.schema().to_arrow())
        filesystem, form = self._source.filesystem(), ParquetFileFormat()
        fragments = [
            form.make_fragment(file.path, filesystem=filesystem, partition_expression=_holds(file, schema))
            for file in files
        ]
        try:
            return FileSystemDataset(fragments, schema, form, filesystem).to_table()
        except FileNotFoundError as exc:
            raise NotFoundError("data file", str(exc), hint="the table was vacuumed") from exc

    def read_new(self, run: RunContext, spark: SparkSession) -> DataFrame:
        """The rows of `new_files` in Spark, which reads them as Parquet and needs no jars of Delta Lake.

        Raises:
            NotFoundError, ConflictError, ConfigurationError: as `to_arrow`.
        """
        import orjson  # noqa: PLC0415
        from pyspark.sql import DataFrame  # noqa: PLC0415
        from pyspark.sql.types import StructType  # noqa: PLC0415

        files, table = self.new_files(run), self._readable_table(run)
        schema = StructType.fromJson(orjson.loads(table.schema().to_json()))
        root = self._source.spark_root
        place = {file.path: file.path if _URL.match(file.path) else f"{root}/{file.path}" for file in files}
        if not files:
            return spark.createDataFrame([], schema)
        if all(_named_by_spark(file) for file in files):
            frame = spark.read.schema(schema).option("basePath", root).parquet(*place.values())
            return frame.select(*schema.names)
        found = [_of_one_partition(spark, schema, group, place) for group in _by_partition(files)]
        return reduce(DataFrame.unionByName, found)

    def _readable_table(self, run: RunContext) -> DeltaTable:
        table = self._source.open()
        features = {*(table.protocol().reader_features or ()), *_old_features(table)}
        if refused := sorted(features & {"columnMapping", "deletionVectors"}):
            raise ConfigurationError(
                f"{self._source.location} uses {' and '.join(refused)}, with which the files of a commit are not its "
                f"rows: read the table in Delta Lake's own way, at the versions of new_commits(run) of run {run.run_id}"
            )
        return table


def _old_features(table: DeltaTable) -> tuple[str, ...]:
    """Features that tables of older protocols have by a property."""
    mode = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    return () if mode == "none" else ("columnMapping",)


def _named_by_spark(file: DeltaFile) -> bool:
    """Whether Spark reads the partition values from the file's folder. delta-rs escapes more than Spark does, other
    writers have folders without values.
    """
    folder = file.path.rpartition("/")[0]
    read: dict[str, str] = {}
    for part in folder.split("/"):
        name, _, value = part.partition("=")
        if part:
            read[name] = value
    values = {name: _ESCAPE.sub(lambda found: chr(int(found[1], 16)), value) for name, value in read.items()}
    return not _URL.match(file.path) and values == dict(file.values)


def _by_partition(files: Iterable[DeltaFile]) -> list[list[DeltaFile]]:
    found: dict[str, list[DeltaFile]] = {}
    for file in files:
        found.setdefault(hive_key(file.values), []).append(file)
    return list(found.values())


def _of_one_partition(
    spark: SparkSession, schema: StructType, files: Sequence[DeltaFile], place: Mapping[str, str]
) -> DataFrame:
    """The rows of files with the same partition values, which are given as constants."""
    from pyspark.sql.functions import lit  # noqa: PLC0415
    from pyspark.sql.types import StructType as Struct  # noqa: PLC0415

    values = files[0].values
    stored = Struct([field for field in schema.fields if field.name not in values])
    frame = spark.read.schema(stored).parquet(*(place[file.path] for file in files))
    for name, value in values.items():
        frame = frame.withColumn(name, lit(value).cast(schema[name].dataType))
    return frame.select(*schema.names)


def _holds(file: DeltaFile, schema: pa.Schema) -> Any:
    """The expression that gives a file's rows their partition columns; None without such columns."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.compute as pc  # noqa: PLC0415

    whole = None
    for name, value in file.values.items():
        column, kind = pc.field(name), schema.field(name).type
        if not value and not (value == "" and pa.types.is_string(kind)):
            part = column.is_null()
        elif pa.types.is_timestamp(kind) and kind.tz:
            naive = pa.scalar(value.removesuffix("Z")).cast(pa.timestamp(kind.unit))
            part = column == pc.call_function("assume_timezone", [naive], pc.AssumeTimezoneOptions("UTC")).cast(kind)
        else:
            part = column == pa.scalar(value).cast(kind)
        whole = part if whole is None else whole & part
    return whole
