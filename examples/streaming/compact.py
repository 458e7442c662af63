"""Small files of the stream become one partition of a file set. Started when the stream has grown by enough."""

import argparse
import shutil
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from streamsched import PartitionedFileSet, current_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data

    run = current_run()
    print(f"run {run.run_id}: the stream has grown by {run.growth('clicks')} bytes")
    spark = SparkSession.builder.getOrCreate()
    compacted = PartitionedFileSet("compacted", data / "compacted")
    # A batch is whole when Spark has written its marker. What an earlier run has compacted and could not delete, or
    # Spark has written again since, is known by its number.
    upto = max((int(part.values["upto"]) for part in compacted.partitions()), default=-1)
    whole = {int(marker.parent.name.partition("=")[2]): marker.parent for marker in data.glob("raw/batch=*/_SUCCESS")}
    if new := sorted(batch for batch in whole if batch > upto):
        rows = spark.read.parquet(*(str(whole[batch]) for batch in new))
        compacted.write(rows.withColumn("upto", f.lit(new[-1])).coalesce(1), partition_by=["upto"])
    for folder in whole.values():
        shutil.rmtree(folder)
    print(f"compacted {len(new)} batches")
    spark.stop()


if __name__ == "__main__":
    main()
