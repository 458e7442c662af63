"""Rows to write to a table: a Spark frame, or an Arrow table; and how they become Parquet files in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

#: Partitions of one write of an Arrow table, at most.
_MOST_PARTITIONS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Rows:
    """One of both is not None."""

    spark: DataFrame | None = None
    arrow: pa.Table | None = None

    @classmethod
    def of(cls, given: Any) -> Rows:
        """Raises:
        InvalidError: it is neither a Spark frame nor an Arrow table.
        """
        import pyarrow as pa  # noqa: PLC0415 (comes with an extra)

        if isinstance(given, pa.Table):
            return cls(arrow=given)
        if hasattr(given, "sparkSession"):
            return cls(spark=given)
        raise InvalidError("$.rows", f"must be a Spark DataFrame or a pyarrow.Table but is {type(given).__name__}")

    @property
    def schema(self) -> pa.Schema:
        """Of an Arrow table."""
        assert self.arrow is not None
        return self.arrow.schema


def stage(rows: Rows, filesystem: FileSystem, spark_root: str, folder: str, columns: Sequence[str]) -> None:
    """Writes the rows as Parquet files below a folder of the table, in Hive's layout by the partition columns, which
    are not in the files.
    """
    if rows.spark is not None:
        rows.spark.write.partitionBy(*columns).parquet(f"{spark_root}/{folder}")
        return
    import pyarrow.dataset as ds  # noqa: PLC0415

    table = rows.arrow
    assert table is not None
    if not table.num_rows:
        return
    partitioning = None
    if columns:
        import pyarrow as pa  # noqa: PLC0415

        partitioning = ds.partitioning(pa.schema([table.schema.field(name) for name in columns]), flavor="hive")
    ds.write_dataset(
        table,
        folder,
        filesystem=filesystem,
        format="parquet",
        partitioning=partitioning,
        create_dir=False,
        max_partitions=_MOST_PARTITIONS,
    )
