"""The input of the judge (the due jobs of one program and the state they are judged against) and its decisions.

The input is read, judged and its decisions stored in one transaction under the program's lock, so it cannot change in
between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from streamsched.domain.constraints.lane import Lane, LaneName
from streamsched.domain.constraints.load import Load
from streamsched.domain.constraints.plugin import PlugIn, Question
from streamsched.domain.constraints.pool import PoolQueue, QueuePosition, position_at
from streamsched.domain.constraints.process_room import RoomTurn
from streamsched.domain.constraints.rate import TokenBucket, bucket_of, program_bucket_key
from streamsched.domain.decisions.admission import ConstraintVerdict, Satisfied
from streamsched.domain.decisions.resources import Resources, Taken
from streamsched.domain.jobs.job import JobCommand, JobFact, JobNumber, ReadyJob, ScheduleKey, merge_satisfactions
from streamsched.domain.schedules.arguments import arguments
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Program, Schedule


def overlap_of(schedule: Schedule, ready: ReadyJob) -> Overlap:
    """The overlap policy of a job. A submission with arguments is not coalesced: a run has one set of arguments.

    A rerun, and a job of a backfill or a backlog, wait by themselves: they replace, stop and join no other job, and
    none replaces them.
    """
    if ready.backlog:
        return Overlap.QUEUE
    if ready.submission is not None and (ready.submission.rerun or ready.submission.backfill) is not None:
        return Overlap.QUEUE
    if schedule.overlap is Overlap.COALESCE and ready.submission is not None and ready.submission.arguments:
        return Overlap.QUEUE
    return schedule.overlap


@dataclass(frozen=True, slots=True)
class DueJob:
    """A due job.

    Attributes:
        ready: its satisfaction. The satisfactions coalesced into it while it waited are read only on admission: they
            do not affect the decision, and there may be very many.
        schedule: the current definition, of a submission to a program `limits_of_program`; None when the schedule does
            not exist.
        generation: the current generation; 0 when there is none.
        enabled: whether the schedule admits waiting jobs now: it is enabled, or draining; False for a deleted one. A
            valid job of a schedule that does not admit belongs to a pause that keeps its jobs.
        held_by: indexes of the constraints that held it when it was last decided to wait; None: it has not waited.
        command: an operator's command on the job; `command_reason` is who gave it and why.
        oldest_valid_generation: the oldest generation whose jobs are still valid; None: only `generation` itself.
        priority: the schedule's priority in its pool as set online; None: the priority of its definition applies.
        resumed_at: when a pause that held the schedule's jobs last ended (UTC); timeouts count from then at the
            earliest.
    """

    ready: ReadyJob
    schedule: Schedule | None
    generation: int
    enabled: bool
    held_by: tuple[int, ...] | None = None
    command: JobCommand | None = None
    command_reason: str = ""
    oldest_valid_generation: int | None = None
    priority: int | None = None
    resumed_at: datetime | None = None

    job: str = field(init=False, repr=False, compare=False)
    schedule_key: ScheduleKey = field(init=False, repr=False, compare=False)
    number: JobNumber = field(init=False, repr=False, compare=False)
    overlap: Overlap = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", self.ready.id)
        overlap = Overlap.QUEUE if self.schedule is None else overlap_of(self.schedule, self.ready)
        object.__setattr__(self, "overlap", overlap)
        object.__setattr__(self, "schedule_key", self.ready.schedule_key)
        object.__setattr__(self, "number", self.ready.number)

    @property
    def is_alone(self) -> bool:
        """Whether its schedule's overlap policy does not apply to it: it joins no job, and none joins it."""
        return self.schedule is not None and self.overlap is not self.schedule.overlap

    @property
    def pool(self) -> str | None:
        """The name of the pool its run needs a slot of; None when its schedule has none."""
        return None if self.schedule is None or self.schedule.pool is None else self.schedule.pool.name


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """The due jobs of a program, in the order of `ReadyJob.queued_at`, and the state they are judged against. A
    schedule whose overlap policy keeps only the newest job contributes all its waiting jobs, due or not. Times are UTC.

    Attributes:
        program: None when it was removed.
        waiting: for each schedule key the oldest valid waiting job, due now or not, without those that stand alone.
        active_runs: ids of the program's non-terminal runs, oldest first, started by schedules or manually.
        own_runs: those of them started by a schedule of the due jobs, by schedule key, without those of backfills.
        last_completed_at: end of the program's latest completed run.
        resources: those that runs of the due jobs may take.
        lanes: the lanes of the due jobs.
    """

    program: Program | None
    due_jobs: tuple[DueJob, ...]
    waiting: Mapping[ScheduleKey, JobNumber] = field(default_factory=dict[ScheduleKey, JobNumber])
    active_runs: tuple[str, ...] = ()
    own_runs: Mapping[ScheduleKey, tuple[str, ...]] = field(default_factory=dict[ScheduleKey, tuple[str, ...]])
    last_completed_at: datetime | None = None
    resources: Resources = field(default_factory=Resources)
    lanes: Mapping[LaneName, Lane] = field(default_factory=dict[LaneName, Lane])

    def buckets(self) -> set[TokenBucket]:
        """The token buckets that the schedules of its jobs name."""
        if self.program is None:
            return set()
        schedules = {job.schedule_key: job.schedule for job in self.due_jobs if job.schedule is not None}
        return {
            bucket_of(rate, self.program.ref, key) for key, schedule in schedules.items() for rate in schedule.rates
        }

    def with_resources(self, resources: Resources) -> DecisionInput:
        """The input with those of the resources that its jobs use."""
        keys = {bucket.key for bucket in self.buckets()}
        if self.program is not None:
            keys.add(program_bucket_key(self.program.ref))
        schedules = [due_job.schedule for due_job in self.due_jobs if due_job.schedule is not None]
        pools = {schedule.pool.name for schedule in schedules if schedule.pool is not None}
        loads = {load for schedule in schedules for load in schedule.loads} if resources.load_gates else set[Load]()
        return replace(self, resources=resources.select(pools, keys, loads))

    def queue_position(self, due_job: DueJob) -> QueuePosition:
        """The job's position in the queue of its pool, which is also its position in the order of judging."""
        pool = None if due_job.schedule is None else due_job.schedule.pool
        if pool is None:
            return QueuePosition(due_job.ready.queued_at, due_job.ready.sequence, due_job.job)
        priority = pool.priority if due_job.priority is None else due_job.priority
        age = self.resources.pool_queues.get(pool.name, PoolQueue()).age
        return QueuePosition(position_at(due_job.ready.queued_at, priority, age), due_job.ready.sequence, due_job.job)


@dataclass(frozen=True, slots=True)
class Admit:
    """The job may run: a PENDING run with these arguments is inserted with it. The run takes `slots`, pairs of group
    name and weight, one token from every bucket of `bucket_keys`, and the place `room` when its process needs one.
    """

    job: str
    ready: ReadyJob
    run: str
    arguments: Mapping[str, str]
    reason: str
    slots: tuple[tuple[str, int], ...] = ()
    bucket_keys: tuple[str, ...] = ()
    room: RoomTurn | None = None


def add_coalesced_jobs(admit: Admit, due_job: DueJob, program: Program, coalesced: Iterable[ReadyJob]) -> Admit:
    """The admission with the satisfactions coalesced into the job, in order; the run's arguments cover all of them."""
    ready = merge_satisfactions(due_job.ready, coalesced)
    assert due_job.schedule is not None
    return replace(admit, ready=ready, arguments=arguments(program, due_job.schedule, ready))


@dataclass(frozen=True, slots=True)
class Wait:
    """The job waits.

    Attributes:
        until: when to judge it again (UTC); None: only when something wakes it.
        changed: other constraints hold it than at the last decision, so history records it.
        groups: a slot freed in one of these groups wakes it.
        asks: plug-ins without a current verdict, and the question for each.
        queued: the pool, and the position in its queue, when only the pool holds the job.
        stops: runs to end first; killed instead of cancelled with `kill`.
        skip_on_run_end: the end of a run of its program alone cannot admit it, so that end does not wake it.
        failed: the decision raised (`reason` says why); the store sets the time of the next attempt.
        lanes: the lanes in which it keeps its position; none while a command holds it.
        room: the place it waits for, when it lacks only a place for its process.
    """

    job: str
    verdicts: tuple[ConstraintVerdict, ...]
    until: datetime | None
    reason: str
    changed: bool = True
    groups: tuple[str, ...] = ()
    asks: tuple[tuple[PlugIn, Question], ...] = ()
    queued: tuple[str, QueuePosition] | None = None
    stops: tuple[str, ...] = ()
    kill: bool = False
    skip_on_run_end: bool = False
    failed: bool = False
    lanes: tuple[LaneName, ...] = ()
    room: RoomTurn | None = None


def wait_beside_constraints(
    due_job: DueJob, schedule: Schedule, verdict: ConstraintVerdict, timeout: datetime | None, now: datetime
) -> Wait:
    """The wait of a job that all constraints of its schedule admit, and that lacks something beside them. `timeout`:
    when its wait for constraints runs out (UTC), so that it is judged again then.
    """
    held_by = (len(schedule.constraints),)
    return Wait(
        due_job.job,
        (*(Satisfied(str(each)) for each in schedule.constraints), verdict),
        None if timeout is None or timeout <= now else timeout,
        verdict.why,
        changed=held_by != due_job.held_by,
        skip_on_run_end=True,
    )


@dataclass(frozen=True, slots=True)
class Join:
    """The job ends as COALESCED: its contributions, and those coalesced into it, go to the older waiting job `into`."""

    job: str
    into: str
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """The job ends as ABORTED, TIMED_OUT or OBSOLETE, by `fact`."""

    job: str
    fact: JobFact
    reason: str


Decision = Admit | Wait | Join | End


def taken_resources(due_job: DueJob, admit: Admit) -> Taken:
    """What the admitted run of the job takes."""
    loads = () if due_job.schedule is None else due_job.schedule.loads
    return Taken(admit.run, admit.slots, admit.bucket_keys, due_job.pool, tuple(loads), admit.room)


def resources_after(
    resources: Resources, decision_input: DecisionInput, decisions: Sequence[Decision], now: datetime
) -> Resources:
    """After these decisions on the input: what admitted runs take, and which jobs are in the queues of the pools."""
    decided = list(zip(decision_input.due_jobs, decisions, strict=True))
    pool_queues = {**resources.pool_queues}
    for due_job, decision in decided:
        if due_job.pool in pool_queues:
            queue = pool_queues[due_job.pool].without_job(due_job.job)
            queued = isinstance(decision, Wait) and decision.queued
            pool_queues[due_job.pool] = queue.with_positions([queued[1]]) if queued else queue
    admitted = [taken_resources(due_job, decision) for due_job, decision in decided if isinstance(decision, Admit)]
    return replace(resources, pool_queues=pool_queues).add_runs(admitted, now)


def invalidity(
    *, known: bool, current: int, enabled: bool, generation: int, oldest_valid_generation: int | None = None
) -> str | None:
    """Why a job of `generation` must not run any more (promise G4); None while it is valid.

    It is valid while `current` (the schedule's current generation) is its own, or when every change since kept waiting
    jobs, which `oldest_valid_generation`, the oldest generation kept, says. A valid job of a schedule that is not
    enabled waits for the end of a pause.
    """
    if not known:
        return "its schedule was deleted"
    kept = oldest_valid_generation is not None and oldest_valid_generation <= generation
    if generation != current and not kept:
        return f"its schedule changed: this is generation {generation}, now {current} stands"
    if not enabled and not kept:
        return "its schedule is disabled"
    return None
