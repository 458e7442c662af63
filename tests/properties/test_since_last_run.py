"""`since_last_run`: the timers' rule and the fold together, against a world in which jobs reach PostgreSQL late, ticks
reach the fold late, and runs end at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.events import native
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import CustomHappened, Event, Ticked
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.ticks.since_last_run import RunActivity, due_tick, next_tick
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import CustomEvent, SinceLastRun, leaf_id

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
REST = 5 * MINUTE
REF = ScheduleRef("default", "a", "s")
SINCE = SinceLastRun(REST)
SINCE_ID = leaf_id(SINCE)
GO = CustomEvent(EventName("default", "go"))
EITHER = SINCE | GO

#: What happens next in the world: time passes by a minute, an event comes, the oldest tick or job on its way arrives,
#: the oldest run ends, the definition changes and keeps.
STEPS = st.sampled_from(["minute", "minute", "minute", "event", "tick", "job", "end", "change"])


@dataclass
class World:
    """A schedule, its timer, and what is on its way between them."""

    consumption: Consumption
    now: datetime = START
    state: TriggerState | None = None
    due_at: datetime = START + REST
    ticks: list[Ticked] = field(default_factory=list)
    launched: list[ReadyJob] = field(default_factory=list)
    active: list[ReadyJob] = field(default_factory=list)
    ended_at: datetime | None = None
    latest: tuple[int, int] = (0, 0)
    number: int = 0
    #: When jobs were satisfied by time alone.
    rests: list[datetime] = field(default_factory=list)

    def put(self) -> None:
        generation = 1 if self.state is None else self.state.generation + 1
        keep = self.state is not None
        self._folded(Put(REF, generation, True, EITHER, self.consumption, keep=keep))

    def step(self, name: str) -> None:
        match name:
            case "minute":
                self.now += MINUTE
            case "event":
                self.number += 1
                self._folded(Occurred(Event(f"e{self.number}", "test", self.now, CustomHappened(GO.name))))
            case "tick" if self.ticks:
                fact = self.ticks.pop(0)
                self._folded(Occurred(Event("tick", "test", fact.due_at, fact)))
            case "job" if self.launched:
                job = self.launched.pop(0)
                self.active.append(job)
                self.latest = max(self.latest, (job.generation, job.sequence))
            case "end" if self.active:
                self.active.pop(0)
                self.ended_at = self.now
            case "change":
                self.put()
            case _:
                pass
        self.look()

    def look(self) -> None:
        """The timers look when their timer is due."""
        assert self.state is not None
        if self.due_at > self.now:
            return
        recent = self.ended_at if self.ended_at is not None and self.ended_at > self.now - REST else None
        tick, self.due_at = due_tick(REST, self.due_at, RunActivity(bool(self.active), recent, self.latest), self.now)
        if tick is not None:
            self.ticks.append(Ticked(REF, self.state.generation, SINCE_ID, tick, self.latest))

    def _folded(self, signal: Put | Occurred) -> None:
        before = self.state
        self.state = fold(before, signal, at=self.now).state
        again = fold(before, signal, at=self.now)
        assert again.state == self.state, "the same signal gives the same state"
        for job in again.jobs:
            if any(part.leaf == SINCE_ID for part in job.contributions):
                assert not self.active, "a run is active"
                assert not self.launched, "a job is on its way"
                since = START if self.ended_at is None else self.ended_at
                assert self.now >= since + REST, "too early"
                self.rests.append(self.now)
            self.launched.append(job)


@given(st.lists(STEPS, max_size=120), st.sampled_from(Consumption))
def test_it_fires_after_the_rest_and_never_beside_a_job(steps: list[str], consumption: Consumption) -> None:
    world = World(consumption)
    world.put()

    for step in steps:
        world.step(step)


@given(st.lists(STEPS, max_size=60), st.sampled_from(Consumption))
def test_it_always_comes_again(steps: list[str], consumption: Consumption) -> None:
    world = World(consumption)
    world.put()
    for step in steps:
        world.step(step)
    for _ in range(len(world.launched) + len(world.active)):
        world.step("job")
        world.step("end")

    ended_at, before = world.ended_at or START, len(world.rests)
    fired = world.now
    for _ in range(3 * REST // MINUTE):
        if len(world.rests) > before:
            break
        world.step("tick")
        fired = world.now
        world.step("minute")

    assert len(world.rests) > before
    # A tick that was on its way to a former definition is void; the next comes after another rest.
    assert fired - max(ended_at, world.rests[before] - 3 * REST) <= 3 * REST


@given(st.lists(st.sampled_from(["minute", "end"]), max_size=200))
def test_with_prompt_delivery_it_fires_exactly_when_a_naive_clock_says(steps: list[str]) -> None:
    world = World(Consumption.CUMULATIVE)
    world.put()
    expected: list[datetime] = []
    idle_since: datetime | None = START

    for step in steps:
        if step == "end" and idle_since is not None:
            continue
        world.step(step)
        world.step("tick")
        world.step("job")
        if step == "end":
            idle_since = world.now
        elif idle_since is not None and world.now == idle_since + REST:
            expected.append(world.now)
            idle_since = None

    assert world.rests == expected


@given(st.integers(0, 1000), st.integers(0, 1000), st.booleans(), st.integers(0, 1000))
def test_a_timer_looks_again_no_later_than_a_tick_may_be_due(due: int, late: int, active: bool, ended: int) -> None:
    due_at, now = START + due * MINUTE, START + (due + late) * MINUTE
    ended_at = now - ended * MINUTE
    last_run = RunActivity(active, ended_at if now - ended_at < REST else None)

    found = due_tick(REST, due_at, last_run, now)

    assert now < found.next_at <= now + REST
    assert (found.tick is None) == (active or ended * MINUTE < REST)
    assert next_tick(REST, due_at, last_run) == (
        None if active else due_at if last_run.ended_at is None else max(due_at, ended_at + REST)
    )


def test_a_tick_is_void_when_a_later_job_exists_also_across_a_change_that_keeps() -> None:
    world = World(Consumption.CUMULATIVE)
    world.put()
    world.step("event")
    world.put()
    assert world.state is not None
    assert world.state.definition.former == (1, 1)
    assert state_codec.decode(state_codec.encode(world.state)) == world.state

    void = Ticked(REF, 2, SINCE_ID, START, (1, 0))
    folded = fold(world.state, Occurred(Event("t", "test", START, void)), at=START)
    assert (folded.jobs, folded.verdict is not None and folded.verdict.verdict) == ((), Verdict.UNMATCHED)

    valid = Ticked(REF, 2, SINCE_ID, START, (1, 1))
    assert len(fold(world.state, Occurred(Event("t", "test", START, valid)), at=START).jobs) == 1


@given(st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)))
def test_a_tick_names_the_job_it_comes_after(after: tuple[int, int]) -> None:
    event = Event("t", "test", START, Ticked(REF, 1, SINCE_ID, START, after))

    assert native.from_json(native.to_plain(native.to_json(event))) == event


@pytest.mark.parametrize("consumption", list(Consumption))
def test_while_it_holds_further_ticks_add_nothing_and_any_satisfaction_starts_it_over(consumption: Consumption) -> None:
    other = CustomEvent(EventName("default", "other"))
    trigger = (SINCE & GO) | other
    state = fold(None, Put(REF, 1, True, trigger, consumption), at=START).state
    for number in range(3):
        tick = Event(f"t{number}", "test", START, Ticked(REF, 1, SINCE_ID, START, (0, 0)))
        folded = fold(state, Occurred(tick), at=START)
        assert folded.verdict is not None
        assert folded.verdict.verdict is (Verdict.UNMATCHED if number else Verdict.COUNTED)
        state = folded.state

    folded = fold(state, Occurred(Event("o", "test", START, CustomHappened(other.name))), at=START)
    assert len(folded.jobs) == 1
    folded = fold(folded.state, Occurred(Event("g", "test", START, CustomHappened(GO.name))), at=START)

    assert folded.jobs == ()
