"""A PySpark module as Stolos runs it: `main` gets the Spark context and the parts of the job id."""

import json
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import avg, col, count


def main(sc, ns, date, client, data):
    """Writes the number of flights and the mean delay of one client on one day."""
    rows = SparkSession(sc).read.json(f"{data}/land/{date}.json").where(col("carrier") == client)
    [found] = rows.agg(count("*").alias("flights"), avg("dep_delay").alias("mean_delay")).collect()
    row = {"date": date, "client": client, "flights": found["flights"], "mean_delay": round(found["mean_delay"], 1)}
    path = Path(data, "delays", f"{ns.job_id}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps(row))
    new.replace(path)  # in one step, so that a repeated run leaves one whole file
    print(row)
