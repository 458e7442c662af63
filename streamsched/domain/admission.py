"""Judges constraints: `check` is pure: facts and `now` in, a verdict with reasons out.

    >>> facts = Facts(satisfied_at=datetime(2013, 1, 8, tzinfo=UTC), active_runs=("a", "b"))
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

from streamsched.domain.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.duration import duration_text
from streamsched.domain.group import Group, Occupancy
from streamsched.domain.job import Lane
from streamsched.domain.load import STALE, Gate, Load
from streamsched.domain.names import ProgramRef
from streamsched.domain.overlap import Overlap
from streamsched.domain.pace import Bucket
from streamsched.domain.plugin import FRESH, PlugIn
from streamsched.domain.pool import Line, Pool, Turn
from streamsched.domain.rate import Meter, Rate, meter_of
from streamsched.domain.window import TimeWindow, is_open, next_opening
from streamsched.domain.zone import zone_of

#: How many runs a reason names.
_NAMED: Final = 5
#: So many windows are looked through once for all jobs that are decided at one instant.
_WINDOWS: Final = 256


@dataclass(frozen=True, slots=True)
class Facts:
    """What the launcher knows of the world when it checks a job, read under the program's lock. Times UTC.

    Attributes:
        satisfied_at: when the job's trigger was satisfied.
        active_runs: ids of the program's non-terminal runs, oldest first.
        own_runs: those of them that the job's own schedule started.
        last_completed_at: end of the program's latest completed run.
        program: whose runs these are; reasons name it.
        groups: the named groups the constraints ask for; one that is missing is empty.
        lane: of the job.
        lines: the pools the constraints ask for; one that is missing is empty.
        gates: of the loads among the constraints, as the readings so far have left them.
        opinions: what plug-ins said of this job.
        turn: where the job stands in the line of its pool.
        meters: the buckets the rates among the constraints ask; one that is missing is full.
    """

    satisfied_at: datetime
    active_runs: tuple[str, ...] = ()
    own_runs: tuple[str, ...] = ()
    last_completed_at: datetime | None = None
    program: ProgramRef | None = None
    groups: Mapping[str, Occupancy] = field(default_factory=dict)
    lane: Lane | None = None
    meters: Mapping[Meter, Bucket] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    turn: Turn | None = None
    gates: Mapping[Load, Gate] = field(default_factory=dict)
    opinions: Mapping[PlugIn, Opinion] = field(default_factory=dict)

    def without_own_runs(self) -> Facts:
        """The world when the schedule's own runs have ended."""
        own = frozenset(self.own_runs)
        return replace(
            self,
            active_runs=tuple(run for run in self.active_runs if run not in own),
            own_runs=(),
            groups={name: standing.without(own) for name, standing in self.groups.items()},
            lines={name: line.without(own) for name, line in self.lines.items()},
        )


@dataclass(frozen=True, slots=True)
class Satisfied:
    why: str


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """Cannot hold before `at` (UTC)."""

    at: datetime
    why: str


@dataclass(frozen=True, slots=True)
class WaitFor:
    """Holds when `what` ends or is freed (run ids, group names); nobody knows when."""

    what: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Unsatisfiable:
    why: str


Verdict = Satisfied | WaitUntil | WaitFor | Unsatisfiable


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a plug-in said of a job, and when it was asked (UTC). `answer`: it said it itself; it did not when it failed
    or kept silent, and then `verdict` says that.
    """

    verdict: Verdict
    at: datetime
    answer: bool = True

    def counts(self, now: datetime) -> bool:
        """Whether it says something still."""
        if isinstance(self.verdict, WaitUntil) and self.verdict.at > now:
            return True
        return now - self.at <= FRESH and not isinstance(self.verdict, WaitUntil)


@dataclass(frozen=True, slots=True)
class Admission:
    """What all constraints of a job say together, verdicts in their order; the last may be its overlap policy's. No
    verdict at all: admitted. `stops` are the runs that it asks to end.
    """

    verdicts: tuple[Verdict, ...]
    stops: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        return all(isinstance(verdict, Satisfied) for verdict in self.verdicts)

    @property
    def aborted(self) -> bool:
        """Whether the job ends: one constraint that cannot be met outweighs all that can."""
        return any(isinstance(verdict, Unsatisfiable) for verdict in self.verdicts)

    @property
    def wait_until(self) -> datetime | None:
        """The earliest time (UTC) at which all could hold; None when no constraint names a time."""
        return max((verdict.at for verdict in self.verdicts if isinstance(verdict, WaitUntil)), default=None)

    @property
    def wait_for(self) -> tuple[str, ...]:
        """What must end or be freed besides, each once."""
        waits = (what for verdict in self.verdicts if isinstance(verdict, WaitFor) for what in verdict.what)
        return tuple(dict.fromkeys(waits))

    @property
    def why(self) -> str:
        """The reasons that decide: why it ends, else why it waits, else why it may run."""
        deciding = [verdict for verdict in self.verdicts if isinstance(verdict, Unsatisfiable)]
        deciding = deciding or [verdict for verdict in self.verdicts if not isinstance(verdict, Satisfied)]
        return "; ".join([verdict.why for verdict in deciding or self.verdicts])


def weigh(constraints: tuple[Constraint, ...], overlap: Overlap, facts: Facts, now: datetime) -> Admission:
    """What constraints and overlap policy say together. Runs of the schedule that are to end for this job never hold it
    by a constraint; and they are only ended when nothing else holds it: none dies for a job that could not start then.
    """
    if not overlap.stops or not facts.own_runs:
        return check_all(constraints, facts, now)
    alone = check_all(constraints, facts.without_own_runs(), now)
    if not alone.admitted:
        return alone
    why = f"{named(facts.own_runs)} must end first: overlap is {overlap}"
    return Admission((*alone.verdicts, WaitFor(facts.own_runs, why)), facts.own_runs)


def check_all(constraints: tuple[Constraint, ...], facts: Facts, now: datetime) -> Admission:
    """Checks every constraint, also after one that cannot be met: the reasons are complete."""
    return Admission(tuple([check(constraint, facts, now) for constraint in constraints]))


def check(constraint: Constraint, facts: Facts, now: datetime) -> Verdict:
    """What one constraint says at `now` (UTC). Every `WaitUntil` lies after `now`."""
    match constraint:
        case Concurrency(limit=limit, wait=wait):
            return _check_concurrency(limit, wait, facts)
        case Delay(delay=delay):
            ready = facts.satisfied_at + delay
            why = f"{duration_text(delay)} after the trigger is {_clock(ready)}"
            return Satisfied(why) if ready <= now else WaitUntil(ready, why)
        case Group():
            return _check_group(constraint, facts.groups.get(constraint.name, Occupancy()))
        case LastRun(interval=interval, wait=wait):
            return _check_last_run(interval, wait, facts, now)
        case Load():
            return _check_load(constraint, facts.gates.get(constraint, Gate()), now)
        case PlugIn():
            return _check_plugin(constraint, facts.opinions.get(constraint), now)
        case Pool():
            return _check_pool(constraint, facts.lines.get(constraint.name, Line()), facts.turn)
        case Rate():
            return _check_rate(constraint, facts, now)
        case TimeWindow():
            return _check_window(constraint, now)
        case _:
            assert_never(constraint)


def named(runs: Sequence[str]) -> str:
    """Runs in a sentence, the first few by name."""
    more = len(runs) - _NAMED
    return ", ".join(runs[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _check_concurrency(limit: int, wait: bool, facts: Facts) -> Verdict:
    active = facts.active_runs
    why = f"{len(active)} of {limit} runs of {facts.program or 'the program'} are active"
    if len(active) < limit:
        return Satisfied(why)
    why = f"{why}: {named(active)}"
    return WaitFor(active, why) if wait else Unsatisfiable(why)


def _check_group(group: Group, standing: Occupancy) -> Verdict:
    limit = group.limit if standing.limit is None else standing.limit
    why = f"{standing.taken} of {limit} slots of group {group.name} are taken"
    if standing.taken + group.weight <= limit:
        return Satisfied(why)
    wanted = "" if group.weight == 1 else f", {group.weight} are wanted"
    runs = tuple(slot.run for slot in standing.slots)
    held = f": {named(runs)}" if runs else ""
    why = f"{why}{wanted}{held}"
    return WaitFor((f"group {group.name}", *runs), why) if group.wait else Unsatisfiable(why)


def _check_last_run(interval: timedelta, wait: bool, facts: Facts, now: datetime) -> Verdict:
    program, ended_at = facts.program or "the program", facts.last_completed_at
    if facts.active_runs:
        why = f"a run of {program} is active: {named(facts.active_runs)}"
        return WaitFor(facts.active_runs, why) if wait else Unsatisfiable(why)
    if ended_at is None:
        return Satisfied(f"no run of {program} has completed yet")
    ready = ended_at + interval
    why = (
        f"the last run of {program} completed at {_clock(ended_at)}, {duration_text(interval)} later is {_clock(ready)}"
    )
    if ready <= now:
        return Satisfied(why)
    return WaitUntil(ready, why) if wait else Unsatisfiable(why)


def _check_load(load: Load, gate: Gate, now: datetime) -> Verdict:
    """A load that nobody knows is waited for, also by a job that would end where there is none."""
    on, what = f"cluster {load.cluster}", (f"cluster {load.cluster}",)
    failing = "" if gate.failed is None else f", its probe fails since {_clock(gate.failing or now)}: {gate.failed}"
    if gate.reading is None or gate.at is None:
        return WaitFor(what, f"there is no reading of {on} yet{failing}")
    if now - gate.at > STALE:
        return WaitFor(what, f"the reading of {on} is of {_clock(gate.at)}, too old to go by{failing}")
    why = f"{on} has {gate.reading} (at {_clock(gate.at)})"
    if not gate.open:
        why = f"{why}; wanted: {load}; shut since {_clock(gate.since or gate.at)}"
        return WaitFor(what, why) if load.wait else Unsatisfiable(why)
    if gate.started >= load.starts:
        told = "1 run" if gate.started == 1 else f"{gate.started} runs"
        return WaitFor(what, f"{why}, but {told} started on that; the next reading says whether there is still room")
    return Satisfied(why)


def _check_plugin(plugin: PlugIn, opinion: Opinion | None, now: datetime) -> Verdict:
    """A plug-in that has not answered is waited for, also by a job that would end if it said no."""
    if opinion is None or not opinion.counts(now):
        return WaitFor((f"plug-in {plugin.name}",), f"plug-in {plugin.name} is being asked")
    match opinion.verdict:
        case WaitUntil(why=why) | WaitFor(why=why) if opinion.answer and not plugin.wait:
            return Unsatisfiable(why)
        case verdict:
            return verdict


def _check_pool(pool: Pool, line: Line, turn: Turn | None) -> Verdict:
    size = line.size(pool)
    before = () if turn is None else line.before(turn)
    why = f"{line.places.taken} of {size} places of pool {pool.name} are taken"
    if line.places.taken + len(before) < size:
        return Satisfied(why)
    runs = tuple(slot.run for slot in line.places.slots)
    why += f": {named(runs)}" if runs else ""
    jobs = tuple(each.job for each in before)
    stand = "1 job stands" if len(jobs) == 1 else f"{len(jobs)} jobs stand"
    why += f"; {stand} before this one: {named(jobs)}" if jobs else ""
    return WaitFor((f"pool {pool.name}", *runs, *jobs), why) if pool.wait else Unsatisfiable(why)


def _check_rate(rate: Rate, facts: Facts, now: datetime) -> Verdict:
    if facts.program is None or facts.lane is None:
        return Satisfied(f"nothing counts {rate}")
    meter = meter_of(rate, facts.program, facts.lane)
    bucket = facts.meters.get(meter) or meter.full(now)
    left = max(0, meter.pace.available(bucket, now))
    why = (
        f"{left} of {meter.burst} tokens of {meter.scope} are left, {meter.limit} come each {duration_text(meter.per)}"
    )
    if left:
        return Satisfied(why)
    ready = meter.pace.next_at(bucket, now)
    why = f"{why}, the next at {_clock(ready)}"
    return WaitUntil(ready, why) if rate.wait else Unsatisfiable(why)


@lru_cache(_WINDOWS)
def _check_window(window: TimeWindow, now: datetime) -> Verdict:
    if is_open(window, now):
        return Satisfied(f"{window} is open")
    opens = next_opening(window, now)
    local = opens.astimezone(zone_of(window.zone))
    why = f"{window} opens at {_clock(opens)} ({local:%a %H:%M} there)"
    return WaitUntil(opens, why) if window.wait else Unsatisfiable(why)


def _clock(instant: datetime) -> str:
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(' ', 'seconds')}Z"  # a third of what %-fields cost
