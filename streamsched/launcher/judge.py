"""Judges a docket: which due jobs run, wait, join another or end. Pure: the launcher's whole policy, without a store.

Jobs are judged oldest satisfaction first, and a run admitted here counts at once for those that come after it, so the
docket of one program is decided as if its jobs had come one by one.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import assert_never

from streamsched.domain.admission import Admission, Facts, Satisfied, WaitFor, check_all
from streamsched.domain.docket import Admit, Case, Docket, End, Join, Ruling, Wait, superseded
from streamsched.domain.group import Group, Occupancy
from streamsched.domain.job import JobFact, Order, ReadyJob, job_id, merged
from streamsched.domain.names import ScheduleRef
from streamsched.domain.run import run_id
from streamsched.domain.schedule import OnTimeout, Overlap, Program, Schedule
from streamsched.launcher.arguments import arguments


def judge(docket: Docket, *, now: datetime) -> tuple[Ruling, ...]:
    """One ruling for each case of the docket."""
    rulings: list[Ruling] = []
    waiting = dict(docket.waiting)
    for case in docket.cases:
        ruling = _rule(docket, case, waiting, now)
        key = case.ready.schedule, case.ready.generation
        match ruling:
            case Wait():
                waiting[key] = min(case.ready.sequence, waiting.get(key, case.ready.sequence))
            case Admit():
                docket = _with_run(docket, ruling, now)
                _leaves(waiting, key, case)
            case End():
                _leaves(waiting, key, case)
            case Join():
                pass
            case _:
                assert_never(ruling)
        rulings.append(ruling)
    return _with_joined(docket, rulings)


def _rule(
    docket: Docket,
    case: Case,
    waiting: dict[tuple[ScheduleRef, int], int],
    now: datetime,
) -> Ruling:
    ready = case.ready
    gone = superseded(
        known=case.schedule is not None, standing=case.generation, enabled=case.enabled, generation=ready.generation
    )
    if gone is not None:
        return End(case.job, JobFact.SUPERSEDED, gone)
    if docket.program is None or case.schedule is None:
        return End(case.job, JobFact.SUPERSEDED, "its program was removed")
    match case.order:
        case Order.FORCE:
            return _admit(case, docket.program, case.schedule, f"forced: {case.order_reason}")
        case Order.CANCEL:
            return End(case.job, JobFact.CANCELLED, f"cancelled: {case.order_reason}")
        case Order.HOLD:
            return Wait(case.job, (), None, f"held: {case.order_reason}", news=case.held_by != ())
        case None:
            pass
        case _:
            assert_never(case.order)
    elder = waiting.get((ready.schedule, ready.generation))
    if case.schedule.overlap is Overlap.COALESCE and elder is not None and elder < ready.sequence:
        into = job_id(ready.schedule, ready.generation, elder)
        return Join(case.job, into, f"joined {into}, which still waits")
    facts = Facts(
        satisfied_at=ready.satisfied_at,
        active_runs=docket.active_runs,
        last_completed_at=docket.last_completed_at,
        program=docket.program.ref,
        groups=docket.groups,
        starts=docket.starts,
    )
    admission = check_all(case.schedule.constraints, facts, now)
    return _by_admission(case, docket.program, case.schedule, admission, now)


def _by_admission(case: Case, program: Program, schedule: Schedule, admission: Admission, now: datetime) -> Ruling:
    if admission.aborted:
        return End(case.job, JobFact.ABORTED, admission.why)
    if admission.admitted:
        return _admit(case, program, schedule, admission.why or "no constraints")
    deadline = None if schedule.timeout is None else case.ready.satisfied_at + schedule.timeout
    if deadline is not None and now >= deadline:
        late = f"waited {schedule.timeout} in vain: {admission.why}"
        match schedule.on_timeout:
            case OnTimeout.DISCARD:
                return End(case.job, JobFact.TIMED_OUT, late)
            case OnTimeout.LAUNCH:
                return _admit(case, program, schedule, f"launched all the same: {late}")
            case _:
                assert_never(schedule.on_timeout)
    until = min((at for at in (admission.wait_until, deadline) if at is not None), default=None)
    held_by = tuple(n for n, verdict in enumerate(admission.verdicts) if not isinstance(verdict, Satisfied))
    groups = tuple(
        constraint.name
        for constraint, verdict in zip(schedule.constraints, admission.verdicts, strict=True)
        if isinstance(constraint, Group) and isinstance(verdict, WaitFor)
    )
    return Wait(case.job, admission.verdicts, until, admission.why, news=held_by != case.held_by, groups=groups)


def _admit(case: Case, program: Program, schedule: Schedule, why: str) -> Admit:
    given = arguments(program, schedule, case.ready)
    slots = tuple((group.name, group.weight) for group in schedule.groups)
    return Admit(case.job, case.ready, run_id(case.job, 1), given, why, slots)


def _with_run(docket: Docket, admit: Admit, now: datetime) -> Docket:
    """The docket as those find it that come after the admitted one."""
    groups = dict(docket.groups)
    for name, weight in admit.slots:
        groups[name] = groups.get(name, Occupancy()).taken_by(admit.run, weight)
    return replace(docket, active_runs=(*docket.active_runs, admit.run), groups=groups, starts=(now, *docket.starts))


def _leaves(waiting: dict[tuple[ScheduleRef, int], int], key: tuple[ScheduleRef, int], case: Case) -> None:
    if waiting.get(key) == case.ready.sequence:
        del waiting[key]


def _with_joined(docket: Docket, rulings: list[Ruling]) -> tuple[Ruling, ...]:
    """What joined a job in this very docket goes with it when the job is admitted in it."""
    readies = {case.job: case.ready for case in docket.cases}
    joined: dict[str, list[ReadyJob]] = {}
    for ruling in rulings:
        if isinstance(ruling, Join):
            joined.setdefault(ruling.into, []).append(readies[ruling.job])
    return tuple(
        replace(ruling, ready=merged(ruling.ready, joined[ruling.job]))
        if isinstance(ruling, Admit) and ruling.job in joined
        else ruling
        for ruling in rulings
    )
