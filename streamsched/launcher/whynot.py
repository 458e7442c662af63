"""Why a schedule started nothing in a span of time, from its history, jobs, progress and event verdicts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from streamsched.domain.history import HistoryEntry
from streamsched.domain.jobs.job import JobState
from streamsched.domain.schedules.pause import PauseMode
from streamsched.domain.time.instants import clock
from streamsched.ports.reports import UnreadDeletion
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.jobs.jobs import SatisfiedJob, ScheduleSpan

_OFF: Final = frozenset({"disabled", "paused"})
#: Most pauses named in a summary; `lines` has all.
_PAUSES: Final = 3
_STARTED: Final = frozenset({JobState.LAUNCHED, JobState.PENDING_LAUNCH})
#: What the history says of missed ticks that made no job of their own, and where it says how many.
_UNFIRED: Final = {"ticks_skipped": "skipped", "ticks_joined": "joined"}


@dataclass(frozen=True, slots=True)
class WhyNotLine:
    """A change or a satisfaction (UTC); `subject` is the job, None: the schedule."""

    at: datetime
    text: str
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The answer.

    Attributes:
        lines: changes of the schedule and its jobs in the span, oldest first: the newest, as many as were asked for.
        events: how often each verdict was given to events for it, of all time, and when last.
        progress: its accumulation now, `domain.fold.explain` as JSON; None before the first event.
    """

    schedule: str
    summary: str
    lines: tuple[WhyNotLine, ...]
    events: tuple[str, ...]
    progress: Mapping[str, Any] | None


def explain_no_run(
    status: ScheduleStatus, span: ScheduleSpan, *, since: datetime, until: datetime, limit: int = 100
) -> WhyNot:
    """Explains why the schedule started no run between `since` and `until` (UTC), in at most `limit` lines."""
    changes = span.changes
    summary = _summary(status, changes, span.jobs, since=since, until=until)
    interrupted = "" if " all the time" in summary else _describe_interruption(changes, since=since, until=until)
    skipped = _describe_skipped_ticks([each for each in changes if since <= each.at <= until])
    deleted = _describe_deletions(span.deletions)
    lines = [
        WhyNotLine(each.at, f"{each.action}{f': {each.reason}' if each.reason else ''}")
        for each in changes
        if since <= each.at <= until
    ]
    lines += [WhyNotLine(job.satisfied_at, f"satisfied; {_outcome(job)}", job.id) for job in span.jobs]
    return WhyNot(
        schedule=str(status.record.definition.ref),
        summary="; ".join(filter(None, (summary, interrupted, skipped, deleted))),
        lines=tuple(sorted(lines, key=lambda line: line.at)[-limit:]),
        events=tuple(
            f"{each.total} {' '.join(filter(None, (each.verdict, each.late)))}, the last at {clock(each.last_at)}"
            for each in span.verdict_counts
        ),
        progress=status.progress,
    )


def _describe_interruption(changes: Sequence[HistoryEntry], *, since: datetime, until: datetime) -> str:
    """When it was paused or disabled for a part of the span, and why; empty when it was not."""
    pauses: list[str] = []
    off: HistoryEntry | None = None
    for each in changes:
        if each.at > until:
            break
        found = None if each.action == "deleted" else _if_suspending(each)
        if off is not None and found is None and each.at > since:
            pauses.append(_pause(off, each.at, since))
        off = _last_suspension(off, found)
    if off is not None:
        pauses.append(_pause(off, None, since))
    more = len(pauses) - _PAUSES
    text = "; ".join(pauses[-_PAUSES:])
    return f"{text} (and {more} more times before that)" if more > 0 else text


def _describe_skipped_ticks(changes: Sequence[HistoryEntry]) -> str:
    """What became of missed ticks that made no job of their own; empty when there were none."""
    found = [each for each in changes if each.action in _UNFIRED]
    if not found:
        return ""
    last = f"at {clock(found[-1].at)} {found[-1].reason}"
    more = sum((each.detail or {}).get(_UNFIRED[each.action], 0) for each in found[:-1])
    return f"{last}, and {more} before that" if more else last


def _describe_deletions(found: Sequence[UnreadDeletion]) -> str:
    """That events may be missing which nobody has read; empty when none were deleted."""
    if not found:
        return ""
    more = f" and {len(found) - 1} more times" if len(found) > 1 else ""
    return (
        f"records were deleted from the log before they were read: {found[0].text}, seen at {clock(found[0].at)}{more}"
    )


def _last_suspension(off: HistoryEntry | None, found: HistoryEntry | None) -> HistoryEntry | None:
    """The change that disabled or paused it, after a further one: an update of a paused schedule leaves it paused."""
    return found if found is None or off is None or found.action in _OFF else off


def _pause(off: HistoryEntry, to: datetime | None, since: datetime) -> str:
    start = f"since {clock(off.at)}{_ends(off)}" if to is None else f"from {clock(max(off.at, since))} to {clock(to)}"
    return f"it was {off.action} {start}{f' ({off.reason})' if off.reason else ''}"


def _ends(off: HistoryEntry) -> str:
    """When the pause ends, if that is set, and what the schedule did meanwhile when that is not usual."""
    detail = off.detail or {}
    until, mode = detail.get("until"), detail.get("mode")
    ends = "" if until is None else f" until {clock(_instant(until))}"
    return f"{ends} ({PauseMode(mode).text})" if mode in (PauseMode.DRAIN, PauseMode.BACKLOG) else ends


def _instant(value: datetime | str) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


def _summary(
    status: ScheduleStatus,
    changes: Sequence[HistoryEntry],
    jobs: Sequence[SatisfiedJob],
    *,
    since: datetime,
    until: datetime,
) -> str:
    record = status.record
    started = [job for job in jobs if job.state in _STARTED]
    if started:
        times = "once" if len(started) == 1 else f"{len(started)} times"
        text = f"it did start {record.definition.program} {times}, the last time by {started[-1].id}"
        return text + losses_text(status.progress or {})
    if jobs:
        times = "once" if len(jobs) == 1 else f"{len(jobs)} times"
        return f"it was satisfied {times} and started nothing; {jobs[-1].id} {_outcome(jobs[-1])}"
    if record.created_at > until:
        return f"it did not exist yet: it was created at {clock(record.created_at)}"
    before = [each for each in changes if each.at <= since and each.action != "deleted"]
    off: HistoryEntry | None = None
    for each in before:
        off = _last_suspension(off, _if_suspending(each))
    resumed = [each for each in changes if since < each.at <= until and _if_suspending(each) is None]
    if off is not None and not resumed:
        ends = _ends(off)
        return f"it was {off.action} all the time, since {clock(off.at)}{ends}{f': {off.reason}' if off.reason else ''}"
    if not record.enabled and not changes:
        return "it is disabled"
    return f"nothing satisfied it: {_describe_missing(status)}"


def _if_suspending(change: HistoryEntry) -> HistoryEntry | None:
    """The change, if it left the schedule disabled or paused."""
    enabled = (change.detail or {}).get("enabled")
    return change if enabled is False or change.action in _OFF else None


def _outcome(job: SatisfiedJob) -> str:
    match JobState(job.state):
        case JobState.PENDING_CONSTRAINT:
            return f"waits: {job.reason}" if job.reason else "waits for its first check"
        case JobState.COALESCED:
            return f"joined {job.joined}"
        case _:
            return f"ended as {job.state}: {job.reason}" if job.reason else f"is {job.state}"


def _describe_missing(status: ScheduleStatus) -> str:
    if status.progress is None:
        text = f"no event for its trigger has arrived ({status.record.definition.trigger})"
    else:
        text = "; ".join(_open_leaves(status.progress)) or str(status.record.definition.trigger)
    text = "; ".join((*(f"it {each}" for each in status.removed), text))
    text += losses_text(status.progress or {})
    return text if status.next_tick_at is None else f"{text}; its next tick is at {clock(status.next_tick_at)}"


def losses_text(progress: Mapping[str, Any]) -> str:
    """What the schedule's generation did not count, as the end of a sentence; empty when it counted everything."""
    names = "lost_keys", "dropped_keys", "refused_events", "keyless_events"
    lost, dropped, refused, keyless = (progress.get(name, 0) for name in names)
    losses = [
        f"{count} {what}"
        for count, what in (
            (lost - dropped, "keys expired incomplete"),
            (dropped, "keys were dropped, too many were open"),
            (refused, "events were refused, they would have opened too many keys"),
            (keyless, f"events had no key, or not for all partitions: {progress.get('keyless_why', '')}"),
        )
        if count
    ]
    return "".join(f"; {each}" for each in losses)


def _open_leaves(node: Mapping[str, Any]) -> list[str]:
    children = node.get("children") or ()
    if children:
        return [text for child in children for text in _open_leaves(child)]
    return [] if node.get("holds") else [f"{node.get('text', '')}: {node.get('have', 0)} of {node.get('need', 0)}"]
