"""Departure delay by wind and by visibility, for exactly the days that started this run."""

import argparse
from pathlib import Path

from lake import LAKES, dataset
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from streamsched.spark.context import current_run

WIND = [("under 5 mph", 5), ("5 to 10", 10), ("10 to 15", 15), ("15 to 20", 20), ("over 20 mph", None)]
VISIBILITY = [("under 1 mile", 1), ("1 to 3", 3), ("3 to 6", 6), ("6 to 10", 10), ("10 miles", None)]


def band(value: Column, bands: list[tuple[str, int | None]], part: str) -> Column:
    """The index (`part="order"`) or name (`part="band"`) of the band with a value; upper bounds are exclusive."""
    found = f.lit(None)
    for order, (name, below) in reversed(list(enumerate(bands))):
        shown = f.lit(order if part == "order" else name)
        found = shown if below is None else f.when(value < below, shown).otherwise(found)
    return f.when(value.isNotNull(), found)


def delays(flights: DataFrame, weather: DataFrame) -> DataFrame:
    """Flights, cancellations and mean delay in minutes for each band of wind and of visibility.

    Joins each flight with the weather of its airport in its scheduled hour; flights without an observation are dropped.
    """
    observed = weather.select("origin", "time_hour", "wind_speed", "visib").dropDuplicates(["origin", "time_hour"])
    both = flights.join(observed, ["origin", "time_hour"]).cache()
    by = [
        both.select(
            f.lit(measure).alias("measure"),
            band(f.col(column), bands, "order").alias("order"),
            band(f.col(column), bands, "band").alias("band"),
            "dep_delay",
        )
        for measure, column, bands in (("wind", "wind_speed", WIND), ("visibility", "visib", VISIBILITY))
    ]
    return (
        by[0]
        .unionByName(by[1])
        .where("band is not null")
        .groupBy("measure", "order", "band")
        .agg(
            f.count("*").alias("flights"),
            f.sum(f.col("dep_delay").isNull().cast("int")).alias("cancelled"),
            f.avg("dep_delay").alias("mean_delay"),
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the file sets")
    parser.add_argument("--lake", choices=LAKES, default="files")
    args = parser.parse_args()

    run = current_run()
    spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    flights = dataset("flights", args.data, args.lake).read_new(run)
    weather = dataset("weather", args.data, args.lake).read_new(run)

    days = sorted(partition.values["day"] for partition in run.new_partitions("flights"))
    print(f"run {run.run_id}: joining {days[0]} to {days[-1]}")
    result = delays(flights, weather).withColumn("week", f.lit(days[0]))

    # The write is a commit of this job: an attempt that is repeated after it wrote finds it, and changes nothing.
    commit = dataset("delays", args.data, args.lake).write(
        result.coalesce(1), partition_by=["week"], mode="overwrite_partitions"
    )
    print(f"wrote {', '.join(partition.key for partition in commit.partitions) if commit else 'the week'}")
    spark.stop()


if __name__ == "__main__":
    main()
