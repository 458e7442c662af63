"""Spans of a trace: what became of an event, from its acceptance to the run that it starts.

    emit                        the API accepted an event that has a context
    └ job                       the trigger was satisfied … its job was launched, or ended without a run
      ├ complete                … the job was stored: worker and intake
      ├ decide                  … a run was admitted: constraints, limits, deadlines
      └ launch                  for each attempt: admitted … its process began
        └ run                   … it ended

A span is made from stored times when its job or run has ended, and its id from the names of both. So it is the same
span, whichever process makes it, and however often. A job whose trigger time alone completed begins a trace. So does a
manual run. Attributes hold names, states and numbers only: no texts that a program or an event brought along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from itertools import islice
from typing import Final

from streamsched.domain.events.event import Event
from streamsched.domain.events.sampler import Sampler
from streamsched.domain.events.trace_context import TraceContext, parse_traceparent
from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.jobs.run import RunState

#: Most other events that a job's span is linked to; more are counted in `streamsched.events.contexts`.
MOST_LINKS: Final = 32
#: Most events of a job that are searched for contexts.
_SEARCHED: Final = 10_000
#: Characters of a name from outside that an attribute has.
_SHOWN: Final = 200

Attribute = str | int | float


class SpanKind(StrEnum):
    """The kinds of OpenTelemetry that are used."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """A finished span. Times are UTC, and `ended_at` is never before `began_at`.

    Attributes:
        parent: None where the trace begins.
        links: contexts of other events that the span is about.
        failed: its status is an error.
    """

    name: str
    context: TraceContext
    parent: TraceContext | None
    began_at: datetime
    ended_at: datetime
    attributes: Mapping[str, Attribute]
    kind: SpanKind = SpanKind.INTERNAL
    links: tuple[TraceContext, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedJob:
    """What the spans of a job are made from.

    Attributes:
        program: None when its schedule was unknown.
        stored_at: when the job was stored.
        admitted_at: when its first run was made; None without a run.
        ended_at: when it was launched or ended.
        waited_for: what kinds of constraints the last check found unsatisfied.
    """

    ready: ReadyJob
    program: str | None
    state: JobState
    stored_at: datetime
    admitted_at: datetime | None
    ended_at: datetime
    waited_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRun:
    """What the spans of a run are made from. `ready`: the satisfaction of its job, `stored_at`: when that was stored;
    None of a manual run.
    """

    run: str
    ready: ReadyJob | None
    program: str
    attempt: int
    state: RunState
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime
    exit_code: int | None = None
    stored_at: datetime | None = None


def emit_context(event: Event, sampler: Sampler) -> TraceContext | None:
    """The context of an event's `emit` span; None of an event without a context."""
    given = parse_traceparent(event.traceparent)
    if given is None:
        return None
    span_id = _span_id("emit", event.source, event.id)
    return TraceContext(given.trace_id, span_id, sampler.samples(given.trace_id, given))


def emit_span(event: Event, context: TraceContext, *, began_at: datetime, ended_at: datetime) -> TraceSpan:
    """The span of an event that was accepted; `context` as of `emit_context`, of the event as it was sent."""
    return TraceSpan(
        name="emit",
        context=context,
        parent=parse_traceparent(event.traceparent),
        began_at=began_at,
        ended_at=max(began_at, ended_at),
        attributes={"streamsched.event.id": event.id[:_SHOWN], "streamsched.event.key": event.key[:_SHOWN]},
        kind=SpanKind.PRODUCER,
    )


def job_context(ready: ReadyJob, sampler: Sampler) -> TraceContext:
    """The context of a job's span: in the trace of the event that completed it, or in one that begins with it."""
    trace_id = job_trace(ready.id, ready.satisfied_at, ready.traceparent)
    sampled = sampler.samples(trace_id, parse_traceparent(ready.traceparent))
    return TraceContext(trace_id, _span_id("job", *_names(ready)), sampled)


def job_trace(job: str, satisfied_at: datetime, traceparent: str | None) -> str:
    """The id of a job's trace, which is that of its runs too."""
    parent = parse_traceparent(traceparent)
    return _digest("trace", job, satisfied_at.isoformat())[:32] if parent is None else parent.trace_id


def manual_trace(run: str) -> str:
    """The id of a manual run's trace."""
    return _digest("trace", run)[:32]


def run_context(run: str, ready: ReadyJob | None, sampler: Sampler) -> TraceContext:
    """The context of a run's span, in the trace of its job."""
    return _of_run("run", run, ready, sampler)


def program_context(run: str, ready: ReadyJob | None, sampler: Sampler | None) -> TraceContext | None:
    """The context that a run's program goes on from. Where no spans are made (`sampler` None), that of the event that
    completed its job, unchanged.
    """
    if sampler is not None:
        return run_context(run, ready, sampler)
    return None if ready is None else parse_traceparent(ready.traceparent)


def job_spans(job: EndedJob, sampler: Sampler) -> list[TraceSpan]:
    """The spans of a job that has ended; none when its trace is not recorded."""
    ready, context = job.ready, job_context(job.ready, sampler)
    if not context.sampled:
        return []
    parent, contexts = parse_traceparent(ready.traceparent), list(dict.fromkeys(_contexts(ready)))
    own = {"streamsched.job": ready.id}
    about: dict[str, Attribute] = {**own, "streamsched.state": job.state.value}
    if ready.schedule is not None:
        about |= {"streamsched.schedule": str(ready.schedule), "streamsched.generation": ready.generation}
    if job.program is not None:
        about["streamsched.program"] = job.program
    if contexts:
        about["streamsched.events.contexts"] = len(contexts)
    failed = job.state in (JobState.ABORTED, JobState.TIMED_OUT, JobState.LAUNCH_FAILED)
    links = tuple(islice((each for each in contexts if each != parent), MOST_LINKS))
    stored_at = max(job.stored_at, ready.satisfied_at)
    decided_at = max(job.admitted_at or job.ended_at, stored_at)
    waited: dict[str, Attribute] = {"streamsched.waited_s": (decided_at - stored_at).total_seconds()}
    if job.waited_for:
        waited["streamsched.waited_for"] = ",".join(job.waited_for)
    names = _names(ready)
    found = [
        TraceSpan(
            name="job",
            context=context,
            parent=parent,
            began_at=ready.satisfied_at,
            ended_at=job.ended_at,
            attributes=about,
            kind=SpanKind.CONSUMER,
            links=links,
            failed=failed,
        )
    ]
    if ready.submission is None:
        found.append(
            TraceSpan(
                name="complete",
                context=context._replace(span_id=_span_id("complete", *names)),
                parent=context,
                began_at=ready.satisfied_at,
                ended_at=stored_at,
                attributes=own,
            )
        )
    found.append(
        TraceSpan(
            name="decide",
            context=context._replace(span_id=_span_id("decide", *names)),
            parent=context,
            began_at=stored_at,
            ended_at=decided_at,
            attributes={**own, **waited},
        )
    )
    return [_finish_span(each) for each in found]


def run_spans(run: EndedRun, sampler: Sampler) -> list[TraceSpan]:
    """The spans of a run that has ended: `launch`, and `run` if it started; none when its trace is not recorded."""
    launch = _of_run("launch", run.run, run.ready, sampler)
    if not launch.sampled:
        return []
    parent = None if run.ready is None else job_context(run.ready, sampler)
    own: dict[str, Attribute] = {"streamsched.run": run.run, "streamsched.attempt": run.attempt}
    about: dict[str, Attribute] = {**own, "streamsched.program": run.program, "streamsched.state": run.state.value}
    if run.exit_code is not None:
        about["streamsched.exit_code"] = run.exit_code
    failed = run.state is not RunState.COMPLETED
    earliest = run.created_at if run.ready is None else run.ready.satisfied_at
    launched = TraceSpan(
        name="launch",
        context=launch,
        parent=parent,
        began_at=max(run.created_at, run.stored_at or earliest, earliest),
        ended_at=run.started_at or run.ended_at,
        attributes=about if run.started_at is None else own,
        failed=failed and run.started_at is None,
    )
    if run.started_at is None:
        return [_finish_span(launched)]
    ran = TraceSpan(
        name="run",
        context=run_context(run.run, run.ready, sampler),
        parent=launch,
        began_at=run.started_at,
        ended_at=run.ended_at,
        attributes=about,
        failed=failed,
    )
    return [_finish_span(launched), _finish_span(ran)]


def _finish_span(span: TraceSpan) -> TraceSpan:
    """Its times come from the clocks of the log, of PostgreSQL and of processes, which differ by milliseconds: what
    follows never begins or ends before what it follows from.
    """
    return span if span.ended_at >= span.began_at else replace(span, ended_at=span.began_at)


def _of_run(span: str, run: str, ready: ReadyJob | None, sampler: Sampler) -> TraceContext:
    span_id = _span_id(span, run, *(() if ready is None else _names(ready)))
    if ready is not None:
        return job_context(ready, sampler)._replace(span_id=span_id)
    trace_id = manual_trace(run)
    return TraceContext(trace_id, span_id, sampler.samples(trace_id, None))


def _names(ready: ReadyJob) -> tuple[str, str]:
    """What tells a job from all others, also from those of the same id in other installations."""
    return ready.id, ready.satisfied_at.isoformat()


def _contexts(ready: ReadyJob) -> Iterator[TraceContext]:
    events: Iterable[Event] = (event for part in ready.contributions for event in part.events)
    for event in islice(events, _SEARCHED):
        context = parse_traceparent(event.traceparent)
        if context is not None:
            yield context


def _span_id(*parts: str) -> str:
    return _digest(*parts)[:16]


def _digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode(errors="surrogatepass")).hexdigest()
