"""Explains a job's state: the verdict of each constraint now, the runs it waits for, and the earliest possible start.

Computed from one snapshot of the store by the function that decides (`domain.decisions.admission.weigh`), so that the
explanation equals the decision at the same instant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from streamsched.codec.views import constraint_verdict
from streamsched.domain.access.sight import Sees, sees_nothing
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import PoolQueue, QueuePosition, position_at
from streamsched.domain.decisions.admission import (
    Admission,
    ConstraintInput,
    ConstraintVerdict,
    PluginVerdict,
    Satisfied,
    Unsatisfiable,
    WaitFor,
    WaitUntil,
    weigh,
)
from streamsched.domain.decisions.decision import invalidity, overlap_of
from streamsched.domain.decisions.judge import wait_ends_at
from streamsched.domain.decisions.lanes import lane_position
from streamsched.domain.decisions.namespace_quota import quota_verdict
from streamsched.domain.decisions.room_for_processes import room_verdict
from streamsched.domain.errors import describe_failure
from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.schedules.provenance import contributions_of
from streamsched.domain.schedules.schedule import OnTimeout, Schedule
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.instants import clock
from streamsched.launcher.launching import PROMPT, described_launch
from streamsched.ports.clock import Clock
from streamsched.store.jobs.job_record import JobRecord
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.jobs.snapshot import HistoryLine, JobSnapshot
from streamsched.store.limits.groups import BlockingRun


@dataclass(frozen=True, slots=True)
class WhyClause:
    """One constraint of the job, or its overlap policy.

    Attributes:
        needs: the constraint as text.
        text: the reason of its verdict.
        holds: whether it is satisfied now.
        at: the earliest time it can hold (UTC), when only time decides that.
        holders: the runs it waits for, of namespaces that the reader may view.
        others: how many runs it waits for besides.
    """

    text: str
    holds: bool
    needs: str = ""
    at: datetime | None = None
    holders: tuple[BlockingRun, ...] = ()
    others: int = 0


@dataclass(frozen=True, slots=True)
class Why:
    """The explanation of a job. Times UTC.

    Attributes:
        summary: one sentence.
        since: when it began to wait.
        earliest: the earliest start; while it waits for runs, an estimate from the duration of such runs; None when it
            is unknown or the job does not wait.
        earliest_because: what that time is computed from.
        timeout: what happens when it waits too long, and when; None without a timeout.
        deadlines: those missed, and those ahead.
        satisfied_by: the contribution of each leaf of the trigger.
        history: every decision about the job and its runs, oldest first.
    """

    job: str
    state: JobState
    summary: str
    clauses: tuple[WhyClause, ...] = ()
    since: datetime | None = None
    earliest: datetime | None = None
    earliest_because: str | None = None
    timeout: str | None = None
    deadlines: tuple[str, ...] = ()
    satisfied_by: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    history: tuple[HistoryLine, ...] = field(default=())


async def explain_job(job: str, *, jobs: JobStore, clock: Clock, sees: Sees = sees_nothing) -> Why:
    """Explains the job's present state to someone who sees names of its namespace and of those that `sees` says.

    Raises:
        NotFoundError: no such job.
        UnavailableError: PostgreSQL is unavailable.
    """
    snapshot = await jobs.snapshot(job)
    try:
        return explain(snapshot, now=clock.now(), sees=sees)
    except Exception as failure:  # noqa: BLE001 - a definition may raise anything, here as in the launcher
        record = snapshot.job
        return Why(
            record.id,
            record.state,
            f"it cannot be explained: {describe_failure(failure)}"
            + (f"; {_next_attempt(record)}" if record.failures else ""),
            since=record.satisfied_at,
            runs=record.runs,
            history=snapshot.history,
        )


def explain(snapshot: JobSnapshot, *, now: datetime, sees: Sees = sees_nothing) -> Why:
    """The explanation of a snapshot. Pure. Texts name runs and jobs of the job's namespace only; the others that the
    reader may view are among the holders.
    """
    job = snapshot.job
    own = job.id.partition(".")[0]
    why = Why(
        job.id,
        job.state,
        "",
        satisfied_by=_satisfaction_texts(snapshot.ready),
        runs=job.runs,
        deadlines=(*(f"missed: {each}" for each in job.missed), *_describe_deadlines(snapshot)),
        history=tuple(sorted((*snapshot.pauses, *snapshot.history), key=lambda decided: decided.at)),
    )
    if job.state is not JobState.PENDING_CONSTRAINT:
        return replace(why, summary=_describe_outcome(snapshot, now))
    if job.failures:
        return replace(why, summary=f"{job.reason}; {_next_attempt(job)}", since=job.satisfied_at)
    if snapshot.unreadable is not None:
        return replace(why, summary=f"it cannot be decided: {snapshot.unreadable}")
    obsolete = invalidity(
        known=snapshot.schedule is not None,
        current=snapshot.generation,
        enabled=snapshot.enabled,
        generation=job.generation,
        oldest_valid_generation=snapshot.oldest_valid_generation,
    )
    if obsolete is not None or snapshot.schedule is None:
        return replace(why, summary=f"it will end as OBSOLETE in a moment: {obsolete}")
    if not snapshot.enabled:
        return replace(
            why,
            summary=f"it waits until its schedule is resumed{_describe_pause(snapshot)}",
            timeout=_stopped_timeout(snapshot.schedule),
        )
    constraint_input = ConstraintInput(
        satisfied_at=job.satisfied_at,
        active_runs=tuple(holder.run for holder in snapshot.holders),
        own_runs=tuple(holder.run for holder in snapshot.holders if holder.schedule == job.schedule),
        last_completed_at=snapshot.last_completed_at,
        program=job.program,
        schedule_key=snapshot.ready.schedule_key,
        resources=snapshot.resources,
        lanes=snapshot.lanes,
        lane_position=lane_position(snapshot.ready),
        plugin_verdicts=_plugin_verdicts(snapshot, snapshot.schedule, now),
        queue_position=_queue_position(snapshot, snapshot.schedule),
    )
    holders = tuple({each.run: each for each in (*snapshot.holders, *snapshot.slot_holders)}.values())
    overlap = overlap_of(snapshot.schedule, snapshot.ready)
    admission = weigh(snapshot.schedule.constraints, overlap, constraint_input, now)
    needs = [str(each) for each in snapshot.schedule.constraints]
    needs += [f"overlap {overlap}"] * (len(admission.verdicts) - len(needs))
    quota = quota_verdict(snapshot.schedule.program.namespace, snapshot.resources)
    if quota is not None:
        admission = Admission((*admission.verdicts, quota), admission.stops)
        needs.append(f"quota {Quota.RUNS}")
    place = snapshot.place
    if place is not None and admission.is_admitted and place.kind in snapshot.resources.rooms:
        room = room_verdict(snapshot.resources.rooms[place.kind], place.share, place.turn)
        admission = Admission((*admission.verdicts, room), admission.stops)
        needs.append("room for a process")
    earliest, because = _earliest(admission, snapshot, now)
    return replace(
        why,
        summary=f"it is held until it is released: {snapshot.held}"
        if snapshot.held is not None
        else _waits(snapshot, admission, now),
        clauses=tuple(
            _clause(verdict, holders, need, lambda name: name == own or sees(name))
            for verdict, need in zip(admission.verdicts, needs, strict=True)
        ),
        since=job.satisfied_at,
        earliest=earliest,
        earliest_because=because,
        timeout=_timeout(snapshot, snapshot.schedule, now),
    )


def _describe_pause(snapshot: JobSnapshot) -> str:
    """When its schedule was paused, and why."""
    if not snapshot.pauses:
        return ""
    last = snapshot.pauses[-1]
    action = last.action.removeprefix("schedule.")
    return f"; it is {action} since {clock(last.at)}{f': {last.reason}' if last.reason else ''}"


def _next_attempt(job: JobRecord) -> str:
    times = "once" if job.failures == 1 else f"{job.failures} times in a row"
    due = "" if job.next_check_at is None else f"; the next attempt is at {clock(job.next_check_at)}"
    return f"that failed {times}{due}"


def _describe_deadlines(snapshot: JobSnapshot) -> Iterator[str]:
    for deadline, due_at in snapshot.deadlines:
        yield f"it has to {deadline}: by {clock(due_at)}, or {deadline.consequence}"


def _plugin_verdicts(snapshot: JobSnapshot, schedule: Schedule, now: datetime) -> Mapping[PlugIn, PluginVerdict]:
    """The verdicts of the last check; an explanation does not call plug-ins."""
    verdicts = zip(schedule.constraints, snapshot.job.waiting, strict=False)
    return {
        each: PluginVerdict(constraint_verdict.from_json(verdict), now, answer=False)
        for each, verdict in verdicts
        if isinstance(each, PlugIn)
    }


def _queue_position(snapshot: JobSnapshot, schedule: Schedule) -> QueuePosition | None:
    pool = schedule.pool
    if pool is None:
        return None
    queue = snapshot.resources.pool_queues.get(pool.name, PoolQueue())
    priority = pool.priority if snapshot.priority is None else snapshot.priority
    at = position_at(snapshot.ready.queued_at, priority, queue.age)
    return QueuePosition(at, snapshot.job.sequence, snapshot.job.id)


def _describe_outcome(snapshot: JobSnapshot, now: datetime) -> str:
    job = snapshot.job
    run = job.runs[-1] if job.runs else None
    match job.state:
        case JobState.PENDING_LAUNCH | JobState.LAUNCHED:
            return described_launch(snapshot.launch, now=now) if snapshot.launch is not None else f"launched as {run}"
        case JobState.COALESCED:
            return f"its events went to {job.joined}, which waited already"
        case JobState.ABORTED | JobState.TIMED_OUT | JobState.OBSOLETE | JobState.LAUNCH_FAILED:
            return job.reason
        case JobState.PENDING_TRIGGER | JobState.PENDING_CONSTRAINT:
            raise AssertionError("the job is not settled")
        case _:
            assert_never(job.state)


def _waits(snapshot: JobSnapshot, admission: Admission, now: datetime) -> str:
    schedule = snapshot.schedule
    deadline = None if schedule is None else wait_ends_at(snapshot.ready.satisfied_at, schedule, snapshot.resumed_at)
    if schedule is not None and deadline is not None and deadline <= now:
        outcome = "launches it all the same" if schedule.on_timeout is OnTimeout.LAUNCH else "ends it as TIMED_OUT"
        return f"its timeout of {schedule.timeout} passed at {clock(deadline)}: the next check {outcome}"
    if admission.is_aborted:
        return f"the next check ends it: {admission.reason}"
    if not admission.is_admitted:
        return f"it waits: {admission.reason}"
    text = "nothing stands in its way: the next check admits it"
    due, checked = snapshot.job.next_check_at, snapshot.checked_at or snapshot.job.created_at
    if due is not None and now - max(due, checked) >= PROMPT:
        return f"{text}, but no launcher has checked it since {clock(max(due, checked))}: does one run?"
    return text


def _earliest(admission: Admission, snapshot: JobSnapshot, now: datetime) -> tuple[datetime | None, str | None]:
    """The earliest start and what it is computed from. While the job waits for runs of its program, it is an estimate
    from the durations of the latest ones; None when a run already took longer, or is of another program.
    """
    if snapshot.held is not None or admission.is_aborted or admission.is_admitted:
        return None, None
    clocks = admission.wait_until, _latest_wait(admission.verdicts)
    if not admission.wait_for:
        return clocks
    began = {each.run: each.since for each in snapshot.holders}
    if snapshot.typical is None or not began.keys() >= set(admission.wait_for):
        return None, None
    guess = min(began[run] for run in admission.wait_for) + snapshot.typical
    if guess <= now:
        return None, None
    took = f"{duration_text(snapshot.typical)} is what half of the latest runs of {snapshot.job.program} took at most"
    return (guess, f"a guess: {took}") if clocks[0] is None or clocks[0] < guess else clocks


def _clause(verdict: ConstraintVerdict, holders: tuple[BlockingRun, ...], needs: str, sees: Sees) -> WhyClause:
    match verdict:
        case Satisfied(why=text):
            return WhyClause(text, holds=True, needs=needs)
        case WaitUntil(at=at, why=text):
            return WhyClause(text, holds=False, needs=needs, at=at)
        case WaitFor(what=what, why=text):
            held_by = tuple(holder for holder in holders if holder.run in what)
            seen = tuple(holder for holder in held_by if sees(holder.run.partition(".")[0]))
            return WhyClause(text, holds=False, needs=needs, holders=seen, others=len(held_by) - len(seen))
        case Unsatisfiable(why=text):
            return WhyClause(text, holds=False, needs=needs)
        case _:
            assert_never(verdict)


def _latest_wait(verdicts: tuple[ConstraintVerdict, ...]) -> str | None:
    waits = [verdict for verdict in verdicts if isinstance(verdict, WaitUntil)]
    return max(waits, key=lambda wait: wait.at).why if waits else None


def _timeout(snapshot: JobSnapshot, schedule: Schedule, now: datetime) -> str | None:
    satisfied_at, resumed_at = snapshot.ready.satisfied_at, snapshot.resumed_at
    deadline = wait_ends_at(satisfied_at, schedule, resumed_at)
    if deadline is None:
        return None
    when = "in a moment" if deadline <= now else f"at {deadline:%Y-%m-%d %H:%M:%S}Z"
    since = "it was satisfied" if resumed_at is None or resumed_at <= satisfied_at else "its schedule was resumed"
    return f"when it still waits {when} ({schedule.timeout} after {since}), {_at_timeout(schedule)}"


def _stopped_timeout(schedule: Schedule) -> str | None:
    """The timeout of a job that a pause holds."""
    if schedule.timeout is None:
        return None
    return f"when it still waits {schedule.timeout} after its schedule was resumed, {_at_timeout(schedule)}"


def _at_timeout(schedule: Schedule) -> str:
    match schedule.on_timeout:
        case OnTimeout.DISCARD:
            return "it ends as TIMED_OUT"
        case OnTimeout.LAUNCH:
            return "it is launched all the same"
        case _:
            assert_never(schedule.on_timeout)


def _satisfaction_texts(ready: ReadyJob) -> tuple[str, ...]:
    submitted = () if ready.submission is None else (f"a submission {ready.submission.origin}",)
    return submitted + contributions_of(ready)
