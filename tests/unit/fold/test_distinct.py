"""A partition that is written again before the trigger fires counts once, and its newest commit goes with the job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.events.match import Match, OneOf
from streamsched.domain.fold.accumulation import amount_and_parts
from streamsched.domain.fold.explain import explain
from streamsched.domain.fold.fold import fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Measure, OnExpiry, Partitions, Per, Quiet, Total, Trigger, Within
from streamsched.stream.agents.accumulated import TriggerStates
from tests.support.engine import Engine

AT = datetime(2013, 1, 7, tzinfo=UTC)
SCHEDULE = ScheduleRef("default", "flights", "weekly")
X, Y = DatasetRef("default", "x"), DatasetRef("default", "y")
COUNTED, REPLACED, UNMATCHED = Verdict.COUNTED, Verdict.REPLACED, Verdict.UNMATCHED


class Home:
    """One schedule's home. Events have the ids `e1`, `e2`, …"""

    def __init__(self, trigger: Trigger, consumption: Consumption = Consumption.CUMULATIVE) -> None:
        self.engine, self.ids, self.at = Engine(SCHEDULE), count(1), AT
        self.engine.tell(AT, Put(SCHEDULE, 1, True, trigger, consumption))

    def land(self, *keys: str, dataset: DatasetRef = X, number: int = 0, size: int | None = None) -> Verdict | None:
        """A commit of these partitions, and of `number` more that it does not name."""
        named = tuple(Partition(key, dict(part.split("=") for part in key.split("/")), size) for key in keys)
        return self.add(PartitionsAdded(dataset, named, len(named) + number))

    def add(self, fact: PartitionsAdded) -> Verdict | None:
        folded = self.engine.tell(self.at, Occurred(Event(f"e{next(self.ids)}", "test", AT, fact)))
        return None if folded.verdict is None else folded.verdict.verdict

    @property
    def jobs(self) -> list[ReadyJob]:
        return [job for _, job in self.engine.jobs]

    @property
    def have(self) -> int:
        assert self.engine.state is not None
        return explain(self.engine.state).have


def read(job: ReadyJob, leaf: int = 0) -> list[tuple[str, str]]:
    """Each partition that goes with a job, with the event it is from."""
    return [
        (event.id, each.key)
        for event in job.contributions[leaf].events
        if isinstance(event.fact, PartitionsAdded)
        for each in event.fact.partitions
    ]


def test_the_same_day_written_three_times_is_one_new_partition() -> None:
    home = Home(Partitions(X, 2))

    assert [home.land("day=1"), home.land("day=1"), home.land("day=1")] == [COUNTED, REPLACED, REPLACED]
    assert (home.have, home.jobs) == (1, [])
    assert home.land("day=2") is COUNTED
    (job,) = home.jobs
    assert job.contributions[0].count == 2
    assert read(job) == [("e3", "day=1"), ("e4", "day=2")]


def test_every_commit_counts_when_that_is_asked_for() -> None:
    home = Home(Partitions(X, 2, distinct=False))

    assert [home.land("day=1"), home.land("day=1")] == [COUNTED, COUNTED]
    assert read(home.jobs[0]) == [("e1", "day=1"), ("e2", "day=1")]


def test_a_commit_of_some_that_are_there_and_some_that_are_not_counts_the_new_ones() -> None:
    home = Home(Partitions(X, 4))

    assert [home.land("day=1", "day=2"), home.land("day=2", "day=3")] == [COUNTED, COUNTED]
    assert home.have == 3
    home.land("day=4")
    assert read(home.jobs[0]) == [("e1", "day=1"), ("e2", "day=2"), ("e2", "day=3"), ("e3", "day=4")]


def test_one_commit_that_names_a_partition_twice_counts_it_once() -> None:
    home = Home(Partitions(X, 2))
    home.land("day=1", "day=1")
    assert home.have == 1


def test_a_commit_that_gives_only_a_number_counts_that_number() -> None:
    home = Home(Partitions(X, 9))

    assert [home.land(number=3), home.land(number=3), home.land("day=1", number=1)] == [COUNTED] * 3
    assert home.have == 8
    assert home.land("day=1") is REPLACED


def test_a_commit_that_does_not_match_replaces_nothing() -> None:
    home = Home(Partitions(X, 2, Match.from_values({"region": OneOf(frozenset({"EU"}))})))
    eu, us = Partition("p", {"region": "EU"}), Partition("p", {"region": "US"})

    assert home.add(PartitionsAdded(X, (eu,), 1)) is COUNTED
    assert home.add(PartitionsAdded(X, (us,), 1)) is UNMATCHED
    assert home.add(PartitionsAdded(X, (eu,), 1)) is REPLACED


@pytest.mark.parametrize("consumption", Consumption)
def test_a_partition_that_a_job_took_is_new_when_it_is_written_again(consumption: Consumption) -> None:
    home = Home(Partitions(X), consumption)

    assert [home.land("day=1"), home.land("day=1")] == [COUNTED, COUNTED]
    assert [read(job) for job in home.jobs] == [[("e1", "day=1")], [("e2", "day=1")]]


def test_paired_takes_a_partition_where_its_newest_commit_stands() -> None:
    home = Home(Partitions(X, 2) & Partitions(Y), Consumption.PAIRED)
    for key in ("day=1", "day=2", "day=3", "day=1"):
        home.land(key)

    home.land("day=1", dataset=Y)
    home.land("day=4")
    home.land("day=2", dataset=Y)

    assert [read(job) for job in home.jobs] == [[("e2", "day=2"), ("e3", "day=3")], [("e4", "day=1"), ("e6", "day=4")]]


def test_latest_drops_the_oldest_of_those_that_count() -> None:
    home = Home(Partitions(X, 2) & Partitions(Y), Consumption.LATEST)
    for key in ("day=1", "day=2", "day=1", "day=3"):
        home.land(key)

    home.land("day=1", dataset=Y)

    assert read(home.jobs[0]) == [("e3", "day=1"), ("e4", "day=3")]


def test_the_newest_size_of_a_partition_takes_the_place_of_the_older() -> None:
    home = Home(Total(X, Measure.BYTES, 100))

    home.land("day=1", size=60)
    assert home.land("day=1", size=30) is REPLACED
    assert home.have == 30
    home.land("day=2", size=60)
    assert home.have == 90
    assert home.land("day=1", size=50) is REPLACED
    assert home.jobs[0].contributions[0].count == 110


def test_a_size_that_was_not_reported_counts_nothing_also_where_it_replaces() -> None:
    home = Home(Total(X, Measure.BYTES, 100))
    home.land("day=1", size=60)

    assert home.land("day=1") is REPLACED
    assert home.have == 0
    assert home.land("day=2") is UNMATCHED


def test_a_total_that_had_enough_goes_on_having_enough_across_a_restart() -> None:
    home = Home(Total(X, Measure.BYTES, 100) & Partitions(Y))
    home.land("day=1", size=100)
    home.land("day=1", size=10)
    assert home.engine.state is not None
    home.engine.state = state_codec.decode(state_codec.encode(home.engine.state))

    home.land("day=1", dataset=Y)

    assert home.jobs[0].contributions[0].count == 10


def test_a_replacement_begins_the_quiet_time_anew() -> None:
    home = Home(Quiet(Partitions(X), timedelta(minutes=10)))
    home.land("day=1")
    home.at += timedelta(minutes=6)
    assert home.land("day=1") is REPLACED

    home.engine.wake_up(AT + timedelta(minutes=12))
    assert home.jobs == []
    home.engine.wake_up(AT + timedelta(minutes=16))
    assert [read(job) for job in home.jobs] == [[("e2", "day=1")]]


def test_each_key_has_partitions_of_its_own() -> None:
    home = Home(Per(Partitions(X, 2), ("date",)))

    assert [home.land("date=1/k=a"), home.land("date=1/k=a"), home.land("date=2/k=a")] == [COUNTED, REPLACED, COUNTED]
    home.land("date=1/k=b")
    assert [(job.key, read(job)) for job in home.jobs] == [("1", [("e2", "date=1/k=a"), ("e4", "date=1/k=b")])]


def test_a_period_of_a_roll_up_that_is_written_again_is_replaced_and_keeps_what_was_not() -> None:
    home = Home(Per(Partitions(X), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY, of=2))
    eu, us = "hour=2013-01-07T05/region=EU", "hour=2013-01-07T05/region=US"

    assert home.land(eu, us) is COUNTED
    assert home.land(eu) is REPLACED
    assert home.land("hour=2013-01-07T05/region=AP") is UNMATCHED
    home.land("hour=2013-01-07T06/region=EU")

    assert read(home.jobs[0]) == [("e2", us), ("e2", eu), ("e4", "hour=2013-01-07T06/region=EU")]


def test_an_event_that_adds_in_one_leaf_and_replaces_in_another_counted() -> None:
    home = Home(Partitions(X, 9) & Partitions(X, 9, distinct=False))

    assert [home.land("day=1"), home.land("day=1")] == [COUNTED, COUNTED]


@pytest.mark.parametrize("consumption", Consumption)
def test_what_is_kept_does_not_grow_with_how_often_partitions_are_written(consumption: Consumption) -> None:
    """Nor does a restart at any moment change what goes with the job."""
    trigger: Trigger = Partitions(X, 300) & Partitions(Y)
    table: dict[bytes, bytes] = {}
    home, record = Home(trigger, consumption), str(SCHEDULE).encode()
    rows = TriggerStates(table)
    rows.fold(record, fold(None, Put(SCHEDULE, 1, True, trigger, consumption), at=AT))
    for number in range(5_000):
        key = f"day={number % 250}"
        named = PartitionsAdded(X, (Partition(key, {"day": key}),), 1)
        home.add(named)
        rows.fold(record, fold(rows.state(record), Occurred(Event(f"e{number + 1}", "test", AT, named)), at=AT))
        if number % 37 == 0:
            rows.store()
        if number % 411 == 0:
            rows.store()
            rows = TriggerStates(table)
    rows.store()

    kept, live = TriggerStates(dict(table)).state(record), home.engine.state
    assert kept is not None
    assert live is not None
    for slot in live.plan.slots[:1]:
        assert amount_and_parts(kept.accumulations[slot.id], slot) == amount_and_parts(
            live.accumulations[slot.id], slot
        )
        assert live.accumulations[slot.id].count == 250
        assert len(live.accumulations[slot.id].events) <= 2 * 250 + 64
    assert sum(len(row) for row in table.values()) < 400_000


@pytest.mark.parametrize(("then", "jobs"), [(OnExpiry.FIRE, [[("e2", "day=1")]]), (OnExpiry.RESET, [])])
def test_a_total_that_is_rewritten_to_nothing_still_has_its_time(
    then: OnExpiry, jobs: list[list[tuple[str, str]]]
) -> None:
    home = Home(Within(Total(X, Measure.BYTES, 10), timedelta(minutes=10), then))
    home.land("day=1", size=4)
    home.land("day=1", size=None)
    assert (home.have, home.engine.asked) == (0, {"": AT + timedelta(minutes=10)})
    home.engine.wake_up(AT + timedelta(minutes=10))
    assert [read(job) for job in home.jobs] == jobs
    assert home.engine.state is not None
    assert not home.engine.state.cell.accumulations, "what has come ends with its time"
