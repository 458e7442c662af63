"""The example's numbers against the same numbers computed by pandas, from the CSVs themselves."""

from __future__ import annotations

import importlib.util
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from streamsched.define.loading import load_app
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.names import ProgramRef
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import complete_event
from streamsched.spark.context import RunContext
from streamsched.spark.pfs import PartitionedFileSet

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"
SINCE = date(2013, 3, 1)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"flights_{name}", EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(EXAMPLE))  # as spark-submit does, for what a program imports from its folder
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(EXAMPLE))
    return module


class Heard:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, *what: EventDraft | Event) -> Emitted:
        self.events += [complete_event(each, source="test", now=datetime(2013, 3, 8, tzinfo=UTC)) for each in what]
        return Emitted(len(what))


def by_pandas(flights: pd.DataFrame, weather: pd.DataFrame) -> dict[tuple[str, str], tuple[int, int, float]]:
    """(measure, band) → flights, cancelled, mean delay."""
    import pandas as pd

    wind = {"under 5 mph": 0, "5 to 10": 5, "10 to 15": 10, "15 to 20": 15, "over 20 mph": 20}
    visibility = {"under 1 mile": 0, "1 to 3": 1, "3 to 6": 3, "6 to 10": 6, "10 miles": 10}
    both = flights.merge(weather[["origin", "time_hour", "wind_speed", "visib"]], on=["origin", "time_hour"])
    found = {}
    for measure, column, bands in (("wind", "wind_speed", wind), ("visibility", "visib", visibility)):
        cut = pd.cut(both[column], [*bands.values(), float("inf")], right=False, labels=list(bands))
        for band, part in both.groupby(cut, observed=True):
            found[measure, str(band)] = (len(part), int(part.dep_delay.isna().sum()), float(part.dep_delay.mean()))
    return found


def test_the_app_is_a_join_after_a_week_of_both_and_a_report_after_the_join() -> None:
    app = load_app(str(EXAMPLE / "app.py"))

    triggers = {schedule.ref.name: str(schedule.trigger) for schedule in app.schedules}
    assert triggers == {
        "weekly-join": "7 new partitions of default.flights and 7 new partitions of default.weather",
        "weekly-report": "default.flights.join succeeded",
    }
    assert {Path(program.executable.main).is_file() for program in app.programs} == {True}  # type: ignore[union-attr]


@pytest.mark.spark
def test_the_join_of_exactly_one_week_equals_the_one_by_pandas(spark: SparkSession, tmp_path: Path) -> None:
    land, join, report = example("land"), example("join"), example("report")
    heard = Heard()
    week = [SINCE + timedelta(days=n) for n in range(1, 8)]
    around = [SINCE, SINCE + timedelta(days=8)]
    rows = {
        "flights": land.source("flights.csv.zip", land.FLIGHTS, SINCE, SINCE + timedelta(days=9)),
        "weather": land.source("weather.csv", land.WEATHER, SINCE, SINCE + timedelta(days=9)),
    }
    sets = {name: PartitionedFileSet(name, tmp_path / name, emitter=heard) for name in rows}
    for days in (week, around):
        for name, file_set in sets.items():
            chosen = rows[name][rows[name].day.isin(days)]
            file_set.write(spark.createDataFrame(chosen).coalesce(1), partition_by=["day"])
    started = Contribution("both", 14, tuple(heard.events[:2]))
    run = RunContext("r1", ProgramRef.parse("default.flights.join"), job_id="j1", contributions=(started,))

    new = {name: file_set.read_new(run, spark) for name, file_set in sets.items()}
    found = join.delays(new["flights"], new["weather"]).toPandas()

    wanted = by_pandas(*(rows[name][rows[name].day.isin(week)] for name in ("flights", "weather")))
    assert len(wanted) == 10
    assert {(r.measure, r.band): (r.flights, r.cancelled, r.mean_delay) for r in found.itertuples()} == {
        band: (flights, cancelled, pytest.approx(delay)) for band, (flights, cancelled, delay) in wanted.items()
    }

    table = report.summed(found.assign(week=str(week[0])))
    report.draw(table, [str(week[0])], tmp_path / "report.png")
    assert (tmp_path / "report.png").stat().st_size > 10_000
    assert table["flights"].sum() == sum(flights for flights, _, _ in wanted.values())
