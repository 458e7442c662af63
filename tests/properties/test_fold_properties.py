"""The fold does what a reader of the whole log would do, and keeps the laws of the algebra."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import Event, Fact
from streamsched.domain.fold.accumulation import NOTHING, amount_and_parts
from streamsched.domain.fold.explain import Explanation, explain
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.signals.signal import Drop, Occurred, Put, Signal
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import AllOf, AnyOf, Trigger
from streamsched.testing import strategies as world
from streamsched.testing.examples import examples
from tests.support import strategies as drawn
from tests.support.rerun import Stamped, numbered, progress

AT = datetime(2013, 1, 7, tzinfo=UTC)
THOROUGH = examples(250)
USUAL = examples(80)


def run(
    log: Sequence[Signal], state: TriggerState | None = None
) -> tuple[TriggerState | None, list[tuple[int, ReadyJob]]]:
    """The state after a log and the jobs, each with the place of the signal that completed it."""
    jobs: list[tuple[int, ReadyJob]] = []
    for place, signal in enumerate(log):
        folded = fold(state, signal, at=AT)
        state = folded.state
        jobs += [(place, job) for job in folded.jobs]
    return state, jobs


def stamped(log: Sequence[Signal]) -> list[Stamped]:
    return [(AT, signal) for signal in log]


def plain(jobs: Sequence[tuple[int, ReadyJob]]) -> list[tuple[object, ...]]:
    return [
        (
            place,
            job.generation,
            job.sequence,
            tuple((c.leaf, c.count, tuple(event.id for event in c.events)) for c in job.contributions),
        )
        for place, job in jobs
    ]


def has_now(state: TriggerState | None) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Leaf → what would go with a job now."""
    slots = () if state is None else state.plan.slots
    found = {
        slot.leaf: amount_and_parts(state.accumulations.get(slot.id, NOTHING), slot)
        for slot in slots
        if state is not None
    }
    return {leaf: (count, tuple(event.id for event in events)) for leaf, (count, events) in found.items() if events}


def fired(trigger: Trigger, log: Sequence[Signal]) -> list[int]:
    """Where a trigger fires on the events of a log."""
    return [place for place, _ in run([Put(world.SCHEDULE, 1, True, trigger), *log[1:]])[1]]


def unordered(jobs: Sequence[tuple[int, ReadyJob]]) -> list[tuple[object, ...]]:
    return [(place, job.id, {c.leaf: (c.count, c.events) for c in job.contributions}) for place, job in jobs]


@THOROUGH
@given(drawn.logs())
def test_the_fold_starts_the_jobs_that_a_rescan_of_the_whole_log_would_start(log: list[Signal]) -> None:
    state, jobs = run(log)

    assert plain(jobs) == numbered(stamped(log))
    assert has_now(state) == progress(stamped(log))


@USUAL
@given(drawn.logs(control=False))
def test_without_changes_of_definition_too(log: list[Signal]) -> None:
    assert plain(run(log)[1]) == numbered(stamped(log))


@THOROUGH
@given(drawn.logs(), st.data())
def test_a_log_split_anywhere_with_the_state_through_its_bytes_gives_the_same(
    log: list[Signal], data: st.DataObject
) -> None:
    cuts = data.draw(st.sets(st.integers(0, len(log)), max_size=4))
    whole, jobs = run(log)

    state: TriggerState | None = None
    split: list[tuple[int, ReadyJob]] = []
    for place, signal in enumerate(log):
        if place in cuts and state is not None:
            state = state_codec.decode(state_codec.encode(state))
        folded = fold(state, signal_codec.decode(*signal_codec.encode(signal)), at=AT)
        state = folded.state
        split += [(place, job) for job in folded.jobs]

    assert split == jobs
    assert state == whole


@USUAL
@given(world.triggers(), world.triggers(), drawn.logs(control=False))
def test_and_and_or_commute(a: Trigger, b: Trigger, log: list[Signal]) -> None:
    for one, other in ((a & b, b & a), (a | b, b | a)):
        jobs = [run([Put(world.SCHEDULE, 1, True, trigger), *log[1:]])[1] for trigger in (one, other)]
        assert unordered(jobs[0]) == unordered(jobs[1])


@USUAL
@given(world.triggers(3), world.triggers(3), world.triggers(3), drawn.logs(control=False))
def test_and_and_or_associate(a: Trigger, b: Trigger, c: Trigger, log: list[Signal]) -> None:
    for kind in (AllOf, AnyOf):
        shapes = kind((a, kind((b, c)))), kind((kind((a, b)), c)), kind((a, b, c))
        first, *others = (run([Put(world.SCHEDULE, 1, True, shape), *log[1:]])[1] for shape in shapes)
        assert all(other == first for other in others)


@USUAL
@given(world.triggers(), world.triggers(), drawn.logs(control=False))
def test_absorption_and_idempotence(a: Trigger, b: Trigger, log: list[Signal]) -> None:
    alone = fired(a, log)

    assert fired(a & (a | b), log) == alone
    assert fired(a | (a & b), log) == alone
    assert fired(a & a, log) == alone
    assert fired(a | a, log) == alone


@USUAL
@given(drawn.logs())
def test_once_satisfied_a_branch_stays_so_until_the_whole_fires(log: list[Signal]) -> None:
    state: TriggerState | None = None
    for signal in log:
        folded = fold(state, signal, at=AT)
        same = state is not None and folded.state is not None and folded.state.generation == state.generation
        if state is not None and folded.state is not None and same and not folded.effects:
            assert not lost(explain(state), explain(folded.state))
        state = folded.state
        if state is not None:
            assert not explain(state).holds, "what holds has fired"


def lost(before: Explanation, after: Explanation) -> bool:
    shrinks = before.distinct and re.match(
        r"\d+ new (bytes|rows) ", before.text
    )  # a smaller size replaces a larger one
    fewer = not shrinks and min(before.have, before.need) > min(after.have, after.need)
    gone = (before.holds and not after.holds) or fewer
    return gone or any(lost(*pair) for pair in zip(before.children, after.children, strict=True))


@USUAL
@given(drawn.logs(), st.integers(0, 9), world.triggers(), st.booleans())
def test_a_redelivered_or_older_definition_changes_nothing(
    log: list[Signal], back: int, trigger: Trigger, enabled: bool
) -> None:
    state, _ = run(log)
    assume(state is not None)
    assert state is not None
    generation = max(0, state.generation - back)

    folded = fold(state, Put(world.SCHEDULE, generation, enabled, trigger), at=AT)

    assert folded.state is state
    assert folded.effects == ()


@USUAL
@given(st.none() | drawn.trigger_states(), drawn.signals())
def test_any_signal_meets_any_state(state: TriggerState | None, signal: Signal) -> None:
    before = None if state is None else state_codec.encode(state)

    folded = fold(state, signal, at=AT)

    assert folded == fold(state, signal, at=AT), "the same twice: nothing inside remembers"
    assert before == (None if state is None else state_codec.encode(state)), "the state that came in is untouched"
    if folded.state is not None:
        assert state_codec.decode(state_codec.encode(folded.state)) == folded.state


class ScheduleHome(RuleBasedStateMachine):
    """Events, ticks, definitions, drops and restarts in any order, beside a model that rescans the log."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[Signal] = []
        self.state: TriggerState | None = None
        self.jobs: list[tuple[int, ReadyJob]] = []

    def tell(self, signal: Signal) -> None:
        folded = fold(self.state, signal, at=AT)
        self.state = folded.state
        self.jobs += [(len(self.log), job) for job in folded.jobs]
        self.log.append(signal)

    @initialize(trigger=world.triggers(), consumption=world.consumptions())
    def create(self, trigger: Trigger, consumption: Consumption) -> None:
        self.tell(Put(world.SCHEDULE, 1, True, trigger, consumption))

    @rule(some=st.lists(world.small_facts(), min_size=1, max_size=5))
    def happen_somehow(self, some: list[Fact]) -> None:
        self.happen(some)

    def happen(self, some: list[Fact]) -> None:
        for fact in some:
            self.tell(Occurred(Event(f"e{len(self.log)}", "machine", AT, fact)))

    @rule(data=st.data(), some=st.integers(1, 8))
    def happen_as_wanted(self, data: st.DataObject, some: int) -> None:
        if self.state is not None:
            heard = world.facts_heard(self.state.trigger, self.state.generation)
            self.happen(data.draw(st.lists(heard, min_size=some, max_size=some)))

    @rule(trigger=world.triggers(), enabled=st.booleans(), consumption=world.consumptions())
    def change(self, trigger: Trigger, enabled: bool, consumption: Consumption) -> None:
        newest = max((s.generation for s in self.log if isinstance(s, Put | Drop)), default=0)
        self.tell(Put(world.SCHEDULE, newest + 1, enabled, trigger, consumption))

    @rule(trigger=world.triggers(), generation=st.integers(0, 2))
    def redeliver_an_old_definition(self, trigger: Trigger, generation: int) -> None:
        if self.state is not None and generation <= self.state.generation:
            self.tell(Put(world.SCHEDULE, generation, True, trigger))

    @rule(generation=st.integers(0, 3))
    def drop(self, generation: int) -> None:
        self.tell(Drop(world.SCHEDULE, generation))

    @rule()
    def restart(self) -> None:
        if self.state is not None:
            self.state = state_codec.decode(state_codec.encode(self.state))

    @invariant()
    def jobs_are_those_of_a_rescan(self) -> None:
        assert plain(self.jobs) == numbered(stamped(self.log))

    @invariant()
    def job_ids_are_unique_within_a_life(self) -> None:
        if not any(isinstance(signal, Drop) for signal in self.log):
            ids = [job.id for _, job in self.jobs]
            assert len(set(ids)) == len(ids)


ScheduleHome.TestCase.settings = examples(60, steps=25)
TestScheduleHome = ScheduleHome.TestCase
