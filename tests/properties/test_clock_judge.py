"""The judge of the database's clock beside a naive model that knows what the clock did, and in worlds of several
processes: drift, jumps forward and back, paused machines, processes that start in the wrong minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamsched.domain.clock_judge import (
    FIRST,
    HELD,
    HELD_LONG,
    SMALL,
    ClockFact,
    ClockMeasurement,
    ClockRecord,
    ClockView,
    confirm_clock,
    judge_clock,
)

START = datetime(2026, 11, 27, 12, tzinfo=UTC)
YEAR = 365 * 86400.0
#: Seconds by which the database's clock is off. After 40 minutes of doubt a difference below 8.4 may be drift.
OFFS = [0.0, 9.0, -9.0, 20.0, -20.0, 600.0, 2400.0, -2400.0, 3600.0, -3600.0, 86400.0, -86400.0, YEAR, -YEAR]


@dataclass
class World:
    """One database's clock and the record; time in seconds of truth."""

    t: float = 0.0
    off: float = 0.0
    record: ClockRecord = field(default_factory=ClockRecord)
    facts: list[ClockFact] = field(default_factory=list)

    def truth(self, off: float = 0.0) -> datetime:
        return START + timedelta(seconds=self.t + off)


@dataclass
class Process:
    """A process: its monotonic clock is `mono` seconds behind the truth and runs `drift` too fast."""

    world: World
    own_off: float = 0.0
    lag: float = 0.0
    drift: float = 0.0
    view: ClockView | None = None

    def monotonic(self) -> float:
        return (self.world.t - self.lag) * (1 + self.drift)

    def measure(self, took: float = 0.01) -> None:
        world = self.world
        for _ in range(3):
            after = self.monotonic()
            found = ClockMeasurement(world.truth(world.off - took / 2), after - took, after, world.truth(self.own_off))
            self.view, proposal = judge_clock(self.view, found, world.record)
            if proposal is None:
                return
            assert proposal.record.number == world.record.number + 1
            world.record = proposal.record
            world.facts.append(proposal.fact)

    @property
    def settled(self) -> bool:
        assert self.view is not None
        return not self.view.in_doubt

    def off(self) -> float:
        """Seconds from the truth."""
        assert self.view is not None
        return (self.view.now(self.monotonic()) - self.world.truth()).total_seconds()

    def pause(self) -> float:
        return 5.0 if self.settled else 1.0


@dataclass
class Seen:
    """One measurement: when on the monotonic clock, how far off the database's and this machine's own clock were, and
    what the process made of it.
    """

    at: float
    off: float
    own: float
    settled: bool
    believed: float


def expected(seen: list[Seen]) -> list[tuple[float, bool]]:
    """For each measurement of a clock whose every step is known, by the definition: how far off the time to go by is,
    and whether the clock is settled.
    """
    found: list[tuple[float, bool]] = []
    believed, changed, doubted = 0.0, None, 0.0
    for number, each in enumerate(seen):
        if number and each.off != seen[number - 1].off:
            changed, doubted = each.at, each.off - believed
        if changed is not None:
            agreed = round(each.at - changed, 6)
            small, second = abs(doubted) <= SMALL.total_seconds(), abs(each.own - each.off) <= 5
            if each.off == believed and agreed >= HELD.total_seconds():
                changed = None
            elif (
                each.off != believed and agreed >= (HELD if small else HELD_LONG).total_seconds() and (small or second)
            ):
                believed, changed = each.off, None
        found.append((believed, changed is None))
    return found


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from(OFFS), st.booleans()), min_size=1, max_size=6),
    st.floats(-0.0004, 0.0004),
)
def test_one_process_believes_what_the_definition_says(steps: list[tuple[int, float, bool]], drift: float) -> None:
    world = World()
    process = Process(world, drift=drift)
    process.measure()
    seen = [Seen(process.monotonic(), 0.0, 0.0, process.settled, process.off())]
    for lasts, off, own_follows in steps:
        end = world.t + lasts
        world.off, process.own_off = off, off if own_follows else process.own_off
        while world.t < end:
            world.t += process.pause()
            process.measure()
            seen.append(Seen(process.monotonic(), off, process.own_off, process.settled, process.off()))

    wanted = expected(seen)
    assert [each.settled for each in seen] == [settled for _, settled in wanted], world.facts
    # A long doubt is counted by a clock that drifts.
    wrong = [each for each, (off, _) in zip(seen, wanted, strict=True) if abs(each.believed - off) > 1 + each.at / 1000]
    assert not wrong, world.facts


@given(st.floats(-0.0005, 0.0005), st.floats(0, 3), st.lists(st.floats(0, 60), max_size=50))
def test_drift_and_slow_answers_are_no_jump(drift: float, off: float, took: list[float]) -> None:
    world = World(off=off)
    process = Process(world, drift=drift)
    process.measure()
    for seconds in took:
        world.t += 5 + seconds
        process.measure(took=seconds)
        assert process.settled
        assert abs(process.off() - off) <= 1 + seconds * 0.01

    assert world.facts == []


@pytest.mark.parametrize("step", [4.0, -4.0])
def test_steps_that_add_up_are_a_jump(step: float) -> None:
    world = World()
    process = Process(world)
    for _ in range(3):
        process.measure()
        world.t += 5
        world.off += step
    process.measure()

    assert not process.settled
    assert world.facts[:1] == [ClockFact.JUMPED]


def test_a_clock_at_double_speed_is_never_believed() -> None:
    world = World()
    process = Process(world)
    for _ in range(600):
        process.measure()
        world.t += 1
        world.off += 1

    assert not process.settled
    assert abs(process.off()) < 10


@settings(max_examples=100, deadline=None)
@given(
    st.integers(2, 4), st.floats(7, 200_000), st.lists(st.floats(0, 5), min_size=4, max_size=4), st.sampled_from([0, 1])
)
def test_a_paused_machine_disturbs_no_other_and_follows_them(
    processes: int, paused: float, phases: list[float], others_on_it: int
) -> None:
    world = World()
    all_of_them = [Process(world) for _ in range(processes + others_on_it)]
    sleepers, watchers = all_of_them[: 1 + others_on_it], all_of_them[1 + others_on_it :]
    for each in all_of_them:
        each.measure()
    next_at = {id(each): phase for each, phase in zip(all_of_them, [*phases, 0.0], strict=False)}

    def turn(until: float, awake: list[Process]) -> None:
        while min(next_at[id(each)] for each in awake) <= until:
            each = min(awake, key=lambda one: next_at[id(one)])
            world.t = max(world.t, next_at[id(each)])
            each.measure()
            next_at[id(each)] = world.t + each.pause()
            for other in watchers:
                assert other.settled or other.view is None
                assert abs(other.off()) < 1

    turn(60, all_of_them)
    turn(60 + min(paused, 600), watchers)
    if paused > 600:
        world.t += paused - 600
        for each in watchers:
            next_at[id(each)] = world.t
        turn(world.t + 5, watchers)
    for each in sleepers:
        each.lag = paused
        next_at[id(each)] = world.t
    turn(world.t + 12, all_of_them)

    assert all(each.settled and abs(each.off()) < 1 for each in all_of_them), world.facts
    assert world.record.ahead == timedelta(0)
    assert ClockFact.ACCEPTED not in world.facts


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.sampled_from([off for off in OFFS if abs(off) > 3000]), st.integers(0, 90), st.data())
def test_no_process_believes_a_wrong_minute_whenever_it_started(
    processes: int, off: float, starts_at: int, data: st.DataObject
) -> None:
    """A jump for a minute; a further process starts at any second of it. It knows nothing until the jump was judged; no
    other ever goes by the wrong time, and all are settled again half a minute after it.
    """
    world = World()
    running = [Process(world) for _ in range(processes)]
    for each in running:
        each.measure()
    next_at: dict[int, float] = {id(each): data.draw(st.integers(0, 5)) for each in running}
    newcomer = Process(world)
    for second in range(200):
        world.t = float(second)
        world.off = off if 20 <= second < 80 else 0.0
        if second == 10 + starts_at:
            running.append(newcomer)
            next_at[id(newcomer)] = second
        for each in running:
            if next_at[id(each)] <= second:
                each.measure()
                next_at[id(each)] = second + each.pause()
            old = each is not newcomer or second >= 10 + starts_at + 12
            assert not (each.settled and abs(each.off()) > 1), (second, world.facts)
            assert abs(each.off()) < 1 or not old, (second, world.facts)
        if second >= 80 + 6 + 31:
            assert all(each.settled for each in running if each is not newcomer), world.facts

    assert all(each.settled for each in running), world.facts


def test_a_person_confirms() -> None:
    world = World()
    first, second = Process(world), Process(world)
    for each in (first, second):
        each.measure()
    world.off = YEAR
    for _ in range(1000):
        world.t += 1
        first.measure()
        second.measure()
    assert not first.settled
    assert abs(first.off()) < 2

    proposal = confirm_clock(world.record)
    assert proposal is not None
    assert proposal.fact is ClockFact.CONFIRMED
    world.record = proposal.record
    for each in (first, second):
        each.measure()
        assert each.settled
        assert each.off() == pytest.approx(YEAR, abs=1)
    assert confirm_clock(world.record) is None


def test_a_machine_with_a_wrong_clock_waits_for_others_before_it_believes_the_database() -> None:
    world = World()
    process = Process(world, own_off=86400.0)
    process.measure()
    assert not process.settled
    assert abs(process.off()) < 1

    world.t += FIRST.total_seconds() + 1
    process.measure()

    assert process.settled
    assert world.facts == []


def test_what_the_clock_should_say_is_known_while_it_is_steady() -> None:
    """Leases go by the database's clock, right or not: only a jump of half a minute ago makes them wait."""
    world = World()
    process = Process(world)
    process.measure()
    assert process.view is not None
    assert process.view.database_time(process.monotonic()) == pytest.approx(world.truth(), abs=timedelta(seconds=1))
    assert process.view.is_steady(process.monotonic())

    world.off, world.t = YEAR, 5.0
    process.measure()
    assert process.view.database_time(process.monotonic()) == pytest.approx(world.truth(YEAR), abs=timedelta(seconds=1))
    assert not process.view.is_steady(process.monotonic())

    world.t += 31
    process.measure()
    assert process.view.is_steady(process.monotonic())
    assert process.view.database_time(process.monotonic()) == pytest.approx(world.truth(YEAR), abs=timedelta(seconds=1))
    assert not process.settled


def test_a_record_that_another_stored_first_is_read_again() -> None:
    world = World()
    process = Process(world)
    process.measure()
    assert process.view is not None
    world.t, world.off = 5.0, YEAR
    found = ClockMeasurement(world.truth(YEAR), 5.0, 5.0, world.truth())
    view, proposal = judge_clock(process.view, found, world.record)
    assert proposal is not None
    assert view.in_doubt

    other = ClockRecord(1, timedelta(seconds=YEAR), START)
    view, proposal = judge_clock(view, found, other)

    assert proposal is None
    assert view.number == 1
    assert view.ahead == timedelta(seconds=YEAR)
    assert view.now(5.0) == pytest.approx(START + timedelta(seconds=5), abs=timedelta(seconds=1))
