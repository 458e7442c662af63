"""An Iceberg table as a dataset. Needs the extra `iceberg`; no Spark."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from streamsched.domain.errors import NotFoundError
from streamsched.domain.names import DatasetRef
from streamsched.emit.draft import hive_key
from streamsched.spark.context import RunContext
from streamsched.spark.tables.dataset import TableDataset
from streamsched.spark.tables.iceberg_source import IcebergSource, unpartitioned

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame, SparkSession

_ID: Final = re.compile(r"iceberg-(\d+)-([0-9a-f]{8}-[0-9a-f-]+)")


class IcebergDataset(TableDataset):
    """Reads and announces snapshots of one table."""

    def __init__(
        self,
        dataset: str | DatasetRef,
        table: str | Table,
        *,
        catalog: str = "",
        options: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Does no I/O. `table`, `catalog` and `options` as of `IcebergSource`.

        Raises:
            InvalidError: the dataset's name is invalid.
        """
        self._source = IcebergSource(table, catalog=catalog, options=options)
        super().__init__(dataset, self._source, environ)

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
            alone = unpartitioned(snapshot.snapshot_id)
            added = self._source.added(table, snapshot)
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
