"""File sets at a URL with real Spark: the same promises without renames and locks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamsched.domain.errors import ConflictError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.jobs.job import Contribution
from streamsched.domain.names import ProgramRef
from streamsched.emit import Emitted, EventDraft
from streamsched.emit.draft import complete_event
from streamsched.spark.context import RunContext
from streamsched.spark.pfs import PartitionedFileSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2013, 1, 8, tzinfo=UTC)


class _Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, *what: EventDraft | Event) -> Emitted:
        self.events += [complete_event(each, source="test", now=NOW) for each in what]
        return Emitted(len(what))


@pytest.fixture
def recorder() -> _Recorder:
    return _Recorder()


@pytest.fixture
def flights(tmp_path: Path, recorder: _Recorder) -> PartitionedFileSet:
    return PartitionedFileSet("flights", f"file://{tmp_path}/lake/flights", emitter=recorder)


def frame(spark: SparkSession, *days: int, rows: int = 3) -> DataFrame:
    landed = [(date(2013, 1, day), n, f"f{n}") for day in days for n in range(rows)]
    return spark.createDataFrame(landed, "day date, n int, name string")


@pytest.mark.nightly
def test_commits_are_read_as_they_were_written(
    spark: SparkSession, flights: PartitionedFileSet, recorder: _Recorder
) -> None:
    first = flights.write(frame(spark, 1, 2), partition_by=["day"], commit_id="a")
    flights.write(frame(spark, 2, rows=4), partition_by=["day"])
    flights.write(frame(spark, 1, rows=5), partition_by=["day"], mode="overwrite_partitions")

    assert flights.write(frame(spark, 1, 2), partition_by=["day"], commit_id="a").partitions == first.partitions
    assert [(each.key, each.rows) for each in flights.partitions()] == [("day=2013-01-01", 5), ("day=2013-01-02", 7)]
    assert flights.read().count() == 12
    assert flights.read().schema == frame(spark, 1).schema
    facts = [each.fact for each in recorder.events]
    assert [fact.count for fact in facts if isinstance(fact, PartitionsAdded)] == [2, 1, 1]
    assert recorder.events[0].id == "a"


def test_a_run_reads_what_started_it(spark: SparkSession, flights: PartitionedFileSet, recorder: _Recorder) -> None:
    flights.write(frame(spark, 1), partition_by=["day"])
    flights.write(frame(spark, 2), partition_by=["day"])
    given = Contribution("p", 1, tuple(recorder.events[1:]))
    run = RunContext("r", ProgramRef("default", "air", "join"), job_id="j", contributions=(given,))

    assert {row.day for row in flights.read_new(run, spark).collect()} == {date(2013, 1, 2)}


def test_values_and_columns_come_back(spark: SparkSession, flights: PartitionedFileSet) -> None:
    rows = [("2013", 7, 1.5, "a/b =c"), ("0042", 7, None, "ü%")]
    given = spark.createDataFrame(rows, "year string, hour int, wind double, name string")
    flights.write(given, partition_by=["year", "name"])
    flights.write(given.selectExpr("year", "hour", "name", "1 AS more"), partition_by=["year", "name"])

    back = flights.read()

    assert back.columns == ["year", "hour", "name", "more", "wind"]
    assert sorted((row.year, row.name) for row in back.collect()) == sorted([(r[0], r[3]) for r in rows] * 2)


def test_plain_spark_sees_no_file_of_it(spark: SparkSession, flights: PartitionedFileSet) -> None:
    from pyspark.errors import AnalysisException

    flights.write(frame(spark, 1), partition_by=["day"])

    with pytest.raises(AnalysisException):
        spark.read.parquet(str(flights.path))


def test_vacuum_is_of_urls(spark: SparkSession, flights: PartitionedFileSet, tmp_path: Path) -> None:
    flights.write(frame(spark, 1), partition_by=["day"])
    flights.write(frame(spark, 1), partition_by=["day"], mode="overwrite_partitions")

    assert flights.vacuum() == 0
    assert flights.vacuum(timedelta(days=-1)) > 0
    assert flights.read().count() == 3
    with pytest.raises(ConflictError, match="has no vacuum"):
        PartitionedFileSet("flights", tmp_path / "folder").vacuum()
