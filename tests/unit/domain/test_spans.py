"""Spans made from stored facts: ids, parents, links and times."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.events.trace_context import TraceContext, parse_traceparent
from streamsched.domain.jobs.job import Contribution, JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.spans import (
    MOST_LINKS,
    EndedJob,
    EndedRun,
    emit_context,
    emit_span,
    job_spans,
    program_context,
    run_context,
    run_spans,
)
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import EventName, ScheduleRef
from streamsched.telemetry.traces.span_table import ATTRIBUTES, SPANS

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ALWAYS = Sampler()


def context(number: int, *, sampled: bool = True) -> str:
    return str(TraceContext(TRACE, f"{number:016x}", sampled))


def event(number: int, traceparent: str | None) -> Event:
    fact = CustomHappened(EventName("default", "approved"), {"card": "4111111111111111"})
    return Event(f"e{number}", "https://user:secret@feeds", AT, fact, traceparent)


def ready(*events: Event, traceparent: str | None = None) -> ReadyJob:
    parts = (Contribution("a", len(events), events),)
    return ReadyJob(ScheduleRef("default", "shop", "daily"), 3, 7, AT, parts, traceparent=traceparent)


def ended(job: ReadyJob, state: JobState = JobState.LAUNCHED) -> EndedJob:
    return EndedJob(
        ready=job,
        program="default.shop.load",
        state=state,
        stored_at=AT + timedelta(seconds=1),
        admitted_at=AT + timedelta(seconds=61),
        ended_at=AT + timedelta(seconds=62),
        waited_for=("group spark", "runs"),
    )


def run(job: ReadyJob | None, *, started: bool = True, attempt: int = 1) -> EndedRun:
    return EndedRun(
        run=f"default.shop.daily.3.7.r{attempt}",
        ready=job,
        program="default.shop.load",
        attempt=attempt,
        state=RunState.COMPLETED if started else RunState.KILLED,
        created_at=AT + timedelta(seconds=61),
        started_at=AT + timedelta(seconds=63) if started else None,
        ended_at=AT + timedelta(seconds=90),
        exit_code=0 if started else None,
    )


def test_a_job_is_in_the_trace_of_the_event_that_completed_it_and_linked_to_the_others() -> None:
    job = ready(event(1, context(1)), event(2, None), event(3, context(3)), traceparent=context(3))

    whole, complete, decide = job_spans(ended(job), ALWAYS)

    assert (whole.context.trace_id, whole.parent) == (TRACE, parse_traceparent(context(3)))
    assert whole.links == (parse_traceparent(context(1)),)
    assert [each.parent for each in (complete, decide)] == [whole.context] * 2
    assert (complete.began_at, complete.ended_at) == (AT, AT + timedelta(seconds=1))
    assert (decide.began_at, decide.ended_at) == (AT + timedelta(seconds=1), AT + timedelta(seconds=61))
    assert decide.attributes["streamsched.waited_s"] == 60.0
    assert decide.attributes["streamsched.waited_for"] == "group spark,runs"


def test_links_are_bounded_and_counted() -> None:
    job = ready(*(event(number, context(number)) for number in range(1, 20_001)), traceparent=context(20_000))

    whole = job_spans(ended(job), ALWAYS)[0]

    assert len(whole.links) == MOST_LINKS
    assert whole.attributes["streamsched.events.contexts"] == 10_000


def test_ids_are_those_of_every_process_and_differ_between_installations() -> None:
    job = ready(event(1, None))

    first, again = job_spans(ended(job), ALWAYS), job_spans(ended(job), ALWAYS)
    later = job_spans(ended(replace(job, satisfied_at=AT + timedelta(microseconds=1))), ALWAYS)

    assert first == again
    assert first[0].parent is None
    assert len({each.context.span_id for each in (*first, *later)}) == 6
    assert first[0].context.trace_id != later[0].context.trace_id


def test_a_run_is_below_its_launch_and_each_attempt_has_its_own() -> None:
    job = ready(event(1, context(1)), traceparent=context(1))
    whole = job_spans(ended(job), ALWAYS)[0]

    launch, ran = run_spans(run(job), ALWAYS)
    again = run_spans(run(job, attempt=2), ALWAYS)

    assert (launch.parent, ran.parent) == (whole.context, launch.context)
    assert ran.context == run_context(run(job).run, job, ALWAYS)
    assert (ran.began_at, ran.ended_at) == (AT + timedelta(seconds=63), AT + timedelta(seconds=90))
    assert len({each.context.span_id for each in (launch, ran, *again)}) == 4


def test_a_run_that_never_started_is_a_failed_launch() -> None:
    (launch,) = run_spans(run(ready(), started=False), ALWAYS)
    assert (launch.name, launch.failed, launch.ended_at) == ("launch", True, AT + timedelta(seconds=90))


def test_a_manual_run_and_a_submission_begin_traces() -> None:
    launch, ran = run_spans(run(None), ALWAYS)
    submitted = replace(ready(), submission=Submission("default.shop.daily.submitted-1"))

    assert (launch.parent, ran.parent) == (None, launch.context)
    assert [each.name for each in job_spans(ended(submitted), ALWAYS)] == ["job", "decide"]


def test_what_is_not_sampled_has_no_spans_but_is_handed_on() -> None:
    job = ready(event(1, context(1, sampled=False)), traceparent=context(1, sampled=False))

    assert job_spans(ended(job), ALWAYS) == []
    assert run_spans(run(job), ALWAYS) == []
    handed = program_context(run(job).run, job, ALWAYS)
    assert handed is not None
    assert (handed.trace_id, handed.sampled) == (TRACE, False)


def test_without_spans_the_context_of_the_event_is_handed_on_unchanged() -> None:
    job = ready(event(1, context(1)), traceparent=context(1))

    assert program_context("r", job, None) == parse_traceparent(context(1))
    assert program_context("r", ready(event(1, None)), None) is None
    assert program_context("r", None, None) is None


def test_times_of_different_clocks_give_no_negative_span() -> None:
    late = replace(ended(ready()), stored_at=AT - timedelta(seconds=5), admitted_at=AT - timedelta(seconds=4))
    assert all(each.ended_at >= each.began_at for each in job_spans(late, ALWAYS))


def test_a_repeated_event_has_the_same_emit_span() -> None:
    sent = event(1, context(1))
    one, other = emit_context(sent, ALWAYS), emit_context(event(1, context(1)), ALWAYS)

    assert one == other
    assert one is not None
    assert emit_context(event(1, None), ALWAYS) is None
    span = emit_span(sent, one, began_at=AT, ended_at=AT)
    assert (span.parent, span.context.trace_id) == (parse_traceparent(context(1)), TRACE)


def test_attributes_hold_no_payload_and_no_source() -> None:
    sent = event(1, context(1))
    emitted = emit_context(sent, ALWAYS)
    assert emitted is not None
    job = replace(ready(sent, traceparent=context(1)), key="4111111111111111")
    spans = [emit_span(sent, emitted, began_at=AT, ended_at=AT), *job_spans(ended(job), ALWAYS)]
    said = repr([each.attributes for each in (*spans, *run_spans(run(job), ALWAYS))])
    assert "4111" not in said
    assert "secret" not in said


def test_every_span_and_attribute_is_in_the_table() -> None:
    sent = event(1, context(1))
    emitted = emit_context(sent, ALWAYS)
    assert emitted is not None
    job = ready(sent, traceparent=context(1))
    spans = [
        emit_span(sent, emitted, began_at=AT, ended_at=AT),
        *job_spans(ended(job), ALWAYS),
        *run_spans(run(job), ALWAYS),
        *run_spans(run(job, started=False), ALWAYS),
    ]

    made: dict[str, set[str]] = {}
    for each in spans:
        made.setdefault(each.name, set()).update(each.attributes)

    assert made == {row.name: set(row.attributes) for row in SPANS}
    assert set().union(*made.values()) == set(ATTRIBUTES)


def test_what_follows_never_begins_before_what_it_follows_from_though_clocks_differ() -> None:
    job, early = ready(), AT - timedelta(milliseconds=5)
    times = {"stored_at": early, "admitted_at": early - timedelta(milliseconds=1)}

    _, complete, decide = job_spans(replace(ended(job), **times), ALWAYS)
    launch, _ = run_spans(replace(run(job), created_at=early, stored_at=AT + timedelta(milliseconds=2)), ALWAYS)

    assert (complete.began_at, complete.ended_at, decide.began_at, decide.ended_at) == (AT, AT, AT, AT)
    assert decide.attributes["streamsched.waited_s"] == 0.0
    assert launch.began_at == AT + timedelta(milliseconds=2)
