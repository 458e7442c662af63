"""An Iceberg table as a dataset. Needs the extra `iceberg`; no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.emit.draft import hive_key
from streamsched.spark.context import RunContext
from streamsched.spark.manifest import Mode
from streamsched.spark.tables.dataset import TableDataset
from streamsched.spark.tables.iceberg_log import IcebergLog
from streamsched.spark.tables.iceberg_source import IcebergSource, unpartitioned_key
from streamsched.spark.tables.rows import Rows
from streamsched.spark.tables.table_log import WriteCallback
from streamsched.spark.tables.table_source import TableCommit
from streamsched.spark.writes.write import Author

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

_ID: Final = re.compile(r"iceberg-(\d+)-([0-9a-f]{8}-[0-9a-f-]+)")


class IcebergDataset(TableDataset):
    """Writes, reads and announces snapshots of one table."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        table: str | Table,
        *,
        catalog: str = "",
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        watch: WriteCallback = lambda _: None,
    ) -> None:
        """Does no I/O. `table`, `catalog` and `options` as of `IcebergSource`; `watch` is called at each phase of a
        write.

        Raises:
            InvalidError: the dataset's name is invalid.
        """
        self._source = IcebergSource(table, catalog=catalog, options=options)
        super().__init__(dataset, self._source, environ, watch)

    def write(
        self, rows: DataFrame | pa.Table, *, mode: Mode | str = Mode.APPEND, commit_id: str | None = None
    ) -> TableCommit | None:
        """Commits the rows to a table that exists, and announces the snapshot, once. Spark needs no jars of Iceberg: it
        writes Parquet files into the table's folder.

        Args:
            rows: a Spark frame, or an Arrow table, which needs no Spark.
            mode: `append`, or `overwrite_partitions`, which replaces the partitions that the rows have.
            commit_id: if the commit of this id is already in the table, nothing is written and it is returned. Default:
                as of `PartitionedFileSet.write`.

        Returns:
            The commit, whose id is that of its event; None without rows.

        Raises:
            InvalidError: an unknown mode, or an invalid commit id, or rows that do not fit to the table.
            AttemptFencedError: a later attempt of this run's job has begun to write; nothing was committed.
            ConflictError: an earlier attempt's commit cannot be matched with this write, or snapshots expired while it
                ran; nothing was committed.
            NotFoundError: there is no such table.
            ConfigurationError: the table is read without a catalog; or it is partitioned by transforms, by which only
                Arrow tables are appended.
            UnavailableError: the storage or the catalog does not answer; the rows may be committed: the same commit id
                again finds them.
        """
        return self._write(IcebergLog(self._source, Rows.read(rows)), mode, commit_id)

    def fence(self, author: Author) -> None:
        """As `PartitionedFileSet.fence`.

        Raises:
            NotFoundError: there is no such table yet.
            AttemptFencedError, ConfigurationError, UnavailableError: as there.
        """
        IcebergLog(self._source, Rows()).fence(author)

    def new_files(self, run: RunContext) -> tuple[DataFile, ...]:
        """The data files that the snapshots which started this run added to the partitions that counted.

        Raises:
            ConflictError: the run was started by hand.
            NotFoundError: a snapshot expired; then read its partitions as they are now.
        """
        table, found = self._source.open(), []
        for name, keys in self.new_commits(run).items():
            given = _ID.fullmatch(name)
            snapshot = None if given is None else table.snapshot_by_id(int(given[1]))
            if given is None or snapshot is None or given[2] != str(table.metadata.table_uuid):
                hint = "it expired, the table was made anew, or another program emitted it"
                raise NotFoundError("snapshot", f"{name} of {self._source.location}", hint=hint)
            alone = unpartitioned_key(snapshot.snapshot_id)
            added = self._source.added_files(table, snapshot)
            found += (data for file, data in added if (hive_key(file.values) or alone) in keys)
        return tuple(found)

    def to_arrow(self, run: RunContext) -> pa.Table:
        """The rows of `new_files`, with the columns that the table has now. Without Spark, in memory.

        Raises:
            NotFoundError, ConflictError: as `new_files`; or a file was removed.
        """
        from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 (comes with an extra)
        from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415
        from pyiceberg.table import FileScanTask  # noqa: PLC0415

        files, table = self.new_files(run), self._source.open()
        scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
        try:
            return scan.to_table([FileScanTask(file) for file in files])
        except FileNotFoundError as exc:
            raise NotFoundError("data file", str(exc), hint="the table's old files were removed") from exc

    def read_new(self, run: RunContext, spark: SparkSession) -> DataFrame:
        """The rows of `to_arrow` in Spark: they pass through the memory of the driver. For more than that, read the
        snapshots of `new_commits` with Iceberg's own jars.
        """
        return spark.createDataFrame(self.to_arrow(run))
