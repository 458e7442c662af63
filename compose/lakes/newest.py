"""Reads and writes file sets with the newest Spark of all, which is downloaded once (450 MB) beside the pinned one.

    make newest-spark                                     # ARGS="--version 4.2.0": with another one

The last line: `file sets read and written with PySpark 4.3.0`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from compose.downloads import MissingError
from compose.lakes.distribution import NEWEST_SPARK, cache_folder, spark_folder

_ROOT: Final = Path(__file__).parents[2]
_PROGRAM: Final = """
import sys

import pyspark
from pyspark.sql import SparkSession

from streamsched.spark.pfs import PartitionedFileSet

version, folder = sys.argv[1:]
assert pyspark.__version__ == version, (pyspark.__version__, pyspark.__file__)
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .getOrCreate()
)
for place in (f"{folder}/path", f"file://{folder}/url"):
    flights = PartitionedFileSet("flights", place)
    frame = spark.createDataFrame([("2026-01-01", 1), ("2026-01-02", 2)], "day string, n int")
    flights.write(frame, partition_by=["day"])
    flights.write(frame.where("n = 1"), partition_by=["day"], mode="overwrite_partitions")
    flights.write(frame.withColumn("n", frame.n + 10).where("n > 11"), partition_by=["day"])
    read = sorted(row.n for row in flights.read(spark).collect())
    assert read == [1, 2, 12], read
    read = sorted(row.n for row in flights.read_partitions(spark, ["day=2026-01-02"]).collect())
    assert read == [2, 12], read
print(f"file sets read and written with PySpark {spark.version}")
spark.stop()
"""


def smoke(version: str) -> int:
    """The exit code of the program in a process with PySpark of this version. Its events go to a spool that is deleted.

    Raises:
        MissingError: PySpark cannot be downloaded.
    """
    folder = spark_folder(version, cache_folder(os.environ))
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "STREAMSCHED_", "PYTHON"))
    }
    with tempfile.TemporaryDirectory() as scratch:
        environ = {
            **kept,
            "PYTHONPATH": f"{folder}:{_ROOT}",
            "STREAMSCHED_EMIT_URL": "http://127.0.0.1:9",
            "STREAMSCHED_SPOOL": f"{scratch}/spool",
        }
        command = (sys.executable, "-c", _PROGRAM, version, scratch)
        return subprocess.run(command, env=environ, cwd=scratch, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", default=NEWEST_SPARK)
    try:
        return smoke(parser.parse_args().version)
    except MissingError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main())
