"""The trace of a job: that of the event which satisfied it, through fold, state and records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from streamsched.codec.records import launch as launch_codec
from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import state as state_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.fold.fold import TriggerState, fold
from streamsched.domain.jobs.job import ReadyJob, merge_satisfactions
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.domain.signals.signal import Occurred, Put, Woken
from streamsched.domain.triggers.composite import AllOf
from streamsched.domain.triggers.timed import Quiet
from streamsched.domain.triggers.trigger import CustomEvent, Trigger

AT = datetime(2013, 1, 7, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SCHEDULE = ScheduleRef("default", "app", "s")
ONE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
TWO = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def named(name: str) -> CustomEvent:
    return CustomEvent(EventName("default", name), 1)


def begun(trigger: Trigger) -> TriggerState:
    state = fold(None, Put(SCHEDULE, 1, True, trigger), at=AT).state
    assert state is not None
    return state


def folded(
    state: TriggerState, name: str, traceparent: str | None, at: datetime = AT
) -> tuple[TriggerState, ReadyJob | None]:
    """One event, as its record and the stored state are read again."""
    event = Event(name, "test", at, CustomHappened(EventName("default", name)), traceparent)
    signal = signal_codec.decode(*signal_codec.encode(Occurred(event)))
    found = fold(state, signal, at=at)
    assert found.state is not None
    job = launch_codec.decode(launch_codec.encode(found.jobs[-1])) if found.jobs else None
    return state_codec.decode(state_codec.encode(found.state)), job


def test_a_job_is_in_the_trace_of_the_last_event_and_keeps_the_contexts_of_all() -> None:
    state, job = folded(begun(AllOf((named("a"), named("b")))), "a", ONE)
    assert job is None

    _, job = folded(state, "b", TWO)

    assert job is not None
    assert job.traceparent == TWO
    assert [event.traceparent for part in job.contributions for event in part.events] == [ONE, TWO]
    assert merge_satisfactions(job, [job]).traceparent == TWO


def test_without_a_context_of_the_last_event_the_job_has_none() -> None:
    state, _ = folded(begun(AllOf((named("a"), named("b")))), "a", ONE)
    _, job = folded(state, "b", None)
    assert job is not None
    assert job.traceparent is None
    assert b"traceparent" in launch_codec.encode(job)


def test_a_job_that_time_completed_is_not_in_the_trace_of_a_later_event() -> None:
    quiet = begun(Quiet(named("a"), MINUTE))
    state, _ = folded(quiet, "a", ONE)

    _, late = folded(state, "a", TWO, AT + 2 * MINUTE)
    (woken,) = fold(state, Woken(SCHEDULE, 1, "", AT + MINUTE), at=AT + MINUTE).jobs

    assert late is not None
    assert (late.satisfied_at, late.traceparent) == (AT + MINUTE, None)
    assert woken.traceparent is None


def test_records_without_contexts_are_as_before() -> None:
    state, _ = folded(begun(AllOf((named("a"), named("b")))), "a", None)
    assert b"traceparent" not in state_codec.encode(state)
    _, job = folded(state, "b", None)
    assert job is not None
    assert b"traceparent" not in launch_codec.encode(job)
