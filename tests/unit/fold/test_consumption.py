"""What a satisfaction uses up: everything, exactly what was asked, or the newest of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from streamsched import App, event
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import state as state_codec
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import CustomHappened, Event, Fact, Partition, PartitionsAdded, StreamSize
from streamsched.domain.fold.cell_update import JOBS_AT_ONCE
from streamsched.domain.fold.explain import explain
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import DatasetRef, EventName, ScheduleRef, StreamRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import AtLeast, CustomEvent, Measure, Partitions, StreamGrowth, Total, Trigger

AT = datetime(2013, 1, 7, 12, tzinfo=UTC)
SCHEDULE = ScheduleRef("default", "app", "s")
FLIGHTS, CLICKS = DatasetRef("default", "flights"), StreamRef("default", "clicks")
PAIRED, LATEST = Consumption.PAIRED, Consumption.LATEST


def named(name: str, times: int = 1) -> CustomEvent:
    return CustomEvent(EventName("default", name), times)


def after(consumption: Consumption, trigger: Trigger, *facts: Fact | str) -> tuple[TriggerState, list[list[ReadyJob]]]:
    """The state after some facts (a text is the event of that name), and the jobs that each of them started."""
    state = fold(None, Put(SCHEDULE, 1, True, trigger, consumption), at=AT).state
    jobs: list[list[ReadyJob]] = []
    for place, fact in enumerate(facts):
        happened = CustomHappened(EventName("default", fact)) if isinstance(fact, str) else fact
        folded = fold(state, Occurred(Event(f"e{place}", "test", AT, happened)), at=AT)
        assert folded.state is not None
        state = state_codec.decode(state_codec.encode(folded.state))
        jobs.append(list(folded.jobs))
    assert state is not None
    return state, jobs


def reported(job: ReadyJob) -> dict[str, tuple[int, list[str]]]:
    return {part.leaf.split(":")[1]: (part.count, [each.id for each in part.events]) for part in job.contributions}


def landed(count: int, *parts: Partition) -> PartitionsAdded:
    return PartitionsAdded(FLIGHTS, parts, count)


def test_x_x_y_y_under_and_fires_twice_each_with_its_own_pair() -> None:
    _, jobs = after(PAIRED, named("x") & named("y"), "x", "x", "y", "y")

    assert [[reported(job) for job in some] for some in jobs] == [
        [],
        [],
        [{"default.x": (1, ["e0"]), "default.y": (1, ["e2"])}],
        [{"default.x": (1, ["e1"]), "default.y": (1, ["e3"])}],
    ]


def test_every_two_of_six_fires_three_times() -> None:
    assert [len(some) for some in after(PAIRED, named("x", 2), *["x"] * 6)[1]] == [0, 1, 0, 1, 0, 1]


def test_a_commit_of_seven_where_five_are_wanted_is_divided_five_go_and_two_stay() -> None:
    parts = tuple(Partition(f"p{n}") for n in range(7))

    state, ((job,),) = after(PAIRED, Partitions(FLIGHTS, 5), landed(7, *parts))

    (part,) = job.contributions
    assert (part.count, [each.fact for each in part.events]) == (5, [landed(5, *parts[:5])])
    tree = explain(state)
    assert (tree.have, tree.need, [each.fact for each in tree.events]) == (2, 5, [landed(2, *parts[5:])])


def test_one_signal_may_start_several_jobs_numbered_in_order() -> None:
    state, ((first, second, third),) = after(PAIRED, Partitions(FLIGHTS, 2), landed(7, Partition("p0")))

    assert [job.id for job in (first, second, third)] == [f"default.app.s.1.{n}" for n in (1, 2, 3)]
    assert first.contributions[0].events[0].fact == landed(2, Partition("p0"))
    assert second.contributions[0].events[0].fact == landed(2)
    assert (explain(state).have, state.sequence) == (1, 3)


def test_a_signal_that_would_start_jobs_without_end_starts_a_thousand_and_the_last_takes_the_rest() -> None:
    state, (jobs,) = after(PAIRED, Partitions(FLIGHTS, 1), landed(10**12))

    assert len(jobs) == JOBS_AT_ONCE
    assert sum(job.contributions[0].count for job in jobs) == 10**12
    assert state.accumulations == {}


def test_of_alternatives_that_hold_the_one_written_first_is_used_and_the_other_stays() -> None:
    trigger = (named("x") | named("y")) & named("z")

    _, jobs = after(PAIRED, trigger, "y", "x", "z", "z")

    assert [[*reported(job)] for some in jobs for job in some] == [
        ["default.x", "default.z"],
        ["default.y", "default.z"],
    ]


def test_two_of_three_use_two() -> None:
    trigger = AtLeast(2, (named("x", 2), named("y"), named("z")))

    state, jobs = after(PAIRED, trigger, "x", "z", "y")

    assert [[*reported(job)] for some in jobs for job in some] == [["default.y", "default.z"]]
    assert explain(state).children[0].have == 1, "the x that was not used stays"


def test_a_streams_growth_is_divided_byte_by_byte_and_its_level_stays_known() -> None:
    whole = [StreamSize(CLICKS, size, absolute=True) for size in (100, 170, 180)]

    state, jobs = after(PAIRED, StreamGrowth(CLICKS, 30), *whole)

    assert [[reported(job)["default.clicks"] for job in some] for some in jobs] == [
        [],
        [(30, ["e1"]), (30, ["e1"])],
        [],
    ]
    assert (explain(state).have, explain(state).need) == (20, 30)


def test_bytes_of_a_dataset_go_by_whole_partitions() -> None:
    a, b, unknown, c = Partition("a", bytes=60), Partition("b", bytes=60), Partition("u"), Partition("c", bytes=10)

    state, ((job,),) = after(PAIRED, Total(FLIGHTS, Measure.BYTES, 100), landed(4, a, b, unknown, c))

    assert job.contributions[0].count == 120
    assert job.contributions[0].events[0].fact == landed(3, a, b, unknown)
    assert explain(state).have == 10


def test_latest_keeps_no_more_than_is_wanted_and_drops_the_oldest() -> None:
    parts = tuple(Partition(f"p{n}") for n in range(4))

    state, jobs = after(LATEST, Partitions(FLIGHTS, 3) & named("go"), landed(4, *parts), landed(1), "go")

    (job,) = jobs[-1]
    assert reported(job) == {"default.flights": (3, ["e0", "e1"]), "default.go": (1, ["e2"])}
    assert job.contributions[0].events[0].fact == landed(2, *parts[2:])
    assert state.accumulations == {}


def test_latest_of_a_total_keeps_the_fewest_newest_partitions_that_reach_it() -> None:
    a, b, c = (Partition(name, rows=rows) for name, rows in (("a", 5), ("b", 9), ("c", 2)))

    state, _ = after(LATEST, Total(FLIGHTS, Measure.ROWS, 10) & named("go"), landed(3, a, b, c))

    (child, _) = explain(state).children
    assert (child.have, child.holds, child.events[0].fact) == (11, True, landed(2, b, c))


@pytest.mark.parametrize("consumption", Consumption)
def test_a_definition_carries_its_policy_through_the_log(consumption: Consumption) -> None:
    put = Put(SCHEDULE, 1, True, named("x"), consumption)

    assert signal_codec.decode(*signal_codec.encode(put)) == put
    assert (b"consumption" in signal_codec.encode(put)[1]) is (consumption is not Consumption.CUMULATIVE)


def test_a_policy_that_is_unknown_is_refused_with_its_path() -> None:
    key, value = signal_codec.encode(Put(SCHEDULE, 1, True, named("x"), PAIRED))
    with pytest.raises(InvalidError) as refused:
        signal_codec.decode(key, value.replace(b"paired", b"greedy"))
    assert refused.value.path == "$.consumption"


@pytest.mark.parametrize("given", ["greedy", 3, None])
def test_the_builder_refuses_it_too(given: Any) -> None:
    app = App("app")
    with pytest.raises(InvalidError) as refused:
        app.schedule("s", app.bash("p", "true"), when=event("x"), consumption=given)
    assert refused.value.path == "$.schedules.s.consumption"
