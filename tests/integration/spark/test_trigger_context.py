"""What a run of a real schedule is given, folded from real events and read inside Spark; the docs' example first."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    Partition,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.fold.fold import fold
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.schedules.schedule import Program, Schedule, SparkJob
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.trigger import (
    AllOf,
    Cron,
    CustomEvent,
    Measure,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Total,
    Trigger,
    leaf_id,
)
from streamsched.ports.runs import Assignment
from streamsched.spark.context import RUN_FILE, RunContext, current_run
from streamsched.spark.files import RunFiles, write_run_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "read-what-started-a-run.md"
AT = datetime(2013, 1, 8, 4, tzinfo=UTC)
WEEKLY = ScheduleRef("default", "flights", "weekly")
JOIN, LAND = ProgramRef("default", "flights", "join"), ProgramRef("default", "flights", "land")
FLIGHTS = DatasetRef("default", "flights")
EAST, WEST = (
    Partitions(FLIGHTS, 1, Match.from_values({"coast": OneOf(frozenset({coast}))})) for coast in ("east", "west")
)
ROWS = Total(FLIGHTS, Measure.ROWS, 30)
NIGHT = Cron("0 4 * * *")
LANDED = ProgramStatus(LAND)
CLICKS = StreamGrowth(StreamRef("default", "clicks"), 100)
APPROVED = CustomEvent(EventName("default", "approved"))
EVERYTHING = AllOf((EAST, WEST, ROWS, NIGHT, LANDED, CLICKS, APPROVED))

DAYS = tuple(
    Partition(f"day={day}/coast={coast}", {"day": str(day), "coast": coast}, 10 * day, 20)
    for day, coast in ((1, "east"), (2, "west"), (3, "north"))
)
FACTS: tuple[Fact, ...] = (
    PartitionsAdded(FLIGHTS, DAYS, 3),
    Ticked(WEEKLY, 1, leaf_id(NIGHT), AT - timedelta(minutes=1)),
    ProgramReached(LAND, "land.r1", Outcome.SUCCEEDED, {"weeks": "2"}, AT - timedelta(hours=1), None),
    StreamSize(CLICKS.stream, 150, absolute=False),
    CustomHappened(APPROVED.name, {"by": "ann"}),
)


def reported(tmp_path: Path, trigger: Trigger, *facts: Fact) -> RunContext:
    """What the run of the first satisfaction reads, from the file its runner wrote."""
    state = fold(None, Put(WEEKLY, 1, True, trigger), at=AT).state
    jobs = []
    for place, fact in enumerate(facts):
        folded = fold(state, Occurred(Event(f"e{place}", "test", AT, fact)), at=AT)
        state = folded.state
        jobs += folded.jobs
    ready = jobs[0]
    files = RunFiles(tmp_path, f"{ready.id}.r1")
    files.make_folders()
    schedule = Schedule(WEEKLY, JOIN, trigger)
    program = Program(JOIN, SparkJob("join.py"))
    path = write_run_file(files, Assignment(f"{ready.id}.r1", 1, program, {"a": "b"}, ready.id, ready, schedule))
    return current_run({RUN_FILE: str(path)})


def test_a_run_is_given_every_kind_of_leaf_what_it_asked_for_and_what_came(tmp_path: Path) -> None:
    run = reported(tmp_path, EVERYTHING, *FACTS)

    assert run.trigger == EVERYTHING
    assert {leaf: part.count for leaf, part in run.by_leaf().items()} == {
        EAST: 1,
        WEST: 1,
        ROWS: 60,
        NIGHT: 1,
        LANDED: 1,
        CLICKS: 150,
        APPROVED: 1,
    }
    assert [event.id for event in run.events()] == [f"e{place}" for place in range(5)]
    assert run.programs() == (FACTS[2],)
    assert run.custom("approved") == (FACTS[4],)
    assert run.custom("other.approved") == ()
    assert (run.growth("clicks"), run.growth("nothing")) == (150, 0)
    assert run.ticks() == (AT - timedelta(minutes=1),)
    assert run.logical_start_time == AT - timedelta(minutes=1)


def test_partitions_of_one_commit_that_different_leaves_asked_for_are_all_there(tmp_path: Path) -> None:
    run = reported(tmp_path, EAST & WEST, FACTS[0])

    assert [part.events[0].fact for part in run.by_leaf().values()] == [
        PartitionsAdded(FLIGHTS, DAYS[:1], 1),
        PartitionsAdded(FLIGHTS, DAYS[1:2], 1),
    ]
    assert run.new_partitions("flights") == DAYS[:2]
    (event,) = run.events()
    assert event.fact == PartitionsAdded(FLIGHTS, DAYS[:2], 2)


def test_a_leaf_the_trigger_held_without_is_given_as_empty(tmp_path: Path) -> None:
    run = reported(tmp_path, CLICKS | APPROVED, FACTS[4])

    assert [(leaf, part.count) for leaf, part in run.by_leaf().items()] == [(CLICKS, 0), (APPROVED, 1)]


def test_a_run_of_one_key_knows_the_key(tmp_path: Path) -> None:
    from streamsched.domain.triggers.trigger import Per

    run = reported(tmp_path, Per(Partitions(FLIGHTS), ("coast",)), PartitionsAdded(FLIGHTS, DAYS[:1], 1))

    assert run.key == "east"


@pytest.mark.spark
def test_the_readmes_example_reads_it_all_inside_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    reported(tmp_path, EVERYTHING, *FACTS)
    monkeypatch.setenv(RUN_FILE, str(RunFiles(tmp_path, "default.flights.weekly.1.1.r1").run_file))

    exec(compile(example, PAGE.name, "exec"), {"__name__": "__main__"})

    said = capsys.readouterr().out
    for line in (
        "default.flights.weekly 2013-01-08 03:59:00+00:00",
        "60 of: 30 new rows in default.flights",
        "day=2/coast=west",
        "land.r1 {'weeks': '2'}",
        "approved by ann",
    ):
        assert line in said, said
    assert "day=3" in said  # the total counted it, whatever its coast
