"""A Spark job for every two commits to an Iceberg table.

ICEBERG_DATA=/data/iceberg streamsched deploy examples/iceberg/app.py
"""

import os
from pathlib import Path

from streamsched import App, partitions

DATA = str(Path(os.environ.get("ICEBERG_DATA", "iceberg-data")).resolve())

# For a few rows on a laptop: the JVM's start dominates such a job.
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

app = App("readings")
mean = app.spark("mean", main="mean.py", arguments=["--data", "{data}"], conf=SMALL)

# Not distinct: two commits to one day are both read.
app.schedule(
    "two-commits",
    mean,
    when=partitions("readings", 2, distinct=False),
    properties={"data": DATA},
    description="the mean temperature, of exactly the commits that are new",
)
