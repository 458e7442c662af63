"""Apps and schedules as the catalog returns them, and the changes that are decided about them. Times are UTC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from streamsched.domain.expectations.expectation import Expectation
from streamsched.domain.fold.halt import Halt
from streamsched.domain.names import AppRef, ExpectationRef, ProgramRef, ScheduleRef
from streamsched.domain.notices.recipient import Recipient
from streamsched.domain.programs.removed_program import RemovedProgram
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.schedule import Program, ScheduleRecord
from streamsched.domain.triggers.trigger import Trigger
from streamsched.wire.schedules import ScheduleLosses

#: More definitions than this are decoded and decided on in a thread, not in the event loop.
LARGE: Final = 100

_LOSSES: Final = ("lost_keys", "dropped_keys", "refused_events", "keyless_events")


class ProgramLink(NamedTuple):
    """A schedule of another app of the namespace: what starts its program."""

    schedule: ScheduleRef
    program: ProgramRef
    trigger: Trigger


class ForeignWait(NamedTuple):
    """A schedule that waits for a program of another namespace."""

    schedule: ScheduleRef
    program: ProgramRef


class BrokenJoin(NamedTuple):
    """A schedule that joins ends of programs per run of an ancestor from which one of them descends no more."""

    schedule: ScheduleRef
    ancestor: ProgramRef
    program: ProgramRef

    @property
    def text(self) -> str:
        """What is wrong with it."""
        return f"joins per run of {self.ancestor}, which leads no more to {self.program}: its runs would not count"


@dataclass(frozen=True, slots=True)
class AppExpectations:
    """What an app expects, and who is notified of its failures.

    Attributes:
        stopped: the expectations that are not judged any more, until they are deployed again.
    """

    expectations: Mapping[ExpectationRef, Expectation] = field(default_factory=dict)
    recipients: tuple[Recipient, ...] = ()
    stopped: frozenset[ExpectationRef] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.expectations or self.recipients)


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
        forgotten: the highest generation of its deleted schedules that are forgotten; 0: none. New schedules begin
            after it.
    """

    ref: AppRef
    programs: Mapping[ProgramRef, Program]
    schedules: Mapping[ScheduleRef, ScheduleRecord]
    listeners: Mapping[ScheduleRef, ScheduleRecord] = field(default_factory=dict)
    foreign_waits: Sequence[ForeignWait] = ()
    origin: str = ""
    links: Sequence[ProgramLink] = ()
    watched: AppExpectations = field(default_factory=AppExpectations)
    forgotten: int = 0


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

    @property
    def totals(self) -> Mapping[str, int]:
        """Its schedules by state, and in all (`total`)."""
        return {"total": sum(self.schedules.values()), **self.schedules}


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

    @property
    def state(self) -> str:
        """`enabled`, `paused`, `disabled`, or `error` of one whose state is damaged."""
        return self.record.status if self.halt is None else "error"

    @property
    def losses(self) -> ScheduleLosses | None:
        """Keys and events that this generation did not keep, of its progress (`codec.views.explanation.losses`); None
        when there are none.
        """
        progress = self.progress or {}
        lost, dropped, refused, keyless = (progress.get(name, 0) for name in _LOSSES)
        if not lost and not refused and not keyless:
            return None
        return ScheduleLosses(
            expired_keys=lost - dropped,
            dropped_keys=dropped,
            refused_events=refused,
            keyless_events=keyless,
            keyless_why=progress.get("keyless_why", ""),
        )


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """A schedule to be paused because too many runs of this generation failed in a row."""

    schedule: ScheduleRef
    generation: int
    pause: Pause


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
        itself: whether the schedule paused itself.
    """

    action: Action
    before: ScheduleRecord | None
    after: ScheduleRecord
    reason: str
    timers: Mapping[str, datetime]
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


class ExpectationChange(NamedTuple):
    """An expectation that is stored (`before` None: a new one) or removed (`after` None)."""

    before: Expectation | None
    after: Expectation | None

    @property
    def expectation(self) -> Expectation:
        """As it is after the change, or was before it is removed."""
        found = self.after or self.before
        assert found is not None
        return found

    @property
    def ref(self) -> ExpectationRef:
        """Of the expectation before and after."""
        return self.expectation.ref

    @property
    def action(self) -> str:
        """As `Action` has it."""
        return "created" if self.before is None else "deleted" if self.after is None else "updated"


class RecipientsChange(NamedTuple):
    """Who is notified before and after a change."""

    before: tuple[Recipient, ...]
    after: tuple[Recipient, ...]


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
