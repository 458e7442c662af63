"""What the fold does while a schedule drains or collects a backlog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.names import EventName
from streamsched.domain.schedules.pause import MOST_BACKLOG
from streamsched.domain.signals.signal import Occurred, Put, Signal, Woken
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.timed import Silence, Then
from streamsched.domain.triggers.trigger import CustomEvent, Trigger
from streamsched.testing.strategies import SCHEDULE, consumptions, facts_heard, triggers

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
A, B = CustomEvent(EventName("default", "a")), CustomEvent(EventName("default", "b"))


def put(
    generation: int,
    trigger: Trigger,
    consumption: Consumption = Consumption.CUMULATIVE,
    *,
    draining: bool = False,
    backlog: bool = False,
) -> Put:
    """Of a change that keeps."""
    return Put(SCHEDULE, generation, not draining, trigger, consumption, keep=True, draining=draining, backlog=backlog)


def event(leaf: CustomEvent, number: int = 0) -> Occurred:
    return Occurred(Event(f"{leaf.name}{number}", "test", START, CustomHappened(leaf.name)))


def folded(signals: Sequence[Signal], *, at: datetime = START) -> tuple[TriggerState | None, list[ReadyJob]]:
    """Every record of it decodes to an equal value."""
    state, jobs = None, list[ReadyJob]()
    for signal in signals:
        assert signal_codec.decode(*signal_codec.encode(signal)) == signal
        found = fold(state, signal, at=at)
        state = found.state
        jobs += found.jobs
        if state is not None:
            assert state_codec.decode(state_codec.encode(state)).definition == state.definition
    for job in jobs:
        assert launch_codec.decode(launch_codec.encode(job)) == job
    return state, jobs


@st.composite
def stretches(draw: st.DrawFn) -> tuple[Trigger, list[list[Occurred]]]:
    """A trigger, and events for it under three generations."""
    trigger, number, found = draw(triggers()), 0, list[list[Occurred]]()
    for generation in (1, 2, 3):
        facts = draw(st.lists(facts_heard(trigger, generation), max_size=8))
        found.append([Occurred(Event(f"e{number + n}", "test", START, fact)) for n, fact in enumerate(facts)])
        number += len(facts)
    return trigger, found


@given(stretches(), consumptions())
def test_what_comes_while_it_drains_has_never_come(
    drawn: tuple[Trigger, list[list[Occurred]]], consumption: Consumption
) -> None:
    trigger, (before, meanwhile, after) = drawn
    begin, drain = put(1, trigger, consumption), put(2, trigger, consumption, draining=True)
    resume = put(3, trigger, consumption)

    _, jobs = folded([begin, *before, drain, *meanwhile, resume, *after])
    _, expected = folded([begin, *before, drain, resume, *after])

    assert jobs == expected


@given(stretches(), consumptions())
def test_a_backlog_has_the_jobs_of_an_enabled_schedule_each_by_itself(
    drawn: tuple[Trigger, list[list[Occurred]]], consumption: Consumption
) -> None:
    trigger, (before, meanwhile, after) = drawn
    begin, resume = put(1, trigger, consumption), put(3, trigger, consumption)
    backlog, enabled = put(2, trigger, consumption, backlog=True), put(2, trigger, consumption)

    _, jobs = folded([begin, *before, backlog, *meanwhile, resume, *after])
    _, expected = folded([begin, *before, enabled, *meanwhile, resume, *after])

    assert jobs == [replace(job, backlog=job.generation == 2) for job in expected]


def test_an_event_while_it_drains_has_the_verdict_of_a_disabled_schedule() -> None:
    state, _ = folded([put(1, A), put(2, A, draining=True)])

    found = fold(state, event(A), at=START)

    assert found.verdict is not None
    assert found.verdict.verdict is Verdict.DISABLED
    assert found.state is state


def test_a_full_backlog_counts_on_and_fires_at_the_resumption() -> None:
    state, _ = folded([put(1, A, backlog=True)])
    assert state is not None
    state = state._replace(sequence=MOST_BACKLOG - 1)
    last = fold(state, event(A, 1), at=START)
    assert len(last.jobs) == 1
    full = fold(last.state, event(A, 2), at=START)
    assert (full.jobs, full.verdict is not None and full.verdict.verdict) == ((), Verdict.COUNTED)

    resumed = fold(full.state, put(2, A), at=START)

    assert [part.events[0].id for job in resumed.jobs for part in job.contributions] == ["default.a2"]


def test_a_silence_is_not_measured_while_it_drains() -> None:
    trigger = Silence(A, HOUR) & B
    state, _ = folded([put(1, trigger), put(2, trigger, draining=True)])
    state = fold(state, Woken(SCHEDULE, 2, "", START + HOUR), at=START + 5 * HOUR).state
    state = fold(state, put(3, trigger), at=START + 5 * HOUR).state
    state = fold(state, event(B), at=START + 5 * HOUR).state

    assert fold(state, Woken(SCHEDULE, 3, "", START + 5 * HOUR), at=START + 6 * HOUR - HOUR / 60).jobs == ()
    (job,) = fold(state, Woken(SCHEDULE, 3, "", START + 6 * HOUR), at=START + 6 * HOUR).jobs
    assert job.satisfied_at == START + 6 * HOUR


def test_a_silence_after_another_part_goes_on_when_it_was_stopped() -> None:
    trigger = Then(B, Silence(A, HOUR))
    state, _ = folded([put(1, trigger), event(B), put(2, trigger, draining=True)])
    state = fold(state, put(3, trigger), at=START + 5 * HOUR).state

    (job,) = fold(state, Woken(SCHEDULE, 3, "", START + 6 * HOUR), at=START + 6 * HOUR).jobs
    assert job.satisfied_at == START + 6 * HOUR
