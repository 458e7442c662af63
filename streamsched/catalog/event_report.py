"""The report of one event in sentences: each verdict, its consequences, and reasons why a verdict may be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, assert_never

from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.limits import enumeration
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, NoListener, Undecodable
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.time.duration import duration_text
from streamsched.domain.triggers.leaf import leaf_id
from streamsched.domain.triggers.trigger import leaves
from streamsched.store.events.event_traces import ConsumingJob, CurrentSchedule, EventTrace


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One finding as text.

    Attributes:
        text: a sentence.
        then: sentences about the consequences, or about what blocks them.
        job: the job that consumed the event.
        schedule: the finding's schedule as stored now.
    """

    finding: Finding
    text: str
    then: tuple[str, ...] = ()
    job: ConsumingJob | None = None
    schedule: CurrentSchedule | None = None

    @property
    def progress(self) -> Mapping[str, Any] | None:
        """Of the schedule, while no job has consumed the event."""
        return None if self.job is not None or self.schedule is None else self.schedule.progress


@dataclass(frozen=True, slots=True)
class EventReport:
    """The complete report.

    Attributes:
        hints: what may be missing from the report, and why.
        behind: turns whose verdicts are not stored yet.
    """

    event: str
    summary: str
    lines: tuple[ReportLine, ...]
    hints: tuple[str, ...]
    behind: int


def event_report(trace: EventTrace, *, keep: timedelta) -> EventReport:
    """The report of a trace; `keep`: how long verdicts are kept, 0 if they are not."""
    lines = tuple(_line(trace, finding, job) for finding, job in zip(trace.findings, trace.consuming_jobs, strict=True))
    return EventReport(trace.event, _summary(trace), lines, tuple(_hints(trace, keep)), trace.behind)


def _summary(trace: EventTrace) -> str:
    if not trace.findings:
        return f"nothing is known of an event '{trace.event}'"
    parts: list[str] = []
    for verdict in Verdict:
        count = sum(each.verdict is verdict for each in trace.findings)
        if count:
            parts.append(verdict.replace("_", " ") + (f" {count} times" if count > 1 else ""))
    jobs = sorted({job.joined or job.job for job in trace.consuming_jobs if job is not None})
    sources = {each.source for each in trace.findings if each.source}
    of = f" of {len(sources)} sources" if len(sources) > 1 else ""
    return f"event '{trace.event}'{of}: {', '.join(parts)}" + (f"; with {enumeration(jobs)}" if jobs else "")


def _hints(trace: EventTrace, keep: timedelta) -> Iterator[str]:
    if trace.behind:
        yield f"the verdicts of {trace.behind} turns are not stored yet: ask again in a moment"
    if trace.findings:
        return
    if not keep:
        yield "verdicts are switched off (STREAMSCHED_VERDICTS_KEEP=0)"
        return
    yield f"verdicts are kept for {duration_text(keep)}; those of older events have been deleted"
    yield "an event that was never acknowledged may still be in its emitter's retry loop or spool"
    yield "ids are compared exactly; an event without an id gets one from its position in the log (log:topic/…)"


def _line(trace: EventTrace, finding: Finding, job: ConsumingJob | None) -> ReportLine:
    match finding.reason:
        case AtSchedule() as reason:
            current = trace.schedules.get(reason.schedule)
            text, then = _at_schedule(finding, reason, current), tuple(_consequences(reason, job, current))
            return ReportLine(finding, text, then, job, current)
        case Duplicate(key=key):
            when = "" if finding.since is None else f", seen first at {_format_instant(finding.since)}"
            ago = "" if finding.since is None else f" ({_format_span(finding.at - finding.since)} before)"
            return ReportLine(finding, f"a duplicate for {key}{when}{ago}: same id, same source; it changed nothing")
        case NoListener(key=key):
            now = tuple(_listens_now(finding.at, each) for each in trace.listeners.get(key, ()))
            none = ("no schedule listens to it now either: is the name right?",)
            return ReportLine(finding, f"no schedule listened to {key}", now or none)
        case Undecodable(place=place, path=path, reason=why):
            then = (f"the record {place} is unchanged in topic dead-letter",)
            return ReportLine(finding, f"could not be decoded: {path} {why}", then)
        case unknown:
            assert_never(unknown)


def _at_schedule(finding: Finding, reason: AtSchedule, current: CurrentSchedule | None) -> str:
    schedule = f"{reason.schedule} (generation {reason.generation})" if reason.generation else str(reason.schedule)
    verdict = reason.judged.verdict
    happened = "" if finding.since is None else f": it happened at {_format_instant(finding.since)}"
    if finding.since is not None:
        happened += f", {_format_span(finding.at - finding.since)} before"
    match verdict:
        case Verdict.COUNTED:
            of = enumeration([_leaf(leaf, current) for leaf in reason.judged.leaves])
            under = f", under {enumeration(reason.judged.cells)}" if reason.judged.cells else ""
            came = f", although late{happened}" if reason.late is OnLate.ACCEPT else ""
            more = f" ({reason.judged.why})" if reason.judged.why else ""
            return f"counted in {schedule} towards {of}{under}{came}{more}"
        case Verdict.REPLACED:
            of = enumeration([_leaf(leaf, current) for leaf in reason.judged.leaves])
            under = f", under {enumeration(reason.judged.cells)}" if reason.judged.cells else ""
            more = f" ({reason.judged.why})" if reason.judged.why else ""
            return (
                f"replaced in {schedule} older commits of the same partitions, already counted towards {of}{under}: "
                f"the count stays the same, and the job gets this event instead{more}"
            )
        case Verdict.CORRECTION:
            return f"came to {schedule} after its job was made: it {reason.judged.why}"
        case Verdict.UNMATCHED if reason.judged.why:
            return f"{schedule} listens to it, but did not count it: {reason.judged.why}"
        case Verdict.UNMATCHED:
            wanted = f": it wants {current.record.definition.trigger}" if _is_same(reason, current) and current else ""
            return f"{schedule} listens to it, but no leaf of its trigger matched{wanted}"
        case Verdict.LATE:
            side = "appended to topic late" if reason.late is OnLate.SIDE_OUTPUT else "dropped"
            return f"arrived too late for {schedule} and was {side}{happened}"
        case Verdict.DISABLED:
            state = "was disabled" if reason.generation else "did not exist any more"
            return f"{schedule} {state} when it arrived, so it did not count"
        case Verdict.REFUSED:
            return f"refused by {schedule}, not counted: {reason.judged.why}"
        case Verdict.PARKED:
            return f"{schedule} was in error when it arrived: it is parked until the schedule is replayed"
        case Verdict.DUPLICATE | Verdict.NO_LISTENER | Verdict.DEAD_LETTERED:
            return f"{verdict} in {schedule}"  # never given by a schedule


def _consequences(reason: AtSchedule, job: ConsumingJob | None, current: CurrentSchedule | None) -> Iterator[str]:
    """What followed from the verdict."""
    if reason.judged.verdict is Verdict.REFUSED:
        yield "its signal is a dead letter: `streamsched dlq list`; `dlq replay ID` sends it to this schedule again"
    if not reason.judged.is_kept:
        return
    if job is not None:
        launches = job.state in {JobState.COALESCED, JobState.LAUNCHED}
        why = f": {job.reason}" if job.reason and not launches else ""
        joined = f", in {job.joined}" if job.joined else ""
        yield f"job {job.job} consumed it ({job.state}{joined}{why})"
        if job.runs:
            *before, last = job.runs
            yield f"run {last} is {job.run_state}" + (f", after {enumeration(before)}" if before else "")
    elif current is None or not current.record.exists:
        yield "the schedule has been deleted since; no job consumed it"
    elif reason.generation < current.record.oldest_valid_generation:
        record = current.record
        yield (
            f"no job consumed it: generation {record.generation} is {record.state_text} since "
            f"{_format_instant(record.updated_at)}, "
            "and kept nothing of older generations"
        )
    else:
        changed = "" if reason.generation == current.record.generation else ", unless a change dropped its leaf"
        open_yet = "" if current.progress is None else ": " + "; ".join(_open_leaves(current.progress))
        paused = "" if current.record.enabled else f"; the schedule is {current.record.state_text}"
        yield f"no job consumed it yet{changed}{open_yet}{paused}"


def _open_leaves(node: object) -> Iterator[str]:
    """The progress of each leaf of an explanation."""
    if not isinstance(node, dict):
        return
    children = node.get("children") or ()
    for child in children:
        yield from _open_leaves(child)
    if not children:
        yield f"{node.get('have', 0)} of {node.get('need', 0)} ({node.get('text', '')})"


def _listens_now(at: datetime, current: CurrentSchedule) -> str:
    record, since = current.record, _format_instant(current.record.updated_at)
    if not record.listens:
        return f"{record.definition.ref} would, but it is {record.state_text} since {since}"
    return f"{record.definition.ref} listens to it now, since {since}" + (
        "" if record.updated_at > at else ", but did not then"
    )


def _leaf(leaf: str, current: CurrentSchedule | None) -> str:
    """A leaf as text; its id if the current definition does not have it."""
    wanted = () if current is None else leaves(current.record.definition.trigger)
    return next((str(each) for each in wanted if leaf_id(each) == leaf), leaf)


def _is_same(reason: AtSchedule, current: CurrentSchedule | None) -> bool:
    return current is not None and current.record.generation == reason.generation


def _format_instant(instant: datetime) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S}Z"


def _format_span(span: timedelta) -> str:
    """To the second; below one second, to the millisecond."""
    return duration_text(
        timedelta(milliseconds=span // timedelta(milliseconds=1))
        if span < timedelta(seconds=1)
        else timedelta(seconds=span // timedelta(seconds=1))
    )
