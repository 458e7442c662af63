"""Why a schedule started nothing in a span of time: from its history, its jobs, its progress and what became of events.

Pure: `account` is given what was read and tells it in order, the sentence that decides first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from streamsched.domain.job import JobState
from streamsched.launcher.launching import clock
from streamsched.ports.catalog import Decision, ScheduleStatus
from streamsched.ports.jobs import JobRecord, Span

_STARTED: Final = frozenset({JobState.LAUNCHED, JobState.PENDING_LAUNCH})


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened (UTC); `subject` is the job it is about, None: the schedule."""

    at: datetime
    text: str
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The answer.

    Attributes:
        lines: changes of the schedule and its jobs in the span, oldest first.
        events: how often each verdict was ever given to an event for it, and when the last time.
        progress: how far its accumulation is now; None before anything came.
    """

    schedule: str
    summary: str
    lines: tuple[Line, ...]
    events: tuple[str, ...]
    progress: Mapping[str, Any] | None


def account(status: ScheduleStatus, span: Span, *, since: datetime, until: datetime) -> WhyNot:
    """What kept the schedule from starting anything between `since` and `until` (UTC)."""
    changes = span.changes
    lines = [
        Line(each.at, f"{each.action}{f': {each.reason}' if each.reason else ''}")
        for each in changes
        if since <= each.at <= until
    ]
    lines += [Line(job.satisfied_at, f"satisfied; {_became(job)}", job.id) for job in span.jobs]
    return WhyNot(
        schedule=str(status.record.definition.ref),
        summary=_summary(status, changes, span.jobs, since=since, until=until),
        lines=tuple(sorted(lines, key=lambda line: line.at)),
        events=tuple(
            f"{tally.total} {' '.join(filter(None, (tally.verdict, tally.late)))}, the last at {clock(tally.last_at)}"
            for tally in span.tallies
        ),
        progress=status.progress,
    )


def _summary(
    status: ScheduleStatus, changes: Sequence[Decision], jobs: Sequence[JobRecord], *, since: datetime, until: datetime
) -> str:
    record = status.record
    started = [job for job in jobs if job.state in _STARTED]
    if started:
        times = "once" if len(started) == 1 else f"{len(started)} times"
        return f"it did start {record.definition.program} {times}, the last time by {started[-1].id}"
    if jobs:
        times = "once" if len(jobs) == 1 else f"{len(jobs)} times"
        return f"it was satisfied {times} and started nothing; {jobs[-1].id} {_became(jobs[-1])}"
    if record.created_at > until:
        return f"it did not exist yet: it was created at {clock(record.created_at)}"
    before = [each for each in changes if each.at <= since and each.action != "deleted"]
    off = _off(before[-1]) if before else None
    woke = [each for each in changes if since < each.at <= until and _off(each) is None]
    if off is not None and not woke:
        return f"it was {off.action} all the time, since {clock(off.at)}{f': {off.reason}' if off.reason else ''}"
    if not record.enabled and not changes:
        return "it is disabled"
    return f"nothing satisfied it: {_lacks(status)}"


def _off(change: Decision) -> Decision | None:
    """The change when it left the schedule disabled or paused."""
    enabled = (change.detail or {}).get("enabled")
    return change if enabled is False or change.action in {"disabled", "paused"} else None


def _became(job: JobRecord) -> str:
    match job.state:
        case JobState.PENDING_CONSTRAINT:
            return f"waits: {job.reason}" if job.reason else "waits to be looked at"
        case JobState.COALESCED:
            return f"joined {job.joined}"
        case _:
            return f"ended as {job.state}: {job.reason}" if job.reason else f"is {job.state}"


def _lacks(status: ScheduleStatus) -> str:
    if status.progress is None:
        told = f"nothing has come of what it waits for ({status.record.definition.trigger})"
    else:
        told = "; ".join(_open_leaves(status.progress)) or str(status.record.definition.trigger)
    return told if status.next_tick_at is None else f"{told}; its next tick is at {clock(status.next_tick_at)}"


def _open_leaves(node: Mapping[str, Any]) -> list[str]:
    children = node.get("children") or ()
    if children:
        return [text for child in children for text in _open_leaves(child)]
    return [] if node.get("holds") else [f"{node.get('text', '')}: {node.get('have', 0)} of {node.get('need', 0)}"]
