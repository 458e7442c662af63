"""What lies before the launcher: the due jobs of one program with all that is known of them, and what may be ruled.

A docket is read, judged and its rulings stored in one transaction under the program's lock; so nothing here can change
between the reading and the ruling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from streamsched.domain.admission import Verdict
from streamsched.domain.arguments import arguments
from streamsched.domain.group import Occupancy
from streamsched.domain.job import JobFact, Lane, Order, Place, ReadyJob, merged
from streamsched.domain.load import Gate, Load
from streamsched.domain.pace import Bucket
from streamsched.domain.plugin import PlugIn, Question
from streamsched.domain.pool import Line, Turn, turn_at
from streamsched.domain.rate import Meter
from streamsched.domain.schedule import Program, Schedule


@dataclass(frozen=True, slots=True)
class Case:
    """A due job.

    Attributes:
        ready: the satisfaction it came with. Who joined it while it waited is read when it is admitted, not before:
            nothing is decided by that, and it may be very many.
        schedule: the definition that stands now; None when nobody knows such a schedule.
        generation: the generation that stands now; 0 when there is none.
        enabled: whether the schedule is enabled now; a deleted one never is. A job that stands while it is not is one
            of a schedule that is paused and keeps what it has.
        held_by: the constraints that held it back when it was told to wait, by their places; None: it never was.
        order: what somebody told the job, and `order_reason` who and why.
        stands_from: the oldest generation whose jobs stand; None: `generation` alone.
        priority: of the schedule in its pool, as set online; None: nobody did, so its own counts.
    """

    ready: ReadyJob
    schedule: Schedule | None
    generation: int
    enabled: bool
    held_by: tuple[int, ...] | None = None
    order: Order | None = None
    order_reason: str = ""
    stands_from: int | None = None
    priority: int | None = None

    job: str = field(init=False, repr=False, compare=False)
    lane: Lane = field(init=False, repr=False, compare=False)
    place: Place = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", self.ready.id)
        object.__setattr__(self, "lane", self.ready.lane)
        object.__setattr__(self, "place", self.ready.place)


@dataclass(frozen=True, slots=True)
class Docket:
    """The due jobs of a program, oldest satisfaction first; of a schedule that lets the newest go on, all that wait.
    Times UTC.

    Attributes:
        program: None when it was removed.
        waiting: of each lane the eldest job that stands and was told to wait, due now or not.
        active_runs: ids of the program's non-terminal runs, oldest first, whoever started them.
        own_runs: those of them that a schedule of the cases started, by lane.
        last_completed_at: end of the program's latest completed run.
        groups: the groups that schedules of the cases ask for, under their locks.
        meters: the buckets that runs of the cases may take of, under their locks.
        gates: of the loads the cases ask for, under their locks.
        lines: the pools of the cases' schedules, under their locks; at least as far as jobs can get places.
    """

    program: Program | None
    cases: tuple[Case, ...]
    waiting: Mapping[Lane, Place] = field(default_factory=dict)
    active_runs: tuple[str, ...] = ()
    own_runs: Mapping[Lane, tuple[str, ...]] = field(default_factory=dict)
    last_completed_at: datetime | None = None
    groups: Mapping[str, Occupancy] = field(default_factory=dict)
    meters: Mapping[Meter, Bucket] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    gates: Mapping[Load, Gate] = field(default_factory=dict)

    def turn(self, case: Case) -> Turn:
        """When the case is to be judged among the others, which is where it stands in the line of its pool."""
        pool = None if case.schedule is None else case.schedule.pool
        if pool is None:
            return Turn(case.ready.satisfied_at, case.ready.sequence, case.job)
        priority = pool.priority if case.priority is None else case.priority
        age = self.lines.get(pool.name, Line()).age
        return Turn(turn_at(case.ready.satisfied_at, priority, age), case.ready.sequence, case.job)


@dataclass(frozen=True, slots=True)
class Admit:
    """The job may run: a run with these arguments is made with it, PENDING. It takes `slots`: (group, how many), and a
    token of every meter of `scopes`.
    """

    job: str
    ready: ReadyJob
    run: str
    arguments: Mapping[str, str]
    reason: str
    slots: tuple[tuple[str, int], ...] = ()
    scopes: tuple[str, ...] = ()


def taking_along(admit: Admit, case: Case, program: Program, joined: Iterable[ReadyJob]) -> Admit:
    """The admission of a job with those that joined it, in order: its run is told of all of them."""
    ready = merged(case.ready, joined)
    assert case.schedule is not None
    return replace(admit, ready=ready, arguments=arguments(program, case.schedule, ready))


@dataclass(frozen=True, slots=True)
class Wait:
    """The job waits; `until` (UTC) is when to look again, None when only a wake-up can help.

    `news` says that other constraints hold it than last time, so history should know.
    A slot that becomes free in one of `groups` wakes it; it stands in `line` (a pool, and where) when nothing but that
    holds it. `asks` are plug-ins that have not said anything lately. The runs in `stops` are asked to end, or killed.
    It is `spared` the look at it when a run of its program ends: that alone cannot let it go, and what can wakes it.
    """

    job: str
    verdicts: tuple[Verdict, ...]
    until: datetime | None
    reason: str
    news: bool = True
    groups: tuple[str, ...] = ()
    asks: tuple[tuple[PlugIn, Question], ...] = ()
    line: tuple[str, Turn] | None = None
    stops: tuple[str, ...] = ()
    kill: bool = False
    spared: bool = False


@dataclass(frozen=True, slots=True)
class Join:
    """The job's contributions, and those that joined it, go to `into`, which waits longer already."""

    job: str
    into: str
    reason: str


@dataclass(frozen=True, slots=True)
class End:
    """The job ends here: ABORTED, TIMED_OUT or OBSOLETE by `fact`."""

    job: str
    fact: JobFact
    reason: str


Ruling = Admit | Wait | Join | End


def superseded(
    *, known: bool, standing: int, enabled: bool, generation: int, stands_from: int | None = None
) -> str | None:
    """Why a job of `generation` must not run any more (promise G4), or None when it stands: its schedule is as it was,
    or was changed since by changes that kept what it had, the oldest of them one of generation `stands_from`.

    A job that stands though its schedule is not enabled waits for the end of a pause.
    """
    if not known:
        return "its schedule was deleted"
    kept = stands_from is not None and stands_from <= generation
    if generation != standing and not kept:
        return f"its schedule changed: this is generation {generation}, now {standing} stands"
    if not enabled and not kept:
        return "its schedule is disabled"
    return None
