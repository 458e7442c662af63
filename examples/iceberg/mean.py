"""The mean temperature of each station, of exactly the commits that started this run, in `<data>/means/<run>.csv`.

Spark needs none of Iceberg's jars for it: `read_new` reads the files of the commits without them.
"""

import argparse
import csv
from pathlib import Path

from catalog import TABLE, properties
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from streamsched import IcebergDataset, current_run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    data = parser.parse_args().data

    run = current_run()
    spark = SparkSession.builder.getOrCreate()
    readings = IcebergDataset("readings", TABLE, catalog="lake", options=properties(data)).read_new(run, spark)
    means = readings.groupBy("station").agg(f.count("*").alias("rows"), f.avg("celsius").alias("celsius"))
    table = means.orderBy("station").collect()
    days = ", ".join(partition.key for partition in run.new_partitions("readings"))
    print(f"run {run.run_id}: {sum(row['rows'] for row in table)} rows of {days}")

    # Named by the run: a run that is repeated writes the same file.
    (data / "means").mkdir(exist_ok=True)
    with (data / "means" / f"{run.run_id}.csv").open("w", newline="") as file:
        csv.writer(file).writerows([means.columns, *table])
    spark.stop()


if __name__ == "__main__":
    main()
