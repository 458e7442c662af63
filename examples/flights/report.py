"""A chart and a table of the joins' results: report.png, report.csv and report.txt in the data folder.

The run context has the arguments of the joins that succeeded, and so their data folder.
"""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from lake import dataset
from pyspark.sql import SparkSession

from streamsched.spark.context import current_run

UNITS = {"wind": "wind speed", "visibility": "visibility"}


def summed(weeks: pd.DataFrame) -> pd.DataFrame:
    """Totals over all weeks; the mean delay is weighted by the flights that departed."""
    left = weeks["flights"] - weeks["cancelled"]
    weighted = weeks.assign(left=left, minutes=weeks["mean_delay"].fillna(0.0) * left)
    groups = weighted.groupby(["measure", "order", "band"])
    table = groups[["flights", "cancelled", "left", "minutes"]].sum().reset_index()
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
    spark = SparkSession.builder.getOrCreate()
    # Successes that occurred while this run waited are coalesced; usually they have the same folder.
    places = dict.fromkeys((j.arguments["data"], j.arguments.get("lake", "files")) for j in current_run().programs())
    for folder, lake in places:
        data = Path(folder)
        found = dataset("delays", data, lake).read(spark).toPandas()
        table, weeks = summed(found), sorted(found["week"].unique())
        draw(table, weeks, data / "report.png")
        table.to_csv(data / "report.csv", index=False)
        (data / "report.txt").write_text(table.to_string(index=False) + "\n")
        print(f"report over {len(weeks)} week(s): {data / 'report.png'}")
    spark.stop()


if __name__ == "__main__":
    main()
