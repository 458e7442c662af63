"""Judges a decision input: which due jobs run, wait, join another or end. Pure: the launcher's policy without a store.

Jobs are judged oldest satisfaction first, those of backfills last (those of a pool in the order of its queue). An
admitted run counts at once for the jobs after it, so the result is the same as if the jobs were decided one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final, assert_never

from streamsched.domain.constraints.constraint import Concurrency, ConcurrencyScope, Constraint, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.pace import BucketLevel
from streamsched.domain.constraints.plugin import PlugIn, Question
from streamsched.domain.constraints.pool import Pool, PoolQueue, slots_name
from streamsched.domain.constraints.rate import Rate, TokenBucket, bucket_of
from streamsched.domain.decisions.admission import (
    Admission,
    ConstraintInput,
    ConstraintVerdict,
    PluginVerdict,
    Satisfied,
    WaitFor,
    WaitUntil,
    weigh,
)
from streamsched.domain.decisions.admitted import (
    BucketKeys,
    remove_waiting,
    with_bucket_keys,
    with_coalesced_jobs,
    with_run,
)
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, DueJob, End, Join, Wait, invalidity
from streamsched.domain.decisions.lanes import after_decision, in_lanes, lane_position
from streamsched.domain.decisions.names_in_reasons import names_text
from streamsched.domain.decisions.room_for_processes import within_room_and_quota
from streamsched.domain.errors import describe_failure
from streamsched.domain.jobs.job import JobCommand, JobFact, JobNumber, ReadyJob, ScheduleKey
from streamsched.domain.jobs.run import run_id
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import OnTimeout, Program, Schedule
from streamsched.domain.time.instants import clock

#: Recheck interval of a job whose pool has a free slot that the jobs ahead of it have not taken.
_POOL_RECHECK: Final = timedelta(seconds=5)
#: A job that waits for a later token is checked at most this long after the next one: a minute, less a margin for
#: token times being rounded up to microseconds.
_TOKEN_RECHECK: Final = timedelta(minutes=1) - timedelta(milliseconds=1)

#: Verdicts of plug-ins, by job id.
PluginVerdicts = Mapping[str, Mapping[PlugIn, PluginVerdict]]

NO_PLUGIN_VERDICTS: Final[PluginVerdicts] = MappingProxyType({})
#: Recheck interval of a job that waits for a plug-in's answer, or that a plug-in holds without naming a time.
_PLUGIN_RECHECK: Final = timedelta(seconds=10)


def judge(
    decision_input: DecisionInput, *, now: datetime, plugin_verdicts: PluginVerdicts = NO_PLUGIN_VERDICTS
) -> tuple[Decision, ...]:
    """One decision for each due job, in their order. `plugin_verdicts` are the latest answers of plug-ins."""
    decision_input, order = _queue_jobs(decision_input)
    decisions: dict[str, Decision] = {}
    waiting = dict(decision_input.waiting)
    newest, bucket_keys = _newest_jobs(decision_input.due_jobs), BucketKeys(decision_input)
    reserved = Counter[TokenBucket]()
    for due_job in order:
        after = decision_input
        try:
            decision = _decide(
                decision_input, due_job, waiting, newest, now=now, plugin_verdicts=plugin_verdicts.get(due_job.job, {})
            )
            if isinstance(decision, Wait) and decision_input.resources.buckets:
                decision = _until_own_token(decision_input, due_job, decision, reserved, now)
            elif isinstance(decision, Admit):
                decision = with_bucket_keys(decision, bucket_keys(due_job))
                after = with_run(decision_input, due_job, decision, now)
        except Exception as failure:  # noqa: BLE001 - whatever a definition or its data raises concerns this job alone
            decision = wait_undecided(due_job.job, failure)
        decision_input = after
        match decision:
            case Wait() if decision.failed or due_job.is_alone:
                pass  # no other job joins it
            case Wait():
                waiting[due_job.schedule_key] = min(due_job.number, waiting.get(due_job.schedule_key, due_job.number))
            case Admit() | End():
                remove_waiting(waiting, due_job)
            case Join():
                pass
            case _:
                assert_never(decision)
        decisions[due_job.job] = decision
        if decision_input.lanes:
            decision_input = after_decision(decision_input, due_job, decision)
        if decision_input.resources.pool_queues:
            decision_input = _after_decision(decision_input, due_job, decision)
    return with_coalesced_jobs(decision_input, [decisions[due_job.job] for due_job in decision_input.due_jobs])


def wait_undecided(job: str, failure: Exception) -> Wait:
    """The decision on a job whose evaluation raised."""
    return Wait(job, (), None, f"it cannot be decided: {describe_failure(failure)}", failed=True)


def _queue_jobs(decision_input: DecisionInput) -> tuple[DecisionInput, Sequence[DueJob]]:
    """The input with its jobs inserted into the queues of their pools, and the jobs in the order of judging. Jobs of
    one schedule keep their order because they have the same priority.
    """
    if not decision_input.resources.pool_queues:
        return decision_input, decision_input.due_jobs
    queues = dict(decision_input.resources.pool_queues)
    for name, queue in queues.items():
        own = [decision_input.queue_position(due_job) for due_job in decision_input.due_jobs if due_job.pool == name]
        queues[name] = queue.with_positions(own)
    index = {due_job.job: n for n, due_job in enumerate(decision_input.due_jobs)}
    order = sorted(
        decision_input.due_jobs, key=lambda due_job: (decision_input.queue_position(due_job).at, index[due_job.job])
    )
    return _with_queues(decision_input, queues), order


def _after_decision(decision_input: DecisionInput, due_job: DueJob, decision: Decision) -> DecisionInput:
    """The input for the jobs after this one: a job stays in the queue only when nothing but the pool holds it."""
    pool = due_job.pool
    if pool is None or (isinstance(decision, Wait) and decision.queued is not None):
        return decision_input
    queues = decision_input.resources.pool_queues
    return _with_queues(decision_input, {**queues, pool: queues.get(pool, PoolQueue()).without_job(due_job.job)})


def _with_queues(decision_input: DecisionInput, queues: Mapping[str, PoolQueue]) -> DecisionInput:
    return replace(decision_input, resources=replace(decision_input.resources, pool_queues=queues))


def _decide(
    decision_input: DecisionInput,
    due_job: DueJob,
    waiting: Mapping[ScheduleKey, JobNumber],
    newest: Mapping[ScheduleKey, JobNumber],
    *,
    now: datetime,
    plugin_verdicts: Mapping[PlugIn, PluginVerdict],
) -> Decision:
    ready = due_job.ready
    why = invalidity(
        known=due_job.schedule is not None or ready.schedule is None,
        current=due_job.generation,
        enabled=due_job.enabled,
        generation=ready.generation,
        oldest_valid_generation=due_job.oldest_valid_generation,
    )
    if why is not None:
        return End(due_job.job, JobFact.SUPERSEDED, why)
    if decision_input.program is None or due_job.schedule is None:
        return End(due_job.job, JobFact.SUPERSEDED, "its program was removed")
    if not due_job.enabled and due_job.command is not JobCommand.CANCEL:
        why = "its schedule is paused"
        paused = Wait(due_job.job, (), None, why, changed=due_job.held_by != (), skip_on_run_end=True)
        return in_lanes(due_job, paused)  # whoever is decided while the pause ends comes behind it
    match due_job.command:
        case JobCommand.FORCE:
            forced = _admit(due_job, decision_input.program, due_job.schedule, f"forced: {due_job.command_reason}")
            return within_room_and_quota(forced, due_job, decision_input, None, now)
        case JobCommand.CANCEL:
            return End(due_job.job, JobFact.CANCELLED, f"cancelled: {due_job.command_reason}")
        case JobCommand.HOLD:
            return Wait(
                due_job.job,
                (),
                None,
                f"held: {due_job.command_reason}",
                changed=due_job.held_by != (),
                skip_on_run_end=True,
            )
        case None:
            pass
        case _:
            assert_never(due_job.command)
    own_runs = decision_input.own_runs.get(due_job.schedule_key, ())
    by_overlap = _by_overlap(due_job, due_job.overlap, waiting.get(due_job.schedule_key), own_runs)
    if by_overlap is not None:
        return by_overlap
    facts = ConstraintInput(
        satisfied_at=ready.satisfied_at,
        active_runs=decision_input.active_runs,
        own_runs=own_runs,
        last_completed_at=decision_input.last_completed_at,
        program=decision_input.program.ref,
        schedule_key=due_job.schedule_key,
        resources=decision_input.resources,
        lanes=decision_input.lanes,
        lane_position=lane_position(ready) if decision_input.lanes else None,
        queue_position=decision_input.queue_position(due_job) if decision_input.resources.pool_queues else None,
        plugin_verdicts=plugin_verdicts,
    )
    last = newest.get(due_job.schedule_key, due_job.number)
    replaced = due_job.overlap.keeps_newest and last > due_job.number
    admitted = weigh(due_job.schedule.constraints, due_job.overlap, facts, now)
    decision = _by_admission(due_job, decision_input.program, due_job.schedule, admitted, now)
    deadline = wait_ends_at(ready.satisfied_at, due_job.schedule, due_job.resumed_at)
    decision = within_room_and_quota(decision, due_job, decision_input, deadline, now)
    if isinstance(decision, Wait) and due_job.schedule.plugins:
        decision = _with_questions(due_job.schedule, facts, decision, ready, now)
    if isinstance(decision, Wait) and decision_input.resources.pool_queues:
        decision = _in_queue(decision_input, due_job, due_job.schedule, decision, now)
    if replaced and (isinstance(decision, Wait) or due_job.overlap.stops):
        return End(due_job.job, JobFact.REPLACED, f"{last.job} took its place: overlap is {due_job.overlap}")
    return in_lanes(due_job, decision)


def _by_overlap(
    due_job: DueJob, overlap: Overlap, oldest: JobNumber | None, own_runs: Sequence[str]
) -> Decision | None:
    """The decision that an earlier waiting job or active run of the schedule makes, before constraints are checked;
    None when there is none. `oldest` is the number of the schedule key's oldest waiting job.
    """
    waits = None if oldest is None or oldest >= due_job.number else oldest.job
    match overlap:
        case Overlap.COALESCE:
            return None if waits is None else Join(due_job.job, waits, f"joined {waits}, which still waits")
        case Overlap.SKIP:
            if due_job.held_by is not None:
                return None  # it is the older one
            if waits is not None:
                return End(due_job.job, JobFact.SKIPPED, f"skipped: {waits} still waits")
            if own_runs:
                return End(due_job.job, JobFact.SKIPPED, f"skipped: the run before is active: {names_text(own_runs)}")
            return None
        case Overlap.QUEUE | Overlap.LATEST | Overlap.CANCEL_RUNNING | Overlap.KILL_RUNNING:
            return None
        case _:
            assert_never(overlap)


def _newest_jobs(due_jobs: Sequence[DueJob]) -> Mapping[ScheduleKey, JobNumber]:
    """The newest job without a command, for each schedule key whose overlap policy keeps only the newest."""
    newest: dict[ScheduleKey, JobNumber] = {}
    for due_job in due_jobs:
        if due_job.command is None and due_job.overlap.keeps_newest:
            newest[due_job.schedule_key] = max(due_job.number, newest.get(due_job.schedule_key, due_job.number))
    return newest


def wait_ends_at(satisfied_at: datetime, schedule: Schedule, resumed_at: datetime | None = None) -> datetime | None:
    """When the constraint wait of a job satisfied at that time runs out (UTC); None: never. A pause that holds jobs
    stops it: after the last one, at `resumed_at`, it begins again.
    """
    if schedule.timeout is None:
        return None
    return add_duration(satisfied_at if resumed_at is None else max(satisfied_at, resumed_at), schedule.timeout)


def _by_admission(
    due_job: DueJob, program: Program, schedule: Schedule, admission: Admission, now: datetime
) -> Decision:
    """The decision by timeout and constraints. The timeout takes precedence: past it the job ends or launches whatever
    its constraints say.
    """
    deadline = wait_ends_at(due_job.ready.satisfied_at, schedule, due_job.resumed_at)
    if deadline is not None and now >= deadline:
        return _end_wait(due_job, program, schedule, admission, deadline)
    if admission.is_aborted:
        return End(due_job.job, JobFact.ABORTED, admission.reason)
    if admission.is_admitted:
        return _admit(due_job, program, schedule, admission.reason or "no constraints")
    until = min((at for at in (admission.wait_until, deadline) if at is not None), default=None)
    held_by = _unmet_verdicts(admission.verdicts)
    groups = tuple(
        constraint.name
        for constraint, verdict in zip(schedule.constraints, admission.verdicts, strict=False)
        if isinstance(constraint, Group) and isinstance(verdict, WaitFor)
    )
    return Wait(
        due_job.job,
        admission.verdicts,
        until,
        admission.reason,
        changed=held_by != due_job.held_by,
        groups=groups,
        stops=admission.stops,
        kill=due_job.overlap is Overlap.KILL_RUNNING,
        skip_on_run_end=_skips_run_end(schedule.constraints, admission),
    )


def _end_wait(
    due_job: DueJob, program: Program, schedule: Schedule, admission: Admission, deadline: datetime
) -> Admit | End:
    late = f"its timeout of {schedule.timeout} passed while it waited: {admission.reason}"
    if admission.is_admitted:
        late = f"its timeout of {schedule.timeout} passed at {clock(deadline)}, before its constraints were checked"
    match schedule.on_timeout:
        case OnTimeout.DISCARD:
            return End(due_job.job, JobFact.TIMED_OUT, late)
        case OnTimeout.LAUNCH:
            return _admit(due_job, program, schedule, f"launched at its timeout: {late}")
        case _:
            assert_never(schedule.on_timeout)


def _unmet_verdicts(verdicts: Sequence[ConstraintVerdict]) -> tuple[int, ...]:
    """The indexes of the verdicts that hold the job."""
    return tuple(n for n, verdict in enumerate(verdicts) if not isinstance(verdict, Satisfied))


def _skips_run_end(constraints: Sequence[Constraint], admission: Admission) -> bool:
    """Whether the end of a run cannot change the decision: the job is rechecked at a known time and no constraint can
    abort it before, or everything that holds it (groups, lanes, pools, loads) wakes its waiting jobs itself.
    """
    if admission.wait_until is not None:
        return not any(isinstance(each, LastRun) and not each.wait for each in constraints)
    held_by = _unmet_verdicts(admission.verdicts)
    return all(n < len(constraints) and _wakes_itself(constraints[n]) for n in held_by)


def _wakes_itself(constraint: Constraint) -> bool:
    if isinstance(constraint, Concurrency):
        return constraint.of is not ConcurrencyScope.PROGRAM
    return isinstance(constraint, Group | Load | Pool)


def _with_questions(schedule: Schedule, facts: ConstraintInput, wait: Wait, job: ReadyJob, now: datetime) -> Wait:
    """The wait with the plug-ins to ask. It also has a recheck time, in case the launcher that asks them dies."""
    assert facts.schedule_key is not None
    question = Question(
        *(job.id, schedule.ref, schedule.program, facts.schedule_key.key),
        facts.satisfied_at,
        now,
        facts.active_runs,
        facts.last_completed_at,
        contributions=job.contributions,
    )
    known = {plugin: facts.plugin_verdicts.get(plugin) for plugin in schedule.plugins}
    asks = tuple((plugin, question) for plugin, last in known.items() if last is None or not last.counts(now))
    untimed = any(last is None or isinstance(last.verdict, WaitFor) for last in known.values())
    recheck = now + _PLUGIN_RECHECK if asks or untimed else wait.until
    until = recheck if wait.until is None or recheck is None else min(recheck, wait.until)
    return replace(wait, asks=asks, until=until)


def _until_own_token(
    decision_input: DecisionInput, due_job: DueJob, wait: Wait, reserved: Counter[TokenBucket], now: datetime
) -> Wait:
    """The wait until the job's own token, when only rates hold it: the n-th job that waits for a bucket is checked at
    the n-th token, instead of every job at every token. It is checked at most a minute after the next token, because
    jobs ahead of it may end without taking theirs. `reserved` counts the tokens of the jobs ahead.
    """
    schedule, program = due_job.schedule, decision_input.program
    if schedule is None or program is None or wait.until is None:
        return wait
    held_by = _unmet_verdicts(wait.verdicts)
    rates = [
        each for n in held_by if n < len(schedule.constraints) and isinstance(each := schedule.constraints[n], Rate)
    ]
    if not rates or len(rates) < len(held_by):
        return wait
    token_at: dict[TokenBucket, datetime] = {}
    for bucket in (bucket_of(rate, program.ref, due_job.schedule_key) for rate in rates):
        level = decision_input.resources.buckets.get(bucket) or bucket.full_level(now)
        token_at[bucket] = bucket.pace.next_token_at(BucketLevel(level.left - reserved[bucket], level.at), now)
    last = max(token_at, key=lambda bucket: token_at[bucket])
    reserved[last] += 1
    next_token = max(verdict.at for verdict in wait.verdicts if isinstance(verdict, WaitUntil))
    until = min(token_at[last], next_token + _TOKEN_RECHECK)
    deadline = wait_ends_at(due_job.ready.satisfied_at, schedule)
    return replace(wait, until=until if deadline is None else min(until, deadline))


def _in_queue(decision_input: DecisionInput, due_job: DueJob, schedule: Schedule, wait: Wait, now: datetime) -> Wait:
    """The wait with the job's position in the pool's queue, when only the pool holds it. While a slot is free and the
    jobs ahead have not taken it, the job is rechecked soon: one of them may have ended without taking it.
    """
    held_by = _unmet_verdicts(wait.verdicts)
    pool = schedule.pool
    if pool is None or (schedule.constraints.index(pool),) != held_by:
        return wait
    queue = decision_input.resources.pool_queues.get(pool.name, PoolQueue())
    until = wait.until
    if queue.places.taken < queue.size(pool):
        until = min(now + _POOL_RECHECK, until or now + _POOL_RECHECK)
    return replace(wait, until=until, queued=(pool.name, decision_input.queue_position(due_job)))


def _admit(due_job: DueJob, program: Program, schedule: Schedule, why: str) -> Admit:
    given = arguments(program, schedule, due_job.ready)
    slots = tuple((group.name, group.weight) for group in schedule.groups)
    if schedule.pool is not None:
        slots += ((slots_name(schedule.pool.name), 1),)
    return Admit(due_job.job, due_job.ready, run_id(due_job.job, 1), given, why, slots)
