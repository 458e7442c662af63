"""The fold, case by case."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

import pytest

from streamsched.domain.events.event import (
    CustomHappened,
    Event,
    Fact,
    Outcome,
    PartitionsAdded,
    ProgramReached,
    StreamSize,
    Ticked,
)
from streamsched.domain.fold.accumulation import LIMIT
from streamsched.domain.fold.explain import explain
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, EventName, ProgramRef, ScheduleRef, StreamRef
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import (
    Cron,
    CustomEvent,
    Partitions,
    ProgramStatus,
    StreamGrowth,
    Trigger,
    leaf_id,
)

AT = datetime(2013, 1, 7, 12, tzinfo=UTC)
SCHEDULE = ScheduleRef("default", "flights", "join")
FLIGHTS, WEATHER = DatasetRef("default", "flights"), DatasetRef("default", "weather")
CLICKS = StreamRef("default", "clicks")
LOAD = ProgramRef("default", "flights", "load")


class Line:
    """A schedule's home fed by hand: remembers the state and what was launched."""

    def __init__(self, trigger: Trigger, *, enabled: bool = True) -> None:
        self._ids = count(1)
        self.jobs: list[ReadyJob] = []
        self.state: TriggerState | None = None
        self.tell(Put(SCHEDULE, 1, enabled, trigger))

    def tell(self, signal: Signal) -> list[ReadyJob]:
        folded = fold(self.state, signal, at=AT)
        self.state = folded.state
        launched = list(folded.jobs)
        self.jobs += launched
        return launched

    def see(self, *facts: Fact) -> list[ReadyJob]:
        return [job for fact in facts for job in self.tell(Occurred(Event(f"e{next(self._ids)}", "test", AT, fact)))]


def landed(amount: int = 1, dataset: DatasetRef = FLIGHTS) -> Fact:
    return PartitionsAdded(dataset, (), amount)


def grown(size: int, *, absolute: bool = False) -> Fact:
    return StreamSize(CLICKS, size, absolute)


def reached(outcome: Outcome) -> Fact:
    return ProgramReached(LOAD, "run", outcome)


def contributed(job: ReadyJob) -> dict[str, tuple[int, list[str]]]:
    return {each.leaf: (each.count, [event.id for event in each.events]) for each in job.contributions}


def test_seven_partitions_where_five_were_wanted_start_one_job_given_seven() -> None:
    line = Line(Partitions(FLIGHTS, 5))

    assert line.see(landed(3)) == []
    (job,) = line.see(landed(4))

    assert job.id == "default.flights.join.1.1"
    assert job.satisfied_at == AT
    assert contributed(job) == {"partitions:default.flights:5:distinct": (7, ["e1", "e2"])}
    assert line.see(landed(4)) == [], "the two beyond five went with the job"


def test_a_satisfied_branch_stays_satisfied_until_the_whole_fires_and_goes_on_counting() -> None:
    line = Line(Partitions(FLIGHTS, 2) & Partitions(WEATHER, 1))

    assert line.see(landed(2), landed(1)) == []
    (job,) = line.see(landed(1, WEATHER))

    assert contributed(job) == {
        "partitions:default.flights:2:distinct": (3, ["e1", "e2"]),
        "partitions:default.weather:1:distinct": (1, ["e3"]),
    }


def test_a_job_is_given_the_branch_that_was_not_complete() -> None:
    line = Line(Partitions(FLIGHTS, 6) | ProgramStatus(LOAD))

    (job,) = line.see(landed(5), reached(Outcome.SUCCEEDED))

    assert contributed(job)["partitions:default.flights:6:distinct"] == (5, ["e1"])
    assert line.see(landed(5)) == [], "the count restarted"


def test_one_event_counts_in_every_leaf_that_listens_to_it() -> None:
    line = Line(Partitions(FLIGHTS, 1) & Partitions(FLIGHTS, 2))

    (job,) = line.see(landed(1), landed(1))

    assert contributed(job) == {
        "partitions:default.flights:1:distinct": (2, ["e1", "e2"]),
        "partitions:default.flights:2:distinct": (2, ["e1", "e2"]),
    }


def test_sequences_count_the_satisfactions_of_a_generation() -> None:
    line = Line(CustomEvent(EventName("default", "go")))
    go = CustomHappened(EventName("default", "go"))

    line.see(go, go)
    line.tell(Put(SCHEDULE, 2, True, CustomEvent(EventName("default", "go"))))
    line.see(go)

    assert [job.id for job in line.jobs] == [
        "default.flights.join.1.1",
        "default.flights.join.1.2",
        "default.flights.join.2.1",
    ]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_program_that_reached_an_outcome_three_times_starts_one_job(outcome: Outcome) -> None:
    line = Line(ProgramStatus(LOAD, frozenset({outcome}), 3))
    others = [reached(each) for each in Outcome if each is not outcome]

    assert line.see(reached(outcome), *others, reached(outcome)) == []
    assert len(line.see(reached(outcome))) == 1


def test_only_the_outcomes_asked_for_count() -> None:
    line = Line(ProgramStatus(LOAD, frozenset({Outcome.FAILED, Outcome.KILLED}), 2))

    assert line.see(reached(Outcome.SUCCEEDED), reached(Outcome.FAILED), reached(Outcome.STARTED)) == []
    assert len(line.see(reached(Outcome.KILLED))) == 1


@pytest.mark.parametrize(
    ("reports", "have"),
    [
        pytest.param([(100, True)], 0, id="the first absolute report is the baseline"),
        pytest.param([(100, True), (130, True)], 30, id="growth over the baseline counts"),
        pytest.param([(100, True), (130, True), (20, True)], 50, id="after truncation all it holds is new"),
        pytest.param([(100, True), (0, True), (7, True)], 7, id="truncated to nothing, then grown"),
        pytest.param([(40, False), (2, False)], 42, id="deltas add"),
        pytest.param([(40, False), (500, True)], 40, id="an absolute report after deltas alone is a baseline"),
        pytest.param([(500, True), (40, False), (540, True)], 40, id="a delta is not counted again by the next whole"),
        pytest.param([(0, False)], 0, id="a delta of nothing is nothing"),
    ],
)
def test_a_stream_grows(reports: list[tuple[int, bool]], have: int) -> None:
    line = Line(StreamGrowth(CLICKS, 1000))

    line.see(*(grown(size, absolute=absolute) for size, absolute in reports))

    assert line.state is not None
    assert explain(line.state).have == have


def test_a_level_survives_a_satisfaction() -> None:
    line = Line(StreamGrowth(CLICKS, 50))

    (job,) = line.see(grown(100, absolute=True), grown(170, absolute=True))

    assert contributed(job) == {"stream:default.clicks:50": (70, ["e2"])}, "a baseline contributes nothing"
    assert line.see(grown(210, absolute=True)) == []
    assert len(line.see(grown(220, absolute=True))) == 1


def test_counts_stop_at_the_largest_number_that_can_be_stored() -> None:
    line = Line(StreamGrowth(CLICKS, LIMIT) & Partitions(FLIGHTS))

    line.see(grown(LIMIT), grown(LIMIT))

    (job,) = line.see(landed())
    assert job.contributions[0].count == LIMIT


def test_a_tick_counts_for_its_own_leaf_and_generation_only() -> None:
    nightly, hourly = Cron("0 4 * * *"), Cron("0 * * * *")
    line = Line(nightly & hourly)

    def tick(leaf: Cron, generation: int = 1) -> Fact:
        return Ticked(SCHEDULE, generation, leaf_id(leaf), AT)

    assert line.see(tick(nightly), tick(nightly), tick(hourly, generation=0)) == []
    assert line.see(Ticked(SCHEDULE, 1, "cron:no such leaf", AT)) == []
    (job,) = line.see(tick(hourly))

    assert contributed(job) == {leaf_id(nightly): (2, ["e1", "e2"]), leaf_id(hourly): (1, ["e5"])}


def test_a_disabled_schedule_counts_nothing() -> None:
    line = Line(Partitions(FLIGHTS, 2), enabled=False)

    assert line.see(landed(2)) == []
    line.tell(Put(SCHEDULE, 2, True, Partitions(FLIGHTS, 2)))
    assert line.see(landed(1)) == [], "what came while it was disabled is gone"
    assert len(line.see(landed(1))) == 1


def test_a_put_or_drop_of_an_older_generation_changes_nothing() -> None:
    line = Line(Partitions(FLIGHTS, 2))
    line.tell(Put(SCHEDULE, 5, True, Partitions(FLIGHTS, 2)))
    line.see(landed(1))
    before = line.state

    for late in (
        Put(SCHEDULE, 5, True, Partitions(FLIGHTS, 2)),
        Put(SCHEDULE, 4, False, Partitions(WEATHER, 9)),
        Drop(SCHEDULE, 4),
        Subscribe("partition:default.flights", SCHEDULE, 9),
        Unsubscribe("partition:default.flights", SCHEDULE, 9),
    ):
        assert line.tell(late) == []
        assert line.state is before

    line.tell(Drop(SCHEDULE, 5))
    assert line.state is None
    assert line.see(landed(5)) == []
    line.tell(Drop(SCHEDULE, 6))
    assert line.state is None


def test_an_event_without_listeners_leaves_the_very_same_state() -> None:
    line = Line(Partitions(FLIGHTS, 2))
    before = line.state

    line.see(landed(1, WEATHER), reached(Outcome.SUCCEEDED), grown(5))

    assert line.state is before


def test_an_explanation_says_what_is_there_and_what_is_missing() -> None:
    line = Line(Partitions(FLIGHTS, 7) & (Partitions(WEATHER, 2) | ProgramStatus(LOAD)))
    line.see(landed(3), landed(2, WEATHER))
    assert line.state is not None

    root = explain(line.state)

    assert (root.holds, root.have, root.need, root.missing) == (False, 1, 2, 1)
    flights, either = root.children
    assert flights.text == "7 new partitions of default.flights"
    assert (flights.holds, flights.have, flights.need, flights.missing) == (False, 3, 7, 4)
    assert [event.id for event in flights.events] == ["e1"]
    assert (either.holds, either.have, either.need, either.missing) == (True, 1, 1, 0)
    assert [child.holds for child in either.children] == [True, False]


def test_a_home_that_forgot_what_it_started_is_reported_and_its_numbers_go_on_from_there() -> None:
    line = Line(Partitions(FLIGHTS, 2))
    line.see(landed(2), landed(1))

    line.tell(Put(SCHEDULE, 1, True, Partitions(FLIGHTS, 2), started=7))
    assert [job.sequence for job in line.see(landed(1))] == [8], "what has accumulated stays"
    line.tell(Put(SCHEDULE, 1, True, Partitions(FLIGHTS, 2), started=5))
    assert [job.sequence for job in line.see(landed(2))] == [9], "it knows of more itself"

    line.tell(Put(SCHEDULE, 2, True, Partitions(FLIGHTS, 2), started=3))
    line.tell(Put(SCHEDULE, 1, True, Partitions(FLIGHTS, 2), started=99))
    assert [(job.generation, job.sequence) for job in line.see(landed(2))] == [(2, 4)]
