"""Stored apps, programs and schedules. Times are UTC.

A change is one transaction: the store reads under locks, a pure function decides, the store writes the decision. Locks
are taken in one order: app, program, schedules by id, timers, jobs by id, runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from streamsched.domain.fold.halt import Halt
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.programs.removed_program import RemovedProgram
from streamsched.domain.schedules.pause import Activity, Pause, PauseMode, activity
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.schedules.expectations import (
    NO_EXPECTATIONS,
    AppExpectations,
    ExpectationChange,
    RecipientsChange,
)
from streamsched.ports.schedules.program_links import BrokenJoin, ForeignWait, ProgramLink
from streamsched.ports.schedules.version import ScheduleVersion


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A stored schedule.

    Attributes:
        generation: version of definition and state, from 1; never reused, not even after a deletion.
        created_at: when it was created, or created again after a deletion.
        deleted_at: set in a tombstone, which keeps the generation; None while the schedule exists.
        kept_from: the oldest generation whose accumulation and jobs continue in this one; None: only its own.
        pause: None when it is enabled or disabled.
        resumed_at: when waiting jobs were last allowed to run again after a pause that held them; the timeouts of the
            jobs it held count from then. None: no pause has held any.
    """

    definition: Schedule
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    kept_from: int | None = None
    pause: Pause | None = None
    resumed_at: datetime | None = None

    @property
    def exists(self) -> bool:
        return self.deleted_at is None

    @property
    def disabled(self) -> bool:
        """Whether it is neither enabled nor paused."""
        return not self.enabled and self.pause is None

    @property
    def status(self) -> str:
        """`enabled`, `paused` or `disabled`."""
        return "enabled" if self.enabled else "disabled" if self.pause is None else "paused"

    @property
    def state_text(self) -> str:
        """The status; of a schedule that drains, drops or collects a backlog with what it does."""
        if self.pause is None or self.pause.mode is PauseMode.KEEP:
            return self.status
        return f"paused ({self.pause.mode.text})"

    @property
    def activity(self) -> Activity:
        """What it does while it exists."""
        return activity(self.pause, enabled=self.enabled)

    @property
    def keeping(self) -> bool:
        """Whether it is paused and keeps its accumulation and jobs."""
        return self.pause is not None and self.pause.keep

    @property
    def listens(self) -> bool:
        """Whether events and ticks count."""
        return self.exists and self.activity.counts

    @property
    def keeps(self) -> bool:
        """Whether it has an accumulation and valid jobs."""
        return self.exists and self.activity.keeps

    @property
    def draining(self) -> bool:
        """Whether its waiting jobs may run although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.DRAIN

    @property
    def backlog(self) -> bool:
        """Whether it makes jobs although it is paused."""
        return self.pause is not None and self.pause.mode is PauseMode.BACKLOG

    @property
    def oldest_valid_generation(self) -> int:
        """The oldest generation whose jobs may still run; the column of that name is computed alike."""
        if self.kept_from is not None:
            return self.kept_from
        return self.generation if self.activity.fires else self.generation + 1


@dataclass(frozen=True, slots=True)
class AppRecord:
    """The input of a decision about an app: all its programs, and the requested schedules, tombstones too.

    Attributes:
        listeners: schedules of other apps of the namespace that wait for a program this app is about to remove.
        foreign_waits: what waits for such a program in other namespaces, which a change of this app never changes.
        origin: the file of the last deployment that named one, as `host:path`; empty when none did.
        links: of other apps of the namespace: joins per run of an ancestor, and what leads to what these and the
            schedules of this app wait for.
        watched: what the app expects, if this is about the whole app.
    """

    ref: AppRef
    programs: Mapping[ProgramRef, Program]
    schedules: Mapping[ScheduleRef, ScheduleRecord]
    listeners: Mapping[ScheduleRef, ScheduleRecord] = field(default_factory=dict)
    foreign_waits: Sequence[ForeignWait] = ()
    origin: str = ""
    links: Sequence[ProgramLink] = ()
    watched: AppExpectations = NO_EXPECTATIONS


@dataclass(frozen=True, slots=True)
class AppSummary:
    """An app as lists show it.

    Attributes:
        programs: how many it has.
        schedules: how many it has, by state: `enabled`, `paused`, `disabled`; states without schedules are missing.
        deployed_at: of the last deployment.
        origin: as in `AppRecord`.
    """

    ref: AppRef
    programs: int
    schedules: Mapping[str, int]
    deployed_at: datetime
    origin: str


class Action(StrEnum):
    """The kind of a change, as written to the history."""

    CREATED = "created"
    UPDATED = "updated"
    ENABLED = "enabled"
    DISABLED = "disabled"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A new generation of one schedule. Its waiting and ready jobs of generations no longer in force end as OBSOLETE.

    Attributes:
        timers: leaf id → next due; these replace all timers, except that with `keeps` a leaf keeps an earlier time.
        records: the records for its homes, in order.
        itself: whether the schedule paused itself.
    """

    action: Action
    before: ScheduleRecord | None
    after: ScheduleRecord
    reason: str
    timers: Mapping[str, datetime]
    records: Sequence[OutboxRecord]
    itself: bool = False

    @property
    def keeps(self) -> bool:
        """Whether the accumulation and jobs of the former generation continue."""
        return self.after.kept_from is not None


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """A program stored or removed (CREATED, UPDATED, DELETED); `before`: the one that an update replaces."""

    action: Action
    program: Program
    reason: str
    before: Program | None = None


@dataclass(frozen=True, slots=True)
class AppChange:
    """The decision about an app; empty when nothing changes.

    Attributes:
        foreign_waits: what waits in other namespaces for a program that is removed. These schedules stay as they are
            and say so (`ScheduleStatus.removed`).
        joins: of created and changed schedules with an `&` of programs: how it counts (`RunJoin.text`).
        broken_joins: joins that this change breaks; it does not change them.
    """

    programs: Sequence[ProgramChange] = ()
    schedules: Sequence[ScheduleChange] = ()
    foreign_waits: Sequence[ForeignWait] = ()
    joins: Mapping[ScheduleRef, str] = field(default_factory=dict)
    broken_joins: Sequence[BrokenJoin] = ()
    expectations: Sequence[ExpectationChange] = ()
    recipients: RecipientsChange | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """A stored change.

    Attributes:
        outbox: ids of its records in the outbox, and of unsent records of earlier changes to unchanged schedules.
        ended_jobs: ids of the jobs it ended.
        pending: how many records of `outbox` the log had not acknowledged when the caller stopped waiting.
    """

    change: AppChange
    outbox: Sequence[int] = ()
    ended_jobs: Sequence[str] = ()
    pending: int = 0


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule with its present state, for API, CLI and UI.

    Attributes:
        next_tick_at: the earliest tick of its leaves, as things are; None when there is none ahead, or only one of a
            `SinceLastRun` whose run has not ended.
        since_last_run: leaf id of each `SinceLastRun` that has a timer → when it will hold at the earliest; None while
            a job waits or a run is active.
        waiting_jobs: how many jobs wait for constraints or their launch.
        open_keys: how many keys of a correlated trigger have an accumulation; 0 for any other trigger.
        progress: `domain.fold.explain` as JSON, of this generation; None before the first event. For a correlated
            trigger it has the shape only: each open key has its own progress.
        halt: why it is in error; None when it is not.
        removed: programs of other namespaces that it waits for and that were deleted.
    """

    record: ScheduleRecord
    next_tick_at: datetime | None = None
    waiting_jobs: int = 0
    open_keys: int = 0
    progress: Mapping[str, Any] | None = None
    halt: Halt | None = None
    since_last_run: Mapping[str, datetime | None] = field(default_factory=dict)
    removed: Sequence[RemovedProgram] = ()


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One line of the history: a change of a schedule, job, run or limit, with its reason."""

    at: datetime
    subject_kind: str
    subject: str
    action: str
    reason: str = ""
    detail: Mapping[str, Any] | None = None


class CatalogStore(Protocol):
    """Decides and stores changes in one transaction."""

    async def change(
        self,
        app: AppRef,
        schedules: Sequence[ScheduleRef] | None,
        decide: Callable[[AppRecord], AppChange],
        *,
        now: datetime,
        programs: Collection[ProgramRef] | None = None,
        awaited: Collection[ProgramRef] = (),
        origin: str | None = None,
        by: str = "",
    ) -> Applied:
        """Reads these schedules of the app under their locks and stores what `decide` returns, in one transaction.

        With `schedules` None it reads all, creates an app that does not exist, and locks the app against other changes;
        only then the next four apply. `programs`: the programs the app is to have; schedules of other apps of the
        namespace that wait for one to be removed are read and locked too. `awaited`: the programs that its schedules
        are to wait for; what leads to them is in `AppRecord.links`. `origin`: the file the app was deployed from;
        None keeps the stored one. `by`: the name of the caller; in the audit of removals that leave schedules of other
        namespaces waiting, and with those schedules.

        `decide` must be pure: it runs inside the transaction, and again when another change committed in between. What
        it raises is raised to the caller, and nothing changes.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...


class CatalogReader(Protocol):
    """Reads for API, CLI and UI. Deleted schedules do not exist here."""

    async def schedule(self, ref: ScheduleRef) -> ScheduleStatus:
        """Raises:
        NotFoundError: no such schedule.
        """
        ...

    async def some(self, refs: Collection[ScheduleRef]) -> Sequence[ScheduleStatus]:
        """Those of these schedules that exist and can be read, ordered by id."""
        ...

    async def schedules(
        self,
        *,
        namespace: str | None = None,
        app: AppRef | None = None,
        states: Collection[str] = (),
        after: str = "",
        limit: int | None = None,
    ) -> Sequence[ScheduleStatus]:
        """Ordered by id; of every app when none is named; at most `limit` of those after the id `after`. `states`:
        `enabled`, `paused`, `disabled` or `error`; of every state when none is named.
        """
        ...

    async def list_waiting(
        self, program: ProgramRef, *, namespace: str, after: str = "", limit: int | None = None
    ) -> Sequence[ScheduleStatus]:
        """The schedules of a namespace whose trigger has a status of the program, ordered by id; at most `limit` of
        those after the id `after`.
        """
        ...

    async def ticking(
        self, *, limit: int, namespace: str | None = None, app: AppRef | None = None
    ) -> Sequence[ScheduleRecord]:
        """The schedules with the earliest next ticks, in order; of every app when none is named."""
        ...

    async def enabled_of(
        self, programs: Collection[ProgramRef], *, limit: int | None = None
    ) -> Mapping[ProgramRef, Sequence[ScheduleRecord]]:
        """Of those programs that exist, the enabled schedules that start them, by name; at most `limit` of all."""
        ...

    async def app(
        self, ref: AppRef, *, programs: Collection[ProgramRef] | None = None, awaited: Collection[ProgramRef] = ()
    ) -> AppRecord:
        """The input `CatalogStore.change` gives to a decision, read without locks; empty when there is no such app."""
        ...

    async def app_summary(self, ref: AppRef) -> AppSummary:
        """Raises:
        NotFoundError: the app has neither programs, schedules nor expectations.
        """
        ...

    async def apps(
        self, *, namespace: str | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[AppSummary]:
        """Apps with programs or schedules, ordered by id; of all namespaces by default; `limit` after id `after`."""
        ...

    async def programs(
        self, *, namespace: str | None = None, app: AppRef | None = None, after: str = "", limit: int | None = None
    ) -> Sequence[Program]:
        """Ordered by id; of every app when none is named; at most `limit` of those after the id `after`."""
        ...

    async def program(self, ref: ProgramRef) -> Program:
        """Raises:
        NotFoundError: no such program.
        """
        ...

    async def generations(self, app: AppRef) -> Mapping[ScheduleRef, int]:
        """Of the schedules of the app."""
        ...

    async def expectations(self, app: AppRef) -> AppExpectations:
        """What the app expects."""
        ...

    async def versions(self, ref: ScheduleRef, *, limit: int) -> Sequence[ScheduleVersion]:
        """The newest definitions of the schedule, newest first; also of a deleted one."""
        ...

    async def history(self, subject_kind: str, subject: str, *, limit: int = 100) -> Sequence[HistoryEntry]:
        """The newest history lines of an app, program, schedule, job or run, newest first."""
        ...
