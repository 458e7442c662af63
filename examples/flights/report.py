"""A picture and a table of what the joins found: report.png, report.csv and report.txt in the data folder."""

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from pyspark.sql import SparkSession

from streamsched.spark.pfs import PartitionedFileSet

UNITS = {"wind": "wind speed", "visibility": "visibility"}


def summed(weeks: pd.DataFrame) -> pd.DataFrame:
    """All weeks together: the mean of the weeks' means, weighted by the flights that left."""
    left = weeks["flights"] - weeks["cancelled"]
    weighed = weeks.assign(left=left, minutes=weeks["mean_delay"].fillna(0.0) * left)
    table = weighed.groupby(["measure", "order", "band"], as_index=False)[
        ["flights", "cancelled", "left", "minutes"]
    ].sum()
    table["mean_delay"] = (table["minutes"] / table["left"]).round(1)
    table["cancelled_percent"] = (100 * table["cancelled"] / table["flights"]).round(1)
    return table.sort_values(["measure", "order"], ascending=[False, True]).drop(columns=["left", "minutes", "order"])


def draw(table: pd.DataFrame, weeks: list[str], path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.2), sharey=True, constrained_layout=True)
    for axis, (measure, label) in zip(axes, UNITS.items(), strict=True):
        part = table[table["measure"] == measure]
        bars = axis.bar(part["band"], part["mean_delay"], color="#4477aa", width=0.7)
        axis.bar_label(bars, labels=[f"{n:,}\nflights" for n in part["flights"]], fontsize=8, padding=2)
        axis.set_xlabel(label)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(y=0.18)
    axes[0].set_ylabel("mean delay at departure (minutes)")
    figure.suptitle(f"New York 2013: delay by weather, weeks from {', '.join(weeks)}")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the file sets; the report goes here")
    data = parser.parse_args().data

    spark = SparkSession.builder.getOrCreate()
    found = PartitionedFileSet("delays", data / "delays").read(spark).toPandas()
    spark.stop()

    table, weeks = summed(found), sorted(found["week"].unique())
    draw(table, weeks, data / "report.png")
    table.to_csv(data / "report.csv", index=False)
    (data / "report.txt").write_text(table.to_string(index=False) + "\n")
    print(f"report over {len(weeks)} week(s): {data / 'report.png'}")


if __name__ == "__main__":
    main()
