"""Partitioned file sets with real Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from streamsched.codec import event as codec
from streamsched.codec.views import trigger_context as facts
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from streamsched.domain.events.event import Event, PartitionsAdded
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.emit import Emitted, Emitter, EventDraft, RetryLimits
from streamsched.emit.draft import complete_event
from streamsched.spark.context import RUN_FILE, RunContext, current_run
from streamsched.spark.manifest import Phase
from streamsched.spark.pfs import PartitionedFileSet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NOW = datetime(2013, 1, 8, tzinfo=UTC)


class Listener:
    """Hears what a file set says; `away` makes it deaf."""

    def __init__(self) -> None:
        self.heard: list[Event] = []
        self.away = False

    def emit(self, *what: EventDraft | Event) -> Emitted:
        if self.away:
            raise UnavailableError("no server there")
        self.heard += [complete_event(each, source="test", now=NOW) for each in what]
        return Emitted(len(what))


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.fixture
def flights(tmp_path: Path, listener: Listener) -> PartitionedFileSet:
    return PartitionedFileSet("flights", tmp_path / "flights", emitter=listener)


def frame(spark: SparkSession, *days: int, rows: int = 3) -> DataFrame:
    landed = [(date(2013, 1, day), n, f"f{n}") for day in days for n in range(rows)]
    return spark.createDataFrame(landed, "day date, n int, name string")


def given(events: list[Event], tmp_path: Path) -> RunContext:
    """The context of a run these events started, read from its run file as a program would."""
    schedule = ScheduleRef.parse("default.flights.weekly")
    ready = ReadyJob(schedule, 1, 1, NOW, (Contribution("partitions:default.flights:1", len(events), tuple(events)),))
    reported = {
        "run": f"{ready.id}.r1",
        "program": "default.flights.join",
        "arguments": {},
        "trigger": facts.native(ready),
    }
    path = tmp_path / "run.json"
    path.write_bytes(orjson.dumps(reported))
    return current_run({RUN_FILE: str(path)})


def test_a_run_by_hand_reads_everything_or_nothing_when_it_says_so(
    spark: SparkSession, flights: PartitionedFileSet
) -> None:
    flights.write(frame(spark, 1, 2), partition_by=["day"])
    by_hand = RunContext("default.air.join.manual-1.r1", ProgramRef("default", "air", "join"))

    assert flights.read_new(by_hand, spark, in_manual_run="all").count() == 6
    nothing = flights.read_new(by_hand, spark, in_manual_run="none")
    assert (nothing.count(), nothing.columns) == (0, ["day", "n", "name"])
    with pytest.raises(ConflictError, match="started by hand"):
        flights.read_new(by_hand, spark)


def test_a_write_lands_whole_and_says_so_once(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener
) -> None:
    commit = flights.write(frame(spark, 1, 2, 3), partition_by=["day"])

    (event,) = listener.heard
    assert event.id == commit.id
    assert isinstance(event.fact, PartitionsAdded)
    assert event.fact.partitions == commit.partitions
    assert [(p.key, p.values, p.rows) for p in commit.partitions] == [
        (f"day=2013-01-0{n}", {"day": f"2013-01-0{n}"}, 3) for n in (1, 2, 3)
    ]
    assert all(p.bytes for p in commit.partitions)
    assert flights.read().count() == 9


def test_columns_come_back_as_they_were_written(spark: SparkSession, flights: PartitionedFileSet) -> None:
    rows = [("2013", 7, 1.5, "a/b =c"), ("0042", 7, None, "ü%")]
    given = spark.createDataFrame(rows, "year string, hour int, wind double, name string")

    flights.write(given, partition_by=["year", "name"])

    back = flights.read()
    assert back.schema == given.schema
    assert sorted(map(tuple, back.collect())) == sorted(rows)


def test_plain_spark_reads_the_same_folder(spark: SparkSession, flights: PartitionedFileSet) -> None:
    flights.write(frame(spark, 1, 2), partition_by=["day"])

    assert spark.read.parquet(str(flights.path)).count() == 6


def test_a_run_reads_exactly_the_partitions_that_started_it(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener, tmp_path: Path
) -> None:
    for day in range(1, 8):
        flights.write(frame(spark, day), partition_by=["day"])
    started = listener.heard[2:5]

    run = given(started, tmp_path)

    assert [p.key for p in run.new_partitions("flights")] == [f"day=2013-01-0{n}" for n in (3, 4, 5)]
    days = {row.day for row in flights.read_new(run).select("day").distinct().collect()}
    assert days == {date(2013, 1, n) for n in (3, 4, 5)}


def test_a_run_that_other_datasets_started_reads_no_rows_with_all_columns(
    spark: SparkSession, flights: PartitionedFileSet, tmp_path: Path
) -> None:
    flights.write(frame(spark, 1), partition_by=["day"])

    new = flights.read_new(given([], tmp_path))

    assert (new.count(), new.columns) == (0, ["day", "n", "name"])


def test_partitions_that_are_not_here_are_named(spark: SparkSession, flights: PartitionedFileSet) -> None:
    with pytest.raises(NotFoundError, match=r"default\.flights"):
        flights.read()

    flights.write(frame(spark, 1), partition_by=["day"])

    with pytest.raises(NotFoundError, match="day=2013-01-02"):
        flights.read_partitions(spark, ["day=2013-01-01", "day=2013-01-02"])


def test_a_write_that_spark_aborts_leaves_and_says_nothing(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener
) -> None:
    from pyspark.sql import functions

    broken = frame(spark, 1, 2).withColumn(
        "n", functions.when(functions.col("day") == "2013-01-02", functions.raise_error(functions.lit("torn")))
    )

    with pytest.raises(Exception, match="torn"):
        flights.write(broken, partition_by=["day"])

    assert listener.heard == []
    assert flights.partitions() == ()
    assert list((Path(flights.path) / "_staging").iterdir()) == []


def test_a_write_without_rows_says_nothing(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener
) -> None:
    commit = flights.write(frame(spark), partition_by=["day"])

    assert (commit.partitions, listener.heard) == ((), [])


def test_a_commit_without_listeners_is_said_by_the_next_use(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener, tmp_path: Path
) -> None:
    listener.away = True
    commit = flights.write(frame(spark, 1), partition_by=["day"])
    assert not commit.announced
    assert flights.read().count() == 3

    listener.away = False
    PartitionedFileSet("flights", flights.path, emitter=listener).read()
    flights.read()

    assert [event.id for event in listener.heard] == [commit.id]


def test_the_same_commit_twice_is_one(spark: SparkSession, flights: PartitionedFileSet, listener: Listener) -> None:
    first = flights.write(frame(spark, 1), partition_by=["day"], commit_id="run-1")
    again = flights.write(frame(spark, 1, 2), partition_by=["day"], commit_id="run-1")

    assert again == first
    assert flights.read().count() == 3
    assert len(listener.heard) == 1


def test_overwriting_takes_the_place_of_the_partitions_it_touches(
    spark: SparkSession, flights: PartitionedFileSet
) -> None:
    flights.write(frame(spark, 1, 2), partition_by=["day"])
    flights.write(frame(spark, 2, rows=1), partition_by=["day"], mode="overwrite_partitions")

    assert {p.key: p.rows for p in flights.partitions()} == {"day=2013-01-01": 3, "day=2013-01-02": 1}
    assert flights.read().count() == 4


def test_a_column_that_came_later_is_null_before(spark: SparkSession, flights: PartitionedFileSet) -> None:
    flights.write(frame(spark, 1).drop("name"), partition_by=["day"])
    flights.write(frame(spark, 2), partition_by=["day"])

    assert flights.read().where("name is null").count() == 3


@pytest.mark.parametrize(
    ("wrong", "path"),
    [({"partition_by": []}, r"\$\.partition_by"), ({"partition_by": ["day"], "mode": "replace"}, r"\$\.mode")],
)
def test_a_wrong_call_is_refused_before_spark_works(
    spark: SparkSession, flights: PartitionedFileSet, wrong: dict[str, object], path: str
) -> None:
    with pytest.raises(InvalidError, match=path):
        flights.write(frame(spark, 1), **wrong)  # type: ignore[arg-type]


def test_a_url_that_became_a_path_is_no_folder() -> None:
    with pytest.raises(InvalidError, match=r"\$\.path: must be a folder, or a URL"):
        PartitionedFileSet("flights", Path("s3://bucket/flights"))


KILLED = """
import os, signal, sys
from pyspark.sql import SparkSession
from streamsched.spark.pfs import PartitionedFileSet
def watch(phase):
    if phase == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
spark = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
         .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").getOrCreate())
df = spark.createDataFrame([(1, 1), (2, 2)], "day int, n int")
PartitionedFileSet("flights", sys.argv[1], environ={}, watch=watch).write(df, partition_by=["day"])
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("phase", "said"), [pytest.param(Phase.MOVING, 0, marks=pytest.mark.nightly), (Phase.COMMITTED, 1)]
)
def test_a_killed_spark_driver_is_put_right_by_the_next_use(
    spark: SparkSession, flights: PartitionedFileSet, listener: Listener, phase: Phase, said: int
) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(flights.path), phase], capture_output=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()

    assert len(flights.partitions()) == 2 * said
    assert len(listener.heard) == said
    assert list((Path(flights.path) / "_staging").iterdir()) == []
    assert len(list(Path(flights.path).glob("day=*/*.parquet"))) == 2 * said


def test_a_job_whose_far_end_is_away_leaves_its_event_in_the_spool(
    spark: SparkSession, tmp_path: Path, unused_tcp_port_factory: Callable[[], int]
) -> None:
    spool, patience = tmp_path / "spool", RetryLimits(deadline=timedelta(milliseconds=20))
    emitter = Emitter(f"http://127.0.0.1:{unused_tcp_port_factory()}", source="t", spool=spool, patience=patience)

    commit = PartitionedFileSet("flights", tmp_path / "f", emitter=emitter).write(frame(spark, 1), partition_by=["day"])

    assert commit.announced
    (path,) = spool.iterdir()
    assert codec.decode(path.read_bytes(), fallback_id="", fallback_time=NOW).id == commit.id
