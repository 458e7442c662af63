"""Rows to write to a table: a Spark frame, or an Arrow table; and how they become Parquet files in its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from streamsched.domain.errors import InvalidError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

#: Partitions of one write of an Arrow table, at most.
_MOST_PARTITIONS: Final = 100_000
_TIMESTAMPS: Final = "spark.sql.parquet.outputTimestampType"
#: Of the columns by which Spark separates the partitions.
_BY: Final = "streamsched_by_"


@dataclass(frozen=True, slots=True)
class Rows:
    """One of both is not None."""

    spark: DataFrame | None = None
    arrow: pa.Table | None = None

    @classmethod
    def read(cls, given: Any) -> Rows:
        """Takes the rows of a Spark frame or an Arrow table.

        Raises:
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


def stage_for_iceberg(rows: Rows, folder: str, columns: Sequence[str]) -> list[str]:
    """Writes a Spark frame as Parquet files below a folder, each with the rows of one partition, and all columns in it.
    Returns their URIs.
    """
    frame = rows.spark
    assert frame is not None
    session = frame.sparkSession
    spark_folder = folder.replace("s3://", "s3a://", 1)
    schema = frame.schema
    for number, column in enumerate(columns):
        frame = frame.withColumn(f"{_BY}{number}", frame[column])
    before = session.conf.get(_TIMESTAMPS)
    session.conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")  # Iceberg has no others
    try:
        frame.write.partitionBy(*(f"{_BY}{number}" for number in range(len(columns)))).parquet(spark_folder)
    finally:
        session.conf.set(_TIMESTAMPS, str(before))
    found = session.read.schema(schema).parquet(spark_folder).inputFiles()
    return [unquote(uri).replace(spark_folder, folder, 1) for uri in found]
