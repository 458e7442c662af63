"""The datasets of this example on either lake: partitioned file sets in folders (`files`), or Delta tables (`delta`).

Both have `write`, which makes partitions visible at once and announces them, and `read_new`, which reads exactly what
started a run.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from streamsched import DeltaDataset, PartitionedFileSet
from streamsched.spark.context import RunContext

#: What Spark needs to read whole Delta tables; it downloads the jars once, and they are for one minor version of Spark.
DELTA = {
    "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
LAKES = ("files", "delta")


class DeltaTable:
    """A Delta table with the methods of a partitioned file set that this example uses."""

    def __init__(self, dataset: str, path: Path) -> None:
        self._path = str(path)
        self._dataset = DeltaDataset(dataset, self._path)

    def write(self, df: DataFrame, *, partition_by: Sequence[str], mode: str = "append") -> Any:
        """See `DeltaDataset.write`."""
        return self._dataset.write(df, partition_by=partition_by, mode=mode)

    def read_new(self, run: RunContext) -> DataFrame:
        return self._dataset.read_new(run, SparkSession.builder.getOrCreate())

    def read(self, spark: SparkSession) -> DataFrame:
        return spark.read.format("delta").load(self._path)


def dataset(name: str, data: Path, lake: str) -> PartitionedFileSet | DeltaTable:
    """The dataset of this name, in a folder of `data`."""
    return DeltaTable(name, data / name) if lake == "delta" else PartitionedFileSet(name, data / name)
