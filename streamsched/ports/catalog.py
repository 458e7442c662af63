"""Apps, programs and schedules at rest. Times are UTC.

Changing them is read, decide, write: the store reads under locks, a pure function decides, the store writes everything
the decision says in the same transaction. Locks are taken in one order everywhere: app, program, schedules by id,
timers, jobs by id, runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from streamsched.domain.halt import Halt
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.pause import Pause
from streamsched.domain.schedule import Program, Schedule
from streamsched.ports.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class ScheduleRecord:
    """A schedule as it stands.

    Attributes:
        generation: version of definition and state, from 1; never reused, not even after a deletion.
        created_at: when it was created, anew after a deletion.
        deleted_at: of a tombstone, which only keeps the generation; None while the schedule exists.
        kept_from: the oldest generation whose accumulation and jobs go on in this one; None: none but itself.
        pause: of one that is disabled; None says the same as `Pause()`.
    """

    definition: Schedule
    generation: int
    enabled: bool
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None
    kept_from: int | None = None
    pause: Pause | None = None

    @property
    def exists(self) -> bool:
        return self.deleted_at is None

    @property
    def keeping(self) -> bool:
        """Whether it is paused and keeps what it has."""
        return self.pause is not None and self.pause.keep

    @property
    def listens(self) -> bool:
        """Whether events count."""
        return self.exists and (self.enabled or self.keeping)

    @property
    def stands_from(self) -> int:
        """The oldest generation whose jobs may still run (`schedules.stands_from` says the same)."""
        if self.kept_from is not None:
            return self.kept_from
        return self.generation if self.enabled else self.generation + 1


@dataclass(frozen=True, slots=True)
class AppRecord:
    """What a decision sees of an app: all its programs, and the schedules that were asked for, tombstones too.

    Attributes:
        listeners: schedules of other apps that wait for a program this one is about to lose.
    """

    ref: AppRef
    programs: Mapping[ProgramRef, Program]
    schedules: Mapping[ScheduleRef, ScheduleRecord]
    listeners: Mapping[ScheduleRef, ScheduleRecord] = field(default_factory=dict)


class Action(StrEnum):
    """What a change did; the words of the history."""

    CREATED = "created"
    UPDATED = "updated"
    ENABLED = "enabled"
    DISABLED = "disabled"
    PAUSED = "paused"
    RESUMED = "resumed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """A new generation of one schedule. Its waiting and ready jobs of generations that do not stand end as OBSOLETE.

    Attributes:
        timers: leaf id → next due; these replace all it had, but a leaf of a change that keeps stays due when it was.
        records: what its homes must be told, in this order.
    """

    action: Action
    before: ScheduleRecord | None
    after: ScheduleRecord
    reason: str
    timers: Mapping[str, datetime]
    records: Sequence[OutboxRecord]

    @property
    def keeps(self) -> bool:
        """Whether what the former generation had goes on."""
        return self.after.kept_from is not None


@dataclass(frozen=True, slots=True)
class ProgramChange:
    """A program stored or removed (CREATED, UPDATED, DELETED)."""

    action: Action
    program: Program
    reason: str


@dataclass(frozen=True, slots=True)
class AppChange:
    """What is decided for an app; empty when nothing changes."""

    programs: Sequence[ProgramChange] = ()
    schedules: Sequence[ScheduleChange] = ()


@dataclass(frozen=True, slots=True)
class Applied:
    """A change that stands.

    Attributes:
        outbox: ids of what it tells the log, and of what earlier changes told it of schedules that stay as they are.
        ended_jobs: ids of the jobs it ended.
    """

    change: AppChange
    outbox: Sequence[int] = ()
    ended_jobs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class ScheduleStatus:
    """A schedule as people see it.

    Attributes:
        next_tick_at: the earliest tick of its time leaves; None when it has none ahead.
        waiting_jobs: how many jobs wait on constraints or for their launch.
        open_keys: how many accumulations a trigger that correlates has at the moment; 0 for any other.
        progress: `domain.explain` as JSON, of this generation; None before anything was accumulated. Of a trigger that
            correlates it tells the shape alone: each open key has its own.
        halt: why it is in error; None when it is well.
    """

    record: ScheduleRecord
    next_tick_at: datetime | None = None
    waiting_jobs: int = 0
    open_keys: int = 0
    progress: Mapping[str, Any] | None = None
    halt: Halt | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """One line of the history: every change of a schedule, job or run, with its reason."""

    at: datetime
    subject_kind: str
    subject: str
    action: str
    reason: str = ""
    detail: Mapping[str, Any] | None = None


class CatalogStore(Protocol):
    """Where changes are decided and stored."""

    async def change(
        self,
        app: AppRef,
        schedules: Sequence[ScheduleRef] | None,
        decide: Callable[[AppRecord], AppChange],
        *,
        now: datetime,
        programs: Collection[ProgramRef] | None = None,
    ) -> Applied:
        """Reads these schedules of the app under their locks and stores what `decide` says, all in one transaction.
        With None it reads all of them, creates an app that does not exist yet, and nobody else changes it meanwhile.
        `programs`, with None alone, are those the app is to have: schedules of other apps that wait for one it has and
        shall not have are read and locked too.

        `decide` must be pure: it runs inside the transaction, and again when another change came between. What it
        raises goes to the caller, and nothing is changed.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...


@dataclass(frozen=True, slots=True)
class Break:
    """A schedule that is to be paused, for the runs of this generation failed too often."""

    schedule: ScheduleRef
    generation: int
    pause: Pause


class PauseBook(Protocol):
    """Pauses that begin or end by themselves."""

    async def broken(self, *, limit: int) -> Sequence[Break]:
        """Schedules that are to be paused, those that failed first first.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def mended(self, broken: Break) -> None:
        """That has been done, or is overtaken. A repeat changes nothing.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def over(self, *, now: datetime, limit: int) -> Sequence[ScheduleRef]:
        """Schedules whose pause has ended by `now`, those that ended first first.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...

    async def next_end(self) -> datetime | None:
        """When the next pause ends; None when none does by itself.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...


class CatalogReader(Protocol):
    """What people ask. Deleted schedules do not exist here."""

    async def schedule(self, ref: ScheduleRef) -> ScheduleStatus:
        """Raises:
        NotFoundError: no such schedule.
        """
        ...

    async def schedules(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[ScheduleStatus]:
        """Ordered by id; of every app when none is named."""
        ...

    async def app(self, ref: AppRef, *, programs: Collection[ProgramRef] | None = None) -> AppRecord:
        """What `CatalogStore.change` would give to a decision, without its locks; empty when there is no such app."""
        ...

    async def programs(self, *, namespace: str | None = None, app: AppRef | None = None) -> Sequence[Program]:
        """Ordered by id; of every app when none is named."""
        ...

    async def program(self, ref: ProgramRef) -> Program:
        """Raises:
        NotFoundError: no such program.
        """
        ...

    async def history(self, subject_kind: str, subject: str, *, limit: int = 100) -> Sequence[Decision]:
        """The newest decisions about an app, program, schedule, job or run; newest first."""
        ...
