"""Judges a docket: which due jobs run, wait, join another or end. Pure: the launcher's whole policy, without a store.

Jobs are judged oldest satisfaction first (those of a pool in the order of its line), and a run admitted here counts at
once for those that come after it, so the docket of one program is decided as if its jobs had come one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, assert_never

from streamsched.domain.admission import Admission, Facts, Opinion, Satisfied, Verdict, WaitFor, WaitUntil, named, weigh
from streamsched.domain.arguments import arguments
from streamsched.domain.constraint import Constraint, LastRun
from streamsched.domain.docket import Admit, Case, Docket, End, Join, Ruling, Wait, superseded, taking_along
from streamsched.domain.group import Group, Occupancy
from streamsched.domain.job import JobFact, Lane, Order, Place, ReadyJob, job_id
from streamsched.domain.load import Gate, Load
from streamsched.domain.overlap import Overlap
from streamsched.domain.pace import Bucket
from streamsched.domain.plugin import PlugIn, Question
from streamsched.domain.pool import Line, Pool, slots_name
from streamsched.domain.rate import Meter, Rate, drawn, meter_of, program_scope
from streamsched.domain.run import run_id
from streamsched.domain.schedule import OnTimeout, Program, Schedule

#: When a job looks again whose pool has a free place that those before it have not taken.
_TURN: Final = timedelta(seconds=5)
#: How much later than the next token a job looks that waits for a later one.
_PATIENCE: Final = timedelta(minutes=1)

#: What plug-ins said, by job.
Opinions = Mapping[str, Mapping[PlugIn, Opinion]]

_NOTHING_SAID: Final[Opinions] = MappingProxyType({})
#: When a job looks again that waits for a plug-in to answer, or that one has told to wait without a time.
_ASK_AGAIN: Final = timedelta(seconds=10)


def judge(docket: Docket, *, now: datetime, opinions: Opinions = _NOTHING_SAID) -> tuple[Ruling, ...]:
    """One ruling for each case of the docket. `opinions` is what plug-ins said of its jobs."""
    docket, order = _lined_up(docket)
    rulings: dict[str, Ruling] = {}
    waiting = dict(docket.waiting)
    newest, scopes, queues = _newest(docket.cases), _Scopes(docket), Counter[Meter]()
    for case in order:
        ruling = _rule(docket, case, waiting, newest, now=now, opinions=opinions.get(case.job, {}))
        lane, place = case.lane, case.place
        match ruling:
            case Wait():
                if docket.meters:
                    ruling = _one_by_one(docket, case, ruling, queues, now)
                waiting[lane] = min(place, waiting.get(lane, place))
            case Admit():
                ruling = _metered(ruling, scopes(case))
                docket = _with_run(docket, case, ruling, now)
                _leaves(waiting, case)
            case End():
                _leaves(waiting, case)
            case Join():
                pass
            case _:
                assert_never(ruling)
        rulings[case.job] = ruling
        if docket.lines:
            docket = _moved_up(docket, case, ruling)
    return _with_joined(docket, [rulings[case.job] for case in docket.cases])


def _lined_up(docket: Docket) -> tuple[Docket, Sequence[Case]]:
    """The docket with its cases in the lines of their pools, and the cases in the order they are judged in: jobs of one
    schedule stay in order, for they have one priority.
    """
    if not docket.lines:
        return docket, docket.cases
    lines = dict(docket.lines)
    for name, line in lines.items():
        lines[name] = line.joined([docket.turn(case) for case in docket.cases if _pool(case) == name])
    places = {case.job: place for place, case in enumerate(docket.cases)}
    order = sorted(docket.cases, key=lambda case: (docket.turn(case).at, places[case.job]))
    return replace(docket, lines=lines), order


def _moved_up(docket: Docket, case: Case, ruling: Ruling) -> Docket:
    """The lines as those find them that come after the case: only who waits for a place alone keeps his."""
    pool = _pool(case)
    if pool is None or (isinstance(ruling, Wait) and ruling.line is not None):
        return docket
    return replace(docket, lines={**docket.lines, pool: docket.lines.get(pool, Line()).left(case.job)})


def _pool(case: Case) -> str | None:
    return case.schedule.pool.name if case.schedule is not None and case.schedule.pool is not None else None


def _rule(
    docket: Docket,
    case: Case,
    waiting: Mapping[Lane, Place],
    newest: Mapping[Lane, Place],
    *,
    now: datetime,
    opinions: Mapping[PlugIn, Opinion],
) -> Ruling:
    ready = case.ready
    gone = superseded(
        known=case.schedule is not None,
        standing=case.generation,
        enabled=case.enabled,
        generation=ready.generation,
        stands_from=case.stands_from,
    )
    if gone is not None:
        return End(case.job, JobFact.SUPERSEDED, gone)
    if docket.program is None or case.schedule is None:
        return End(case.job, JobFact.SUPERSEDED, "its program was removed")
    if not case.enabled and case.order is not Order.CANCEL:
        return Wait(case.job, (), None, "its schedule is paused", news=case.held_by != (), spared=True)
    match case.order:
        case Order.FORCE:
            return _admit(case, docket.program, case.schedule, f"forced: {case.order_reason}")
        case Order.CANCEL:
            return End(case.job, JobFact.CANCELLED, f"cancelled: {case.order_reason}")
        case Order.HOLD:
            return Wait(case.job, (), None, f"held: {case.order_reason}", news=case.held_by != (), spared=True)
        case None:
            pass
        case _:
            assert_never(case.order)
    own_runs = docket.own_runs.get(case.lane, ())
    settled = _overlapping(case, case.schedule.overlap, waiting.get(case.lane), own_runs)
    if settled is not None:
        return settled
    facts = Facts(
        satisfied_at=ready.satisfied_at,
        active_runs=docket.active_runs,
        own_runs=own_runs,
        last_completed_at=docket.last_completed_at,
        program=docket.program.ref,
        groups=docket.groups,
        lane=case.lane,
        meters=docket.meters,
        lines=docket.lines,
        turn=docket.turn(case) if docket.lines else None,
        gates=docket.gates,
        opinions=opinions,
    )
    last = newest.get(case.lane, case.place)
    replaced = last > case.place
    admitted = weigh(case.schedule.constraints, case.schedule.overlap, facts, now)
    ruling = _by_admission(case, docket.program, case.schedule, admitted, now)
    if isinstance(ruling, Wait) and case.schedule.plugins:
        ruling = _asking(case.schedule, facts, ruling, ready.id, now)
    if isinstance(ruling, Wait) and docket.lines:
        ruling = _in_line(docket, case, case.schedule, ruling, now)
    if replaced and (isinstance(ruling, Wait) or case.schedule.overlap.stops):
        by = job_id(ready.schedule, *last)
        return End(case.job, JobFact.REPLACED, f"{by} took its place: overlap is {case.schedule.overlap}")
    return ruling


def _overlapping(case: Case, overlap: Overlap, elder: Place | None, own_runs: Sequence[str]) -> Ruling | None:
    """What an earlier job or run of the schedule means for this one, whatever its constraints say; None: nothing."""
    ready = case.ready
    waits = None if elder is None or elder >= case.place else job_id(ready.schedule, *elder)
    match overlap:
        case Overlap.COALESCE:
            return None if waits is None else Join(case.job, waits, f"joined {waits}, which still waits")
        case Overlap.SKIP:
            if case.held_by is not None:
                return None  # it was there first
            if waits is not None:
                return End(case.job, JobFact.SKIPPED, f"skipped: {waits} still waits")
            if own_runs:
                return End(case.job, JobFact.SKIPPED, f"skipped: the run before is active: {named(own_runs)}")
            return None
        case Overlap.QUEUE | Overlap.LATEST | Overlap.CANCEL_RUNNING | Overlap.KILL_RUNNING:
            return None
        case _:
            assert_never(overlap)


def _newest(cases: Sequence[Case]) -> Mapping[Lane, Place]:
    """Of each lane whose newest job alone goes on: the last that goes its own way."""
    newest: dict[Lane, Place] = {}
    for case in cases:
        if case.order is None and case.schedule is not None and case.schedule.overlap.newest_only:
            lane, place = case.lane, case.place
            newest[lane] = max(place, newest.get(lane, place))
    return newest


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
    held_by = _unmet(admission.verdicts)
    groups = tuple(
        constraint.name
        for constraint, verdict in zip(schedule.constraints, admission.verdicts, strict=False)
        if isinstance(constraint, Group) and isinstance(verdict, WaitFor)
    )
    return Wait(
        case.job,
        admission.verdicts,
        until,
        admission.why,
        news=held_by != case.held_by,
        groups=groups,
        stops=admission.stops,
        kill=schedule.overlap is Overlap.KILL_RUNNING,
        spared=_spared(schedule.constraints, admission),
    )


def _unmet(verdicts: Sequence[Verdict]) -> tuple[int, ...]:
    """By their places, what holds a job."""
    return tuple(n for n, verdict in enumerate(verdicts) if not isinstance(verdict, Satisfied))


def _spared(constraints: Sequence[Constraint], admission: Admission) -> bool:
    """Whether the end of a run cannot let the job go: a time is to come first, at which it is looked at; or all that
    holds it wakes who waits for it by itself. Nor can it end the job, before that time.
    """
    if admission.wait_until is not None:
        return not any(isinstance(each, LastRun) and not each.wait for each in constraints)
    held_by = _unmet(admission.verdicts)
    return all(n < len(constraints) and isinstance(constraints[n], Group | Load | Pool) for n in held_by)


def _asking(schedule: Schedule, facts: Facts, wait: Wait, job: str, now: datetime) -> Wait:
    """The ruling with whom to ask. It looks again by itself too, if the launcher that asks should die."""
    assert facts.lane is not None
    question = Question(
        job,
        schedule.ref,
        schedule.program,
        facts.lane.key,
        facts.satisfied_at,
        now,
        facts.active_runs,
        facts.last_completed_at,
    )
    known = {plugin: facts.opinions.get(plugin) for plugin in schedule.plugins}
    asks = tuple((each, question) for each, said in known.items() if said is None or not said.counts(now))
    untimed = any(said is None or isinstance(said.verdict, WaitFor) for said in known.values())
    again = now + _ASK_AGAIN if asks or untimed else wait.until
    until = again if wait.until is None or again is None else min(again, wait.until)
    return replace(wait, asks=asks, until=until)


def _one_by_one(docket: Docket, case: Case, wait: Wait, queues: Counter[Meter], now: datetime) -> Wait:
    """The ruling with the time of the job's own token, when nothing but rates holds it: of several that wait for one
    bucket each looks when those before it have had theirs, not all of them at each token. It looks a minute after the
    next token at the latest, for those before it may have ended without a word.
    """
    schedule, program = case.schedule, docket.program
    if schedule is None or program is None or wait.until is None:
        return wait
    held_by = _unmet(wait.verdicts)
    rates = [
        each for n in held_by if n < len(schedule.constraints) and isinstance(each := schedule.constraints[n], Rate)
    ]
    if not rates or len(rates) < len(held_by):
        return wait
    turns: dict[Meter, datetime] = {}
    for meter in (meter_of(rate, program.ref, case.lane) for rate in rates):
        bucket = docket.meters.get(meter) or meter.full(now)
        turns[meter] = meter.pace.next_at(Bucket(bucket.left - queues[meter], bucket.at), now)
    last = max(turns, key=lambda meter: turns[meter])
    queues[last] += 1
    token = max(verdict.at for verdict in wait.verdicts if isinstance(verdict, WaitUntil))
    until = min(turns[last], token + _PATIENCE)
    deadline = None if schedule.timeout is None else case.ready.satisfied_at + schedule.timeout
    return replace(wait, until=until if deadline is None else min(until, deadline))


def _in_line(docket: Docket, case: Case, schedule: Schedule, wait: Wait, now: datetime) -> Wait:
    """The ruling with the place in the line, when nothing but the pool holds the job. While there is a free place and
    those before it have not taken it, it looks again soon: one of them may have ended without a word.
    """
    held_by = _unmet(wait.verdicts)
    pool = schedule.pool
    if pool is None or (schedule.constraints.index(pool),) != held_by:
        return wait
    line = docket.lines.get(pool.name, Line())
    until = wait.until
    if line.places.taken < line.size(pool):
        until = min(now + _TURN, until or now + _TURN)
    return replace(wait, until=until, line=(pool.name, docket.turn(case)))


def _admit(case: Case, program: Program, schedule: Schedule, why: str) -> Admit:
    given = arguments(program, schedule, case.ready)
    slots = tuple((group.name, group.weight) for group in schedule.groups)
    if schedule.pool is not None:
        slots += ((slots_name(schedule.pool.name), 1),)
    return Admit(case.job, case.ready, run_id(case.job, 1), given, why, slots)


class _Scopes:
    """Where runs of a docket's cases count, of what it has meters of: the same for all of a lane."""

    def __init__(self, docket: Docket) -> None:
        self._program = None if docket.program is None else docket.program.ref
        self._metered = frozenset(meter.scope for meter in docket.meters)
        self._known: dict[Lane, tuple[str, ...]] = {}

    def __call__(self, case: Case) -> tuple[str, ...]:
        if not self._metered:
            return ()
        known = self._known.get(case.lane)
        return self._known.setdefault(case.lane, self._of(case)) if known is None else known

    def _of(self, case: Case) -> tuple[str, ...]:
        if self._program is None or case.schedule is None:
            return ()
        own = {meter_of(rate, self._program, case.lane).scope for rate in case.schedule.rates}
        return tuple(sorted(self._metered & {program_scope(self._program), *own}))


def _metered(admit: Admit, scopes: tuple[str, ...]) -> Admit:
    if not scopes:
        return admit
    return Admit(admit.job, admit.ready, admit.run, admit.arguments, admit.reason, admit.slots, scopes)


def _with_run(docket: Docket, case: Case, admit: Admit, now: datetime) -> Docket:
    """The docket as those find it that come after the admitted one. Spelt out: `replace` costs as much as judging."""
    groups, lines = docket.groups, docket.lines
    if admit.slots:
        groups = {**groups}
        for name, weight in admit.slots:
            groups[name] = groups.get(name, Occupancy()).taken_by(admit.run, weight)
    lane, pool = case.lane, _pool(case)
    if pool is not None:
        lines = {**lines, pool: lines.get(pool, Line()).taken_by(admit.run)}
    return Docket(
        docket.program,
        docket.cases,
        docket.waiting,
        (*docket.active_runs, admit.run),
        {**docket.own_runs, lane: (*docket.own_runs.get(lane, ()), admit.run)},
        docket.last_completed_at,
        groups,
        drawn(docket.meters, admit.scopes, now) if admit.scopes else docket.meters,
        lines,
        _passed(docket.gates, case) if docket.gates else docket.gates,
    )


def _passed(gates: Mapping[Load, Gate], case: Case) -> Mapping[Load, Gate]:
    loads = () if case.schedule is None else case.schedule.loads
    return {load: gate.passed() if load in loads else gate for load, gate in gates.items()}


def _leaves(waiting: dict[Lane, Place], case: Case) -> None:
    if waiting and waiting.get(case.lane) == case.place:
        del waiting[case.lane]


def _with_joined(docket: Docket, rulings: list[Ruling]) -> tuple[Ruling, ...]:
    """What joined a job in this very docket goes with it when the job is admitted in it."""
    joined: dict[str, list[ReadyJob]] = {}
    for case, ruling in zip(docket.cases, rulings, strict=True):
        if isinstance(ruling, Join):
            joined.setdefault(ruling.into, []).append(case.ready)
    if not joined or docket.program is None:
        return tuple(rulings)
    return tuple(
        taking_along(ruling, case, docket.program, joined[ruling.job])
        if isinstance(ruling, Admit) and ruling.job in joined
        else ruling
        for case, ruling in zip(docket.cases, rulings, strict=True)
    )
