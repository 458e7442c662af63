"""Why a job is where it is: each constraint's word now, who stands in the way, and the earliest time that can change.

Built from one reading of the store and the same `check_all` that decides, so the explanation cannot differ from the
decision; only time may pass in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from streamsched.codec import verdict
from streamsched.domain.admission import (
    Admission,
    Facts,
    Opinion,
    Satisfied,
    Unsatisfiable,
    Verdict,
    WaitFor,
    WaitUntil,
    weigh,
)
from streamsched.domain.docket import superseded
from streamsched.domain.duration import duration_text
from streamsched.domain.job import JobState, ReadyJob
from streamsched.domain.plugin import PlugIn
from streamsched.domain.pool import Line, Turn, turn_at
from streamsched.domain.schedule import OnTimeout, Schedule
from streamsched.launcher.launching import PROMPT, clock, told
from streamsched.ports.clock import Clock
from streamsched.ports.jobs import Background, Decided, Holder, Jobs


@dataclass(frozen=True, slots=True)
class Clause:
    """One constraint of the job, or its overlap policy.

    Attributes:
        needs: what has to hold.
        text: how it stands.
        holds: whether it is satisfied now.
        at: when it can hold at the earliest (UTC), if a clock can tell.
        holders: the runs it waits for.
    """

    text: str
    holds: bool
    needs: str = ""
    at: datetime | None = None
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class Why:
    """The whole answer. Times UTC.

    Attributes:
        summary: one sentence.
        since: when it began to wait.
        earliest: when the job can start at the earliest as far as clocks can tell; while it waits for runs, a guess
            from how long such runs take; None when nobody can tell, or it waits no more.
        earliest_because: what that time is taken from.
        timeout: what happens when it has waited too long, and when; None when it may wait for ever.
        deadlines: those it has missed, and those still to come.
        satisfied_by: what each leaf of the trigger brought.
        history: every decision about the job and its runs, oldest first.
    """

    job: str
    state: JobState
    summary: str
    clauses: tuple[Clause, ...] = ()
    since: datetime | None = None
    earliest: datetime | None = None
    earliest_because: str | None = None
    timeout: str | None = None
    deadlines: tuple[str, ...] = ()
    satisfied_by: tuple[str, ...] = ()
    runs: tuple[str, ...] = ()
    history: tuple[Decided, ...] = field(default=())


async def why(job: str, *, jobs: Jobs, clock: Clock) -> Why:
    """Explains the job as it stands at this moment.

    Raises:
        NotFoundError: no such job.
        UnavailableError: PostgreSQL is away.
    """
    return explain(await jobs.background(job), now=clock.now())


def explain(background: Background, *, now: datetime) -> Why:
    """The explanation, from what was read."""
    job = background.job
    known = {
        "job": job.id,
        "state": job.state,
        "satisfied_by": _satisfied_by(background.ready),
        "runs": job.runs,
        "deadlines": (*(f"missed: {each}" for each in job.missed), *_to_come(background)),
        "history": background.history,
    }
    if job.state is not JobState.PENDING_CONSTRAINT:
        return Why(summary=_settled(background, now), **known)
    if background.unreadable is not None:
        return Why(summary=f"its schedule cannot be read: {background.unreadable}", **known)
    if background.history and background.history[-1].action == "job.deferred":
        return Why(summary=background.history[-1].reason, **known)
    gone = superseded(
        known=background.schedule is not None,
        standing=background.generation,
        enabled=background.enabled,
        generation=job.generation,
        stands_from=background.stands_from,
    )
    if gone is not None or background.schedule is None:
        return Why(summary=f"it will end as OBSOLETE in a moment: {gone}", **known)
    if not background.enabled:
        return Why(summary="it waits until its schedule is resumed", **known)
    facts = Facts(
        satisfied_at=job.satisfied_at,
        active_runs=tuple(holder.run for holder in background.holders),
        own_runs=tuple(holder.run for holder in background.holders if holder.schedule == job.schedule),
        last_completed_at=background.last_completed_at,
        program=job.program,
        groups=background.groups,
        lane=background.ready.lane,
        meters=background.meters,
        lines=background.lines,
        gates=background.gates,
        opinions=_said(background, background.schedule, now),
        turn=_turn(background, background.schedule),
    )
    holders = tuple({each.run: each for each in (*background.holders, *background.slot_holders)}.values())
    admission = weigh(background.schedule.constraints, background.schedule.overlap, facts, now)
    earliest, because = _earliest(admission, background, now)
    needs = [str(each) for each in background.schedule.constraints]
    needs += [f"overlap {background.schedule.overlap}"] * (len(admission.verdicts) - len(needs))
    return Why(
        summary=f"it is held until it is released: {background.held}"
        if background.held is not None
        else _waits(background, admission, now),
        clauses=tuple(_clause(verdict, holders, need) for verdict, need in zip(admission.verdicts, needs, strict=True)),
        since=job.satisfied_at,
        earliest=earliest,
        earliest_because=because,
        timeout=_timeout(background.schedule, background.ready, now),
        **known,
    )


def _to_come(background: Background) -> Iterator[str]:
    for deadline, due_at in background.deadlines:
        yield f"it has to {deadline}: by {clock(due_at)}, or {deadline.consequence}"


def _said(background: Background, schedule: Schedule, now: datetime) -> Mapping[PlugIn, Opinion]:
    """What plug-ins said at the last check: here nobody asks them."""
    told = zip(schedule.constraints, background.job.waiting, strict=False)
    return {
        each: Opinion(verdict.from_json(said), now, answer=False) for each, said in told if isinstance(each, PlugIn)
    }


def _turn(background: Background, schedule: Schedule) -> Turn | None:
    pool = schedule.pool
    if pool is None:
        return None
    line = background.lines.get(pool.name, Line())
    priority = pool.priority if background.priority is None else background.priority
    at = turn_at(background.job.satisfied_at, priority, line.age)
    return Turn(at, background.job.sequence, background.job.id)


def _settled(background: Background, now: datetime) -> str:
    job = background.job
    run = job.runs[-1] if job.runs else None
    match job.state:
        case JobState.PENDING_LAUNCH | JobState.LAUNCHED:
            return told(background.launch, now=now) if background.launch is not None else f"launched as {run}"
        case JobState.COALESCED:
            return f"its events went to {job.joined}, which waited already"
        case JobState.ABORTED | JobState.TIMED_OUT | JobState.OBSOLETE | JobState.LAUNCH_FAILED:
            return job.reason
        case JobState.PENDING_TRIGGER | JobState.PENDING_CONSTRAINT:
            raise AssertionError("such a job is no settled row")
        case _:
            assert_never(job.state)


def _waits(background: Background, admission: Admission, now: datetime) -> str:
    if admission.aborted:
        return f"the next check ends it: {admission.why}"
    if not admission.admitted:
        return f"it waits: {admission.why}"
    said = "nothing stands in its way: the next check admits it"
    due, looked = background.job.next_check_at, background.checked_at or background.job.created_at
    if due is not None and now - max(due, looked) >= PROMPT:
        return f"{said}, but no launcher has looked at it since {clock(max(due, looked))}: does one run?"
    return said


def _earliest(admission: Admission, background: Background, now: datetime) -> tuple[datetime | None, str | None]:
    """The earliest start and what it is taken from. While runs of the program are in the way, it is a guess from how
    long its latest runs took; one that takes longer already, or a run of another program, leaves none.
    """
    if background.held is not None or admission.aborted or admission.admitted:
        return None, None
    clocks = admission.wait_until, _latest(admission.verdicts)
    if not admission.wait_for:
        return clocks
    began = {each.run: each.since for each in background.holders}
    if background.typical is None or not began.keys() >= set(admission.wait_for):
        return None, None
    guess = min(began[run] for run in admission.wait_for) + background.typical
    if guess <= now:
        return None, None
    took = (
        f"{duration_text(background.typical)} is what half of the latest runs of {background.job.program} took at most"
    )
    return (guess, f"a guess: {took}") if clocks[0] is None or clocks[0] < guess else clocks


def _clause(verdict: Verdict, holders: tuple[Holder, ...], needs: str) -> Clause:
    match verdict:
        case Satisfied(why=text):
            return Clause(text, holds=True, needs=needs)
        case WaitUntil(at=at, why=text):
            return Clause(text, holds=False, needs=needs, at=at)
        case WaitFor(what=what, why=text):
            held_by = tuple(holder for holder in holders if holder.run in what)
            return Clause(text, holds=False, needs=needs, holders=held_by)
        case Unsatisfiable(why=text):
            return Clause(text, holds=False, needs=needs)
        case _:
            assert_never(verdict)


def _latest(verdicts: tuple[Verdict, ...]) -> str | None:
    waits = [verdict for verdict in verdicts if isinstance(verdict, WaitUntil)]
    return max(waits, key=lambda wait: wait.at).why if waits else None


def _timeout(schedule: Schedule, ready: ReadyJob, now: datetime) -> str | None:
    if schedule.timeout is None:
        return None
    deadline = ready.satisfied_at + schedule.timeout
    match schedule.on_timeout:
        case OnTimeout.DISCARD:
            outcome = "it ends as TIMED_OUT"
        case OnTimeout.LAUNCH:
            outcome = "it is launched all the same"
        case _:
            assert_never(schedule.on_timeout)
    when = "in a moment" if deadline <= now else f"at {deadline:%Y-%m-%d %H:%M:%S}Z"
    return f"when it still waits {when} ({schedule.timeout} after it was satisfied), {outcome}"


def _satisfied_by(ready: ReadyJob) -> tuple[str, ...]:
    return tuple(
        f"{part.leaf}: {part.count} from {len(part.events)} event{'' if len(part.events) == 1 else 's'}"
        for part in ready.contributions
    )
