"""Triggers that mind the clock do what a naive machine does that is given the whole log anew for every question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import state as state_codec
from streamsched.domain.fold.cell import next_due_at
from streamsched.domain.fold.explain import explain
from streamsched.domain.signals.signal import Drop, Put, Woken
from streamsched.domain.triggers.trigger import AllOf, AnyOf, Trigger
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import timed_strategies as timed
from tests.support.engine import Engine, reported
from tests.support.rerun import Expected, Stamped, rerun

LONG = timedelta(days=1)
THOROUGH = examples(250)
USUAL = examples(80)


def end_of(log: Sequence[Stamped]) -> datetime:
    return log[-1][0] + LONG


def jobs_of(engine: Engine) -> list[Expected]:
    return [Expected.of(job) for _, job in engine.jobs]


@THOROUGH
@given(timed.logs(), st.booleans())
def test_the_fold_starts_the_jobs_that_the_naive_machine_starts(log: list[Stamped], prompt: bool) -> None:
    expected = rerun(log, end_of(log))

    engine = reported(log, world.SCHEDULE, end=end_of(log), prompt=prompt)

    assert jobs_of(engine) == expected.jobs


@examples(100)
@given(timed.logs(), st.lists(st.integers(0, 5), min_size=1))
def test_a_wake_up_is_asked_for_whenever_time_alone_would_change_something(log: list[Stamped], lets: list[int]) -> None:
    """Some wake-ups come, twice, late or when they are no longer awaited; the jobs are the same."""
    engine = Engine(world.SCHEDULE)
    for place, (at, signal) in enumerate(log):
        let = lets[place % len(lets)]
        if let == 1:
            engine.wake_up(at)
        if let == 2 and engine.state is not None:
            engine.tell(at, Woken(world.SCHEDULE, 0, "", at - timed.STEP))
        engine.tell(at, signal)
        if let == 3 and isinstance(signal, Put | Drop):
            before = engine.state
            assert engine.tell(at, signal).state is before, "a change that comes again changes nothing"
        state = engine.state
        due = None if state is None else next_due_at(state.plan, state.cell)
        assert due is None or (state is not None and state.cell.asked is not None and state.cell.asked <= due)
        if state is not None:
            assert state.cell.asked in (None, engine.asked.get("")), "what it waits for is what the timers have"
            assert state_codec.decode(state_codec.encode(state)) == state
            assert not explain(state).holds or not state.is_enabled
    engine.wake_up(end_of(log))

    assert jobs_of(engine) == rerun(log, end_of(log)).jobs


@examples(80)
@given(timed.triggers(3), timed.triggers(3), timed.logs(control=False))
def test_and_and_or_commute_and_absorb(a: Trigger, b: Trigger, log: list[Stamped]) -> None:
    def fired(trigger: Trigger) -> list[tuple[datetime, object]]:
        mine = [(log[0][0], Put(world.SCHEDULE, 1, True, trigger)), *log[1:]]
        jobs = jobs_of(reported(mine, world.SCHEDULE, end=end_of(log), prompt=False))
        return [(job.at, sorted(job.reported)) for job in jobs]

    assert fired(a & b) == fired(b & a)
    assert fired(a | b) == fired(b | a)
    assert fired(AllOf((a, AllOf((b, a))))) == fired(AllOf((AllOf((a, b)), a)))
    assert [at for at, _ in fired(a & a)] == [at for at, _ in fired(a | a)] == [at for at, _ in fired(a)]


@USUAL
@given(timed.triggers(2), timed.triggers(2), timed.triggers(2), timed.logs(control=False))
def test_and_and_or_associate(a: Trigger, b: Trigger, c: Trigger, log: list[Stamped]) -> None:
    for kind in (AllOf, AnyOf):
        fired = [
            jobs_of(
                reported(
                    [(log[0][0], Put(world.SCHEDULE, 1, True, shape)), *log[1:]],
                    world.SCHEDULE,
                    end=end_of(log),
                    prompt=True,
                )
            )
            for shape in (kind((a, kind((b, c)))), kind((kind((a, b)), c)), kind((a, b, c)))
        ]
        assert fired[0] == fired[1] == fired[2]


@USUAL
@given(timed.logs(), st.booleans())
def test_two_engines_that_are_given_the_same_log_agree(log: list[Stamped], prompt: bool) -> None:
    one, other = (reported(log, world.SCHEDULE, end=end_of(log), prompt=prompt) for _ in range(2))

    assert one.jobs == other.jobs
    assert one.state == other.state
    if one.state is not None and other.state is not None:
        assert state_codec.encode(one.state) == state_codec.encode(other.state)
