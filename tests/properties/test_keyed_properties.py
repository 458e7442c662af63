"""Triggers that correlate do what one naive machine for each key does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta

from hypothesis import given

from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.time.grain import Grain
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.correlation import OnFull
from streamsched.domain.triggers.timed import Silence, Unless
from streamsched.domain.triggers.trigger import AllOf, AnyOf, CustomEvent, Partitions, Per
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import keyed_strategies as keyed
from tests.support.engine import reported
from tests.support.rerun import Expected, Stamped, rerun
from tests.support.timed_strategies import START

DAY = timedelta(days=1)


def by_key(jobs: Iterable[Expected]) -> dict[str, list[Expected]]:
    found: dict[str, list[Expected]] = defaultdict(list)
    for job in jobs:
        found[job.key].append(job)
    return found


@examples(200)
@given(keyed.logs())
def test_each_key_starts_the_jobs_of_a_machine_of_its_own_whenever_wake_ups_come(log: list[Stamped]) -> None:
    end = log[-1][0] + DAY
    expected = rerun(log, end)

    for prompt in (True, False):
        engine = reported(log, world.SCHEDULE, end=end, prompt=prompt)
        assert by_key(Expected.of(job) for _, job in engine.jobs) == by_key(expected.jobs)
        assert set(engine.cells) == set(expected.keys)
        assert engine.state is not None
        assert engine.state.lost == expected.lost


@examples(150)
@given(keyed.logs(at_most=2, full=OnFull.DROP_OLDEST))
def test_no_more_keys_are_open_than_may_be_and_the_oldest_goes(log: list[Stamped]) -> None:
    end = log[-1][0] + DAY
    expected = rerun(log, end)

    engine = reported(log, world.SCHEDULE, end=end, prompt=True)

    assert by_key(Expected.of(job) for _, job in engine.jobs) == by_key(expected.jobs)
    assert engine.state is not None
    assert engine.state.lost == expected.lost
    assert engine.state.refused == 0


@examples(150)
@given(keyed.logs(at_most=2))
def test_an_event_that_would_open_a_key_too_many_is_refused_whole(log: list[Stamped]) -> None:
    end = log[-1][0] + DAY
    expected = rerun(log, end)

    engine = reported(log, world.SCHEDULE, end=end, prompt=True)

    assert by_key(Expected.of(job) for _, job in engine.jobs) == by_key(expected.jobs)
    assert engine.state is not None
    assert (engine.state.refused, engine.state.lost) == (expected.refused, expected.lost)
    assert engine.state.dropped == 0


def test_a_commit_is_emitted_partition_by_partition_where_only_the_newest_hours_are_kept() -> None:
    """5 and 6 have come, then a commit of 7 and once more 5. For 7 the 5 goes, so it is new."""
    hours = Per(Partitions(keyed.FLIGHTS), ("hour",), Grain.HOUR, rolled_up_to=Grain.DAY, of=2)
    day = Per(CustomEvent(keyed.NAMES[0]), ("day",), Grain.DAY)
    log: list[Stamped] = [(START, Put(world.SCHEDULE, 1, True, AllOf((hours, day)), Consumption.LATEST))]
    for number, named in enumerate((["05"], ["06"], ["07", "05"])):
        rows = tuple(Partition(f"p{hour}", {"hour": f"2013-01-07T{hour}"}) for hour in named)
        commit = PartitionsAdded(keyed.FLIGHTS, rows, len(rows))
        log.append((START, Occurred(Event(f"c{number}", "test", START, commit))))
    approved = CustomHappened(keyed.NAMES[0], {"day": "2013-01-07"})
    log.append((START, Occurred(Event("e", "test", START, approved))))

    engine = reported(log, world.SCHEDULE, end=START + DAY, prompt=True)

    assert [Expected.of(job).reported[0] for _, job in engine.jobs] == [
        ("partitions:default.flights:1:distinct", 2, ("c2",))
    ]
    assert [Expected.of(job) for _, job in engine.jobs] == rerun(log, START + DAY).jobs


def test_a_silence_outlives_the_firing_of_another_that_left_events_when_wake_ups_are_late() -> None:
    """At 10 minutes one silence fires while `a` is counted; the flight then only vetoes `a`. The other still runs."""
    a, ten = CustomEvent(keyed.NAMES[0]), timedelta(minutes=10)
    vetoed = Unless(a, Partitions(keyed.FLIGHTS), within=2 * ten)
    when = Per(AnyOf((vetoed, AnyOf((Silence(a, ten), Silence(a, 2 * ten))))), ("customer",), expires=2 * ten)
    flight = PartitionsAdded(keyed.FLIGHTS, (Partition("p0", {"customer": "a"}),), 1)
    log: list[Stamped] = [
        (START, Put(world.SCHEDULE, 1, True, when, Consumption.PAIRED)),
        (START, Occurred(Event("e0", "test", START, CustomHappened(keyed.NAMES[0], {"customer": "a"})))),
        (START + ten, Occurred(Event("e1", "test", START + ten, flight))),
    ]

    for prompt in (True, False):
        engine = reported(log, world.SCHEDULE, end=START + DAY, prompt=prompt)
        assert [Expected.of(job).at for _, job in engine.jobs] == [START + ten, START + 2 * ten]
        assert engine.cells == {}
    assert [job.at for job in rerun(log, START + DAY).jobs] == [START + ten, START + 2 * ten]
