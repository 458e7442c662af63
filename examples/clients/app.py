"""Airlines, a day at a time: one line of `depends_on` for all days and airlines.

CLIENTS_DATA=/data/clients streamsched deploy examples/clients/app.py
"""

import os
from pathlib import Path

from streamsched import App

DATA = str(Path(os.environ.get("CLIENTS_DATA", "clients-data")).resolve())
CLIENTS = os.environ.get("CLIENTS", "UA,B6").split(",")
DAYS = ["20130301", "20130302"]

# For a few hundred rows on a laptop: the JVM's start dominates such a job.
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}

app = App("clients")
land = app.python("land", "steps:land")
delays = app.spark("delays", pymodule="delays", master="local[1]", conf=SMALL)
report = app.python("report", "steps:report")
profile = app.python("profile", "steps:profile")

with_data = {"data": DATA}
day = {"date": "date"}

# The flights of one day.
app.task("land", land, job_id="{date}", components=day, properties=with_data)

# The delays of one client on one day: a child for each client, two at a time.
app.task(
    "delays",
    delays,
    job_id="{date}_{client}",
    components=day,
    depends_on={"task": ["land"], "client": CLIENTS},
    autofill_values={"client": CLIENTS},
    max_concurrent=2,
    properties=with_data,
)

# All clients of one day.
app.task(
    "report",
    report,
    job_id="{date}",
    components=day,
    depends_on={"task": ["delays"], "client": "all"},
    properties=with_data,
)

# One client over two days: for a new client, submitting it computes its past and nothing of other clients.
app.task("profile", profile, job_id="{client}", depends_on={"task": ["delays"], "date": DAYS}, properties=with_data)
