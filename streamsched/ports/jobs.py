"""Jobs: satisfied schedules, from intake to launch. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from streamsched.domain.deadline import Deadline
from streamsched.domain.docket import Docket, Ruling
from streamsched.domain.group import Occupancy
from streamsched.domain.job import JobState, Order, ReadyJob
from streamsched.domain.load import Gate, Load
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.pace import Bucket
from streamsched.domain.pool import Line
from streamsched.domain.rate import Meter
from streamsched.domain.run import RunState
from streamsched.domain.schedule import Program, Schedule
from streamsched.ports.catalog import Decision
from streamsched.ports.runs import Assignment


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as it stands.

    Attributes:
        program: None when its schedule was unknown at intake.
        waiting: verdicts of the last check, in the order of the schedule's constraints: `{kind, why, at?, what?}`.
        joined: the job a COALESCED one joined.
        runs: ids of its runs, first attempt first.
        missed: the deadlines it has missed, in sentences.
    """

    id: str
    schedule: ScheduleRef
    generation: int
    sequence: int
    program: ProgramRef | None
    state: JobState
    reason: str
    satisfied_at: datetime
    created_at: datetime
    next_check_at: datetime | None
    waiting: tuple[dict[str, Any], ...]
    joined: str | None
    ended_at: datetime | None
    runs: tuple[str, ...]
    missed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holder:
    """A non-terminal run of a program: what a waiting job may wait for."""

    run: str
    state: str
    since: datetime
    schedule: ScheduleRef | None


@dataclass(frozen=True, slots=True)
class Decided:
    """One line of a subject's history."""

    at: datetime
    subject: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """The last run of a job: how far its launch is, or how it goes.

    Attributes:
        reason: how it ended; of a further attempt that has not begun, why it was made.
        since: when it was made, or came to the state it is in.
        spawns: runner processes that were started for it.
        spawn_at: when the next one is due; None when none is.
        held_back: none is due until its schedule, which is paused, is changed again.
        not_spawned: why the last one could not be started.
        ahead: how many runs want a runner process before it.
    """

    run: str
    attempt: int
    state: RunState
    reason: str
    since: datetime
    spawns: int = 0
    spawn_at: datetime | None = None
    held_back: bool = False
    not_spawned: str | None = None
    ahead: int = 0
    runner: str | None = None
    heartbeat_at: datetime | None = None
    stop_requested: str | None = None


@dataclass(frozen=True, slots=True)
class Background:
    """All that explains a job, read at one moment.

    Attributes:
        holders: the program's non-terminal runs, oldest first.
        held: who holds it back by hand, and why; None: nobody does.
        groups: the groups its schedule asks for; one nobody has asked for yet is missing.
        slot_holders: the runs that hold slots of those, oldest first.
        lines: the pools its schedule asks for, as far as it stands in them.
        priority: of the schedule in its pool, as set online.
        gates: of the loads its schedule asks for; one nobody has come to yet is missing.
        meters: the buckets its rates ask; one that is missing is full.
        launch: its last run.
        unreadable: what is wrong with the schedule's definition in the store; None: nothing.
        checked_at: when a launcher looked at it the last time.
        typical: how long half of the program's latest completed runs took at most.
        stands_from: the oldest generation of the schedule whose jobs stand; None: `generation` alone.
        deadlines: those still to come, the next first.
    """

    job: JobRecord
    ready: ReadyJob
    schedule: Schedule | None
    generation: int
    enabled: bool
    holders: tuple[Holder, ...]
    last_completed_at: datetime | None
    history: tuple[Decided, ...]
    held: str | None = None
    groups: Mapping[str, Occupancy] = field(default_factory=dict)
    slot_holders: tuple[Holder, ...] = ()
    meters: Mapping[Meter, Bucket] = field(default_factory=dict)
    lines: Mapping[str, Line] = field(default_factory=dict)
    priority: int | None = None
    gates: Mapping[Load, Gate] = field(default_factory=dict)
    launch: Launch | None = None
    unreadable: str | None = None
    checked_at: datetime | None = None
    typical: timedelta | None = None
    stands_from: int | None = None
    deadlines: tuple[tuple[Deadline, datetime], ...] = ()


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a schedule gave this verdict on an event at all; `late` is the policy when it was late, else empty."""

    verdict: str
    late: str
    total: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Span:
    """What a schedule did in a span of time.

    Attributes:
        jobs: satisfied in it, oldest first, the newest thousand.
        changes: of the schedule itself, from its beginning to the end of the span, oldest first, the newest 500.
        tallies: of all time.
    """

    jobs: Sequence[JobRecord]
    changes: Sequence[Decision]
    tallies: Sequence[Tally]


@dataclass(frozen=True, slots=True)
class Inside:
    """Who executes runs within the launcher's process, so that they can begin with their admission.

    Attributes:
        runner: as `RunnerId` writes it.
        room: how many more it takes now.
        fits: whether it executes such a program.
    """

    runner: str
    room: int
    fits: Callable[[Program], bool]


@dataclass(frozen=True, slots=True)
class Sitting:
    """What one decision about several programs did.

    Attributes:
        rulings: by program; those that another launcher holds are missing.
        begun: the admitted runs that are claimed already, for `Inside`.
    """

    rulings: Mapping[str, Sequence[Ruling]]
    begun: Sequence[Assignment] = ()

    @property
    def ruled(self) -> int:
        """How many jobs were ruled on."""
        return sum(len(rulings) for rulings in self.rulings.values())


class Decisions(Protocol):
    """What the launcher's loop needs."""

    async def due(self, now: datetime, *, limit: int) -> Mapping[str, int]:
        """Programs that have jobs due at `now`, those due longest first, and how many were found; not more than some
        were looked for.
        """
        ...

    async def next_due(self) -> datetime | None:
        """The earliest next check of all waiting jobs; None when every one of them has to be woken."""
        ...

    async def decide(
        self,
        programs: Sequence[str],
        *,
        now: datetime,
        limit: int,
        judge: Callable[[Docket], Sequence[Ruling]],
        inside: Inside | None = None,
        wait: bool = False,
    ) -> Sitting:
        """Reads the dockets of these programs (up to `limit` due jobs of each) under their locks, applies what `judge`
        rules on one after the other, and records it in the history, all in one transaction. With `inside`, admitted
        runs begin at once as long as there is room: they are claimed for its runner, as `RunBook.claim` would.
        Programs that another decides about, or whose runs end just now, are left out; with `wait` the first is waited
        for, a second at most.

        `judge` must be pure: it runs inside the transaction.

        Raises:
            InvalidError: a definition or a job in the store cannot be read; nothing changed.
            ConflictError: a job changed at the same time; nothing changed.
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...

    async def defer(self, program: str, reason: str, *, now: datetime, until: datetime) -> None:
        """Puts the due jobs of a program off, with the reason: it cannot be decided now, others can, also
        those behind them in the line of a pool.
        """
        ...

    async def look(self, job: str) -> None:
        """The job is looked at again, if it waits still: something was heard that it waits for."""
        ...

    async def recall(self, *, before: datetime) -> int:
        """The sweep behind the wake-ups: makes due what waits for a wake-up since `before`, and what waits for a
        schedule that changed, was disabled or deleted since. Returns how many.
        """
        ...


class Jobs(Protocol):
    """What people ask about jobs."""

    async def get(self, job: str) -> JobRecord:
        """Raises:
        NotFoundError: no such job.
        """
        ...

    async def recent(
        self, *, schedule: ScheduleRef | None = None, states: Sequence[JobState] = (), limit: int = 100
    ) -> Sequence[JobRecord]:
        """The newest jobs first; of all states when none is named."""
        ...

    async def tell(self, job: str, order: Order | None, reason: str, *, now: datetime) -> JobRecord:
        """Tells a waiting job what to do, instead of what it was told before; None lets it go its own way again.
        `reason` (who and why) goes into its history.

        Raises:
            NotFoundError: no such job.
            ConflictError: it waits for no constraint any more; nothing changed.
        """
        ...

    async def span(self, schedule: ScheduleRef, *, since: datetime, until: datetime) -> Span:
        """What happened to a schedule between these (UTC, both included); an unknown one did nothing."""
        ...

    async def background(self, job: str) -> Background:
        """Raises:
        NotFoundError: no such job.
        """
        ...
