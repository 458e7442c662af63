"""Evaluates constraints. `check` is pure: it maps a `ConstraintInput` and `now` to a verdict with a reason.

    >>> facts = ConstraintInput(satisfied_at=datetime(2013, 1, 8, tzinfo=UTC), active_runs=("a", "b"))
    >>> check(Concurrency(2), facts, facts.satisfied_at).why
    '2 of 2 runs of the program are active: a, b'

All constraints of a job are evaluated together; one `Unsatisfiable` ends the job with its reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, assert_never

from streamsched.domain.constraints.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group, Occupancy
from streamsched.domain.constraints.lane import Lane, LaneName, lane_of
from streamsched.domain.constraints.load import STALE, Load, LoadGate
from streamsched.domain.constraints.plugin import FRESH, PlugIn
from streamsched.domain.constraints.pool import Pool, PoolQueue, QueuePosition
from streamsched.domain.constraints.rate import Rate, bucket_of
from streamsched.domain.constraints.window import TimeWindow, is_open, next_opening
from streamsched.domain.decisions.names_in_reasons import names_text
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.jobs.job import ScheduleKey
from streamsched.domain.limits import add_duration
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.time.duration import duration_text
from streamsched.domain.time.zone import zone_of

#: Size of the cache of time-window verdicts; jobs decided at the same instant share entries.
_WINDOWS: Final = 256


@dataclass(frozen=True, slots=True)
class Satisfied:
    """Holds now."""

    why: str


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Does not hold before `at` (UTC)."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Holds once `what` ends or is freed (run ids, group names); the time is unknown."""

    what: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    """Can never hold for this job, which ends with the reason."""

    why: str


ConstraintVerdict = Satisfied | WaitUntil | WaitFor | Unsatisfiable


@dataclass(frozen=True, slots=True)
class PluginVerdict:
    """A plug-in's verdict on a job, and when it was requested (UTC). `answer` is False when the plug-in failed or did
    not answer in time; `verdict` then states that.
    """

    verdict: ConstraintVerdict
    at: datetime
    answer: bool = True

    def counts(self, now: datetime) -> bool:
        """Whether the verdict is still current at `now` (UTC)."""
        if isinstance(self.verdict, WaitUntil) and self.verdict.at > now:
            return True
        return now - self.at <= FRESH and not isinstance(self.verdict, WaitUntil)


@dataclass(frozen=True, slots=True)
class ConstraintInput:
    """The state that constraints are checked against, read under the program's lock. Times are UTC.

    Attributes:
        satisfied_at: when the job's trigger was satisfied.
        active_runs: ids of the program's non-terminal runs, oldest first.
        own_runs: the subset of `active_runs` started by the job's own schedule.
        last_completed_at: end of the program's latest completed run.
        program: the program of the runs; named in reasons.
        schedule_key: the job's schedule and correlation key.
        resources: those that runs of the program share with others.
        lanes: the lanes of the job; a missing lane is empty.
        queue_position: the job's position in the queue of its pool.
        lane_position: its position in its lanes.
        plugin_verdicts: the latest verdict of each plug-in on this job.
    """

    satisfied_at: datetime
    active_runs: tuple[str, ...] = ()
    own_runs: tuple[str, ...] = ()
    last_completed_at: datetime | None = None
    program: ProgramRef | None = None
    schedule_key: ScheduleKey | None = None
    resources: Resources = field(default_factory=Resources)
    lanes: Mapping[LaneName, Lane] = field(default_factory=dict[LaneName, Lane])
    queue_position: QueuePosition | None = None
    lane_position: QueuePosition | None = None
    plugin_verdicts: Mapping[PlugIn, PluginVerdict] = field(default_factory=dict[PlugIn, PluginVerdict])

    @property
    def namespace(self) -> str | None:
        """The namespace of the runs; None when their program is not known."""
        return None if self.program is None else self.program.namespace

    def without_own_runs(self) -> ConstraintInput:
        """The input as if the schedule's own runs had ended."""
        own = frozenset(self.own_runs)
        return replace(
            self,
            active_runs=tuple(run for run in self.active_runs if run not in own),
            own_runs=(),
            resources=self.resources.remove_runs(own),
            lanes={name: lane.remove_runs(own) for name, lane in self.lanes.items()},
        )


@dataclass(frozen=True, slots=True)
class Admission:
    """The combined result for a job: one verdict for each constraint in order, then at most one of the overlap policy.
    Without verdicts the job is admitted. `stops` are the runs to end first.
    """

    verdicts: tuple[ConstraintVerdict, ...]
    stops: tuple[str, ...] = ()

    @property
    def is_admitted(self) -> bool:
        """Whether every constraint is satisfied."""
        return all(isinstance(verdict, Satisfied) for verdict in self.verdicts)

    @property
    def is_aborted(self) -> bool:
        """Whether the job ends; a single unsatisfiable constraint suffices."""
        return any(isinstance(verdict, Unsatisfiable) for verdict in self.verdicts)

    @property
    def wait_until(self) -> datetime | None:
        """The earliest time (UTC) at which all constraints can hold; None when none of them gives a time."""
        return max((verdict.at for verdict in self.verdicts if isinstance(verdict, WaitUntil)), default=None)

    @property
    def wait_for(self) -> tuple[str, ...]:
        """What must end or be freed, without duplicates, in order."""
        waits = (what for verdict in self.verdicts if isinstance(verdict, WaitFor) for what in verdict.what)
        return tuple(dict.fromkeys(waits))

    @property
    def reason(self) -> str:
        """The deciding reasons: of the abort, else of the wait, else of the admission."""
        deciding = [verdict for verdict in self.verdicts if isinstance(verdict, Unsatisfiable)]
        deciding = deciding or [verdict for verdict in self.verdicts if not isinstance(verdict, Satisfied)]
        return "; ".join([verdict.why for verdict in deciding or self.verdicts])


def weigh(constraints: tuple[Constraint, ...], overlap: Overlap, facts: ConstraintInput, now: datetime) -> Admission:
    """Checks constraints and overlap policy together. Runs that the overlap policy stops do not count against the
    constraints. They are stopped only when every constraint holds, so no run ends for a job that cannot start.
    """
    if not overlap.stops or not facts.own_runs:
        return check_all(constraints, facts, now)
    alone = check_all(constraints, facts.without_own_runs(), now)
    if not alone.is_admitted:
        return alone
    why = f"{names_text(facts.own_runs)} must end first: overlap is {overlap}"
    return Admission((*alone.verdicts, WaitFor(facts.own_runs, why)), facts.own_runs)


def check_all(constraints: tuple[Constraint, ...], facts: ConstraintInput, now: datetime) -> Admission:
    """Checks every constraint, without stopping at the first unsatisfiable one, so that all reasons are reported."""
    return Admission(tuple([check(constraint, facts, now) for constraint in constraints]))


def check(constraint: Constraint, facts: ConstraintInput, now: datetime) -> ConstraintVerdict:
    """The verdict of one constraint at `now` (UTC). A `WaitUntil` is always after `now`."""
    match constraint:
        case Concurrency():
            return _check_concurrency(constraint, facts)
        case Delay(delay=delay):
            ready = add_duration(facts.satisfied_at, delay)
            why = f"{duration_text(delay)} after the trigger is {_clock(ready)}"
            return Satisfied(why) if ready <= now else WaitUntil(ready, why)
        case Group():
            return _check_group(constraint, facts.resources.groups.get(constraint.name, Occupancy()), facts.namespace)
        case LastRun(interval=interval, wait=wait):
            return _check_last_run(interval, wait, facts, now)
        case Load():
            return _check_load(constraint, facts.resources.load_gates.get(constraint, LoadGate()), now)
        case PlugIn():
            return _check_plugin(constraint, facts.plugin_verdicts.get(constraint), now)
        case Pool():
            queue = facts.resources.pool_queues.get(constraint.name, PoolQueue())
            return _check_pool(constraint, queue, facts.queue_position, facts.namespace)
        case Rate():
            return _check_rate(constraint, facts, now)
        case TimeWindow():
            return _check_window(constraint, now)
        case _:
            assert_never(constraint)


def _check_concurrency(constraint: Concurrency, facts: ConstraintInput) -> ConstraintVerdict:
    """Jobs ahead in the lane keep their places: a later one starts only when there is one more."""
    name = None if facts.schedule_key is None else lane_of(constraint, facts.schedule_key)
    active, ahead = facts.active_runs, tuple[str, ...]()
    if name is not None:
        lane = facts.lanes.get(name, Lane())
        before = () if facts.lane_position is None else lane.positions_before(facts.lane_position)
        active, ahead = lane.runs, tuple(position.job for position in before)
    why = f"{len(active)} of {constraint.limit} runs of {name or facts.program or 'the program'} are active"
    if len(active) + len(ahead) < constraint.limit:
        return Satisfied(why)
    why += f": {names_text(active)}" if active else ""
    why += _jobs_ahead_text(ahead)
    return WaitFor((*active, *ahead), why) if constraint.wait else Unsatisfiable(why)


def _jobs_ahead_text(jobs: Sequence[str], namespace: str | None = None) -> str:
    if not jobs:
        return ""
    count = "1 job is" if len(jobs) == 1 else f"{len(jobs)} jobs are"
    return f"; {count} ahead of this one: {names_text(jobs, namespace, 'job')}"


def _check_group(group: Group, occupancy: Occupancy, namespace: str | None) -> ConstraintVerdict:
    limit = group.limit if occupancy.limit is None else occupancy.limit
    why = f"{occupancy.taken} of {limit} slots of group {group.name} are taken"
    if occupancy.taken + group.weight <= limit:
        return Satisfied(why)
    wanted = "" if group.weight == 1 else f", {group.weight} are wanted"
    runs = tuple(slot.run for slot in occupancy.slots)
    held = f": {names_text(runs, namespace)}" if runs else ""
    why = f"{why}{wanted}{held}"
    return WaitFor((f"group {group.name}", *runs), why) if group.wait else Unsatisfiable(why)


def _check_last_run(interval: timedelta, wait: bool, facts: ConstraintInput, now: datetime) -> ConstraintVerdict:
    program, ended_at = facts.program or "the program", facts.last_completed_at
    if facts.active_runs:
        why = f"a run of {program} is active: {names_text(facts.active_runs)}"
        return WaitFor(facts.active_runs, why) if wait else Unsatisfiable(why)
    if ended_at is None:
        return Satisfied(f"no run of {program} has completed yet")
    ready = add_duration(ended_at, interval)
    why = (
        f"the last run of {program} completed at {_clock(ended_at)}, {duration_text(interval)} later is {_clock(ready)}"
    )
    if ready <= now:
        return Satisfied(why)
    return WaitUntil(ready, why) if wait else Unsatisfiable(why)


def _check_load(load: Load, load_gate: LoadGate, now: datetime) -> ConstraintVerdict:
    """Without a current reading the job waits, even when the constraint would otherwise abort it."""
    on, what = f"cluster {load.cluster}", (f"cluster {load.cluster}",)
    failing = (
        ""
        if load_gate.failed is None
        else f", its probe fails since {_clock(load_gate.failing or now)}: {load_gate.failed}"
    )
    if load_gate.reading is None or load_gate.at is None:
        return WaitFor(what, f"there is no reading of {on} yet{failing}")
    if now - load_gate.at > STALE:
        return WaitFor(what, f"the reading of {on} is of {_clock(load_gate.at)}, too old to go by{failing}")
    why = f"{on} has {load_gate.reading} (at {_clock(load_gate.at)})"
    if not load_gate.open:
        why = f"{why}; wanted: {load}; shut since {_clock(load_gate.since or load_gate.at)}"
        return WaitFor(what, why) if load.wait else Unsatisfiable(why)
    if load_gate.started >= load.starts:
        runs = "1 run" if load_gate.started == 1 else f"{load_gate.started} runs"
        return WaitFor(what, f"{why}, but {runs} started on that; the next reading says whether there is still room")
    return Satisfied(why)


def _check_plugin(plugin: PlugIn, plugin_verdict: PluginVerdict | None, now: datetime) -> ConstraintVerdict:
    """Without a current verdict the job waits, even when the constraint would otherwise abort it."""
    if plugin_verdict is None or not plugin_verdict.counts(now):
        return WaitFor((f"plug-in {plugin.name}",), f"plug-in {plugin.name} is being asked")
    match plugin_verdict.verdict:
        case WaitUntil(why=why) | WaitFor(why=why) if plugin_verdict.answer and not plugin.wait:
            return Unsatisfiable(why)
        case verdict:
            return verdict


def _check_pool(
    pool: Pool, queue: PoolQueue, position: QueuePosition | None, namespace: str | None
) -> ConstraintVerdict:
    size = queue.size(pool)
    before = () if position is None else queue.positions_before(position)
    why = f"{queue.places.taken} of {size} places of pool {pool.name} are taken"
    if queue.places.taken + len(before) < size:
        return Satisfied(why)
    runs = tuple(slot.run for slot in queue.places.slots)
    why += f": {names_text(runs, namespace)}" if runs else ""
    jobs = tuple(each.job for each in before)
    why += _jobs_ahead_text(jobs, namespace)
    return WaitFor((f"pool {pool.name}", *runs, *jobs), why) if pool.wait else Unsatisfiable(why)


def _check_rate(rate: Rate, facts: ConstraintInput, now: datetime) -> ConstraintVerdict:
    if facts.program is None or facts.schedule_key is None:
        return Satisfied(f"nothing counts {rate}")
    bucket = bucket_of(rate, facts.program, facts.schedule_key)
    level = facts.resources.buckets.get(bucket) or bucket.full_level(now)
    left = max(0, bucket.pace.available_tokens(level, now))
    per = duration_text(bucket.per)
    why = f"{left} of {bucket.burst} tokens of {bucket.key} are left, {bucket.limit} come each {per}"
    if left:
        return Satisfied(why)
    ready = bucket.pace.next_token_at(level, now)
    why = f"{why}, the next at {_clock(ready)}"
    return WaitUntil(ready, why) if rate.wait else Unsatisfiable(why)


@lru_cache(_WINDOWS)
def _check_window(window: TimeWindow, now: datetime) -> ConstraintVerdict:
    if is_open(window, now):
        return Satisfied(f"{window} is open")
    opens = next_opening(window, now)
    local = opens.astimezone(zone_of(window.zone))
    why = f"{window} opens at {_clock(opens)} ({local:%a %H:%M} there)"
    return WaitUntil(opens, why) if window.wait else Unsatisfiable(why)


def _clock(instant: datetime) -> str:
    # isoformat takes a third of the time of strftime
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"
