"""Jobs: satisfied schedules, from intake to launch. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from streamsched.domain.constraints.lane import Lane, LaneName
from streamsched.domain.constraints.process_room import RoomTurn
from streamsched.domain.decisions.resources import Resources
from streamsched.domain.history import HistoryEntry
from streamsched.domain.jobs.job import JobCommand, JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import Submission
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.deadline import Deadline
from streamsched.domain.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A stored job.

    Attributes:
        schedule: None for a submission to a program.
        program: None when its schedule was unknown at intake.
        waiting: verdicts of the last check, in the order of the schedule's constraints: `{kind, why, at?, what?}`.
        joined: the job into which a COALESCED one was coalesced.
        runs: ids of its runs, first attempt first.
        missed: the deadlines it missed, as sentences.
        outcome: the state of its last run; None before it has one.
        failures: how often in a row it could not be decided, for `reason`; retried at `next_check_at`, at growing
            intervals.
        submission: of a person; None for a job of the trigger.
        trace: the id of its trace; None without one.
    """

    id: str
    schedule: ScheduleRef | None
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
    failures: int = 0
    outcome: RunOutcome | None = None
    submission: Submission | None = None
    trace: str | None = None


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The state of a run, or its end."""

    state: RunState
    reason: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class BlockingRun:
    """A non-terminal run of a program, for which a job may wait."""

    run: str
    state: str
    since: datetime
    schedule: ScheduleRef | None


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One line of a subject's history."""

    at: datetime
    subject: str
    action: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchStatus:
    """The last run of a job, with the state of its launch.

    Attributes:
        reason: of its end; of a further attempt that has not started, why it was created.
        since: when it entered its state.
        spawns: runner processes started for it.
        spawn_at: when the next one is due; None when none is.
        held_back: whether its start waits until its paused schedule changes.
        not_spawned: why the last runner process could not be started.
        ahead: how many runs were to get a runner process before it.
        room: how full the launchers are, when it waits for a process and they are full.
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
    room: str | None = None
    runner: str | None = None
    heartbeat_at: datetime | None = None
    stop_requested: str | None = None


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """All data that explains a job, of one database snapshot.

    Attributes:
        holders: the program's non-terminal runs, oldest first.
        held: who holds it by a command, and why; None when it is not held.
        resources: those its schedule uses; the queue of a pool up to the job's position.
        lanes: the lanes it is in.
        slot_holders: the runs that hold slots of its groups and pools, oldest first.
        priority: of the schedule in its pool, as set online.
        resumed_at: as `DueJob.resumed_at`.
        launch: its last run.
        place: the place for a process that the job lacks, when it lacks only that; its room is among the resources.
        unreadable: why the stored schedule or satisfaction cannot be read; None when it can.
        checked_at: when a launcher last checked it.
        typical: the median duration of the program's latest completed runs.
        oldest_valid_generation: the oldest generation of the schedule whose jobs are valid; None: `generation` alone.
        deadlines: those ahead, the next first.
        pauses: the pauses, disablings, resumptions and enablings of its schedule since the satisfaction.
    """

    job: JobRecord
    ready: ReadyJob
    schedule: Schedule | None
    generation: int
    enabled: bool
    holders: tuple[BlockingRun, ...]
    last_completed_at: datetime | None
    history: tuple[HistoryLine, ...]
    held: str | None = None
    resources: Resources = field(default_factory=Resources)
    lanes: Mapping[LaneName, Lane] = field(default_factory=dict)
    slot_holders: tuple[BlockingRun, ...] = ()
    priority: int | None = None
    resumed_at: datetime | None = None
    launch: LaunchStatus | None = None
    place: RoomTurn | None = None
    unreadable: str | None = None
    checked_at: datetime | None = None
    typical: timedelta | None = None
    oldest_valid_generation: int | None = None
    deadlines: tuple[tuple[Deadline, datetime], ...] = ()
    pauses: tuple[HistoryLine, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How often a schedule gave this verdict, of all time; `late` is the policy applied to late events, else empty."""

    verdict: str
    late: str
    total: int
    last_at: datetime


@dataclass(frozen=True, slots=True)
class ScheduleSpan:
    """The activity of a schedule in a span of time.

    Attributes:
        jobs: those satisfied in it, oldest first, the newest thousand.
        changes: of the schedule, from its creation to the end of the span, oldest first, the newest 500.
        verdict_counts: of all time.
    """

    jobs: Sequence[JobRecord]
    changes: Sequence[HistoryEntry]
    verdict_counts: Sequence[VerdictCount]


class JobStore(Protocol):
    """Reads and commands for API, CLI and UI."""

    async def get(self, job: str) -> JobRecord:
        """Raises:
        NotFoundError: no such job.
        """
        ...

    async def recent(
        self,
        *,
        schedule: ScheduleRef | None = None,
        app: AppRef | None = None,
        namespace: str | None = None,
        states: Sequence[JobState] = (),
        limit: int = 100,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[JobRecord]:
        """The newest jobs first; of all schedules, apps, namespaces and states where none is named; older than
        `before` (time of creation and id of a job), when given.
        """
        ...

    async def command(self, job: str, command: JobCommand | None, reason: str, *, now: datetime) -> JobRecord:
        """Sets or replaces the command of a waiting job; None removes it. `reason` (who and why) is written to its
        history.

        Raises:
            NotFoundError: no such job.
            ConflictError: it no longer waits for constraints; nothing changed.
        """
        ...

    async def span(self, schedule: ScheduleRef, *, since: datetime, until: datetime) -> ScheduleSpan:
        """The activity of a schedule between these (UTC, both included); empty for an unknown one."""
        ...

    async def snapshot(self, job: str) -> JobSnapshot:
        """Raises:
        NotFoundError: no such job.
        """
        ...
