"""Two programs and two schedules: a join for every seven new days of both inputs, a report after every successful join.

FLIGHTS_DATA=/data/flights streamsched deploy examples/flights/app.py
"""

import os
from pathlib import Path

from streamsched import App, partitions, program

DATA = str(Path(os.environ.get("FLIGHTS_DATA", "flights-data")).resolve())
LAKE = os.environ.get("LAKE", "files")  # or delta

# For a few thousand rows on a laptop: the JVM's start dominates such a job, and these options halve it.
SMALL = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

if LAKE == "delta":
    SMALL |= {
        "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }

app = App("flights")
join = app.spark("join", main="join.py", arguments=["--data", "{data}", "--lake", "{lake}"], conf=SMALL)
report = app.spark("report", main="report.py", conf=SMALL)

# Seven new days of each input, from any writer, in any order, in one commit or in seven. Paired: an eighth day that
# comes early stays for the next join.
app.schedule(
    "weekly-join",
    join,
    when=partitions("flights", 7) & partitions("weather", 7),
    consumption="paired",
    properties={"data": DATA, "lake": LAKE},
    description="delay by wind and visibility, for exactly the days that are new",
)

# Triggered by a successful run, not by partitions. Only one report runs at a time; the next one waits.
app.schedule(
    "weekly-report",
    report,
    when=program(join, "succeeded"),
    max_concurrent=1,
    description="a picture and a table of all weeks joined so far",
)
