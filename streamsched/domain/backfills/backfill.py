"""A backfill: many jobs of one schedule over a span, as one object. Its state machine is `BACKFILL_STATES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.state_machine import StateMachine


class BackfillState(StrEnum):
    """Where a backfill is: many jobs of one schedule over a span."""

    #: Launchers make its jobs, so many at a time as it may have active.
    RUNNING = "RUNNING"
    #: No further job is made, and those that wait are held. Runs go on.
    PAUSED = "PAUSED"
    #: Ended by a person: jobs that wait are cancelled, the others are never made.
    CANCELLED = "CANCELLED"
    #: All its jobs have ended, successfully or not.
    COMPLETED = "COMPLETED"

    @property
    def is_terminal(self) -> bool:
        """Whether no fact changes it any more."""
        return self in BACKFILL_STATES.ends


class BackfillFact(StrEnum):
    """The events of a backfill's state machine."""

    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    EXHAUSTED = "all its jobs have ended"


BACKFILL_STATES: Final = StateMachine(
    "backfill",
    {
        (BackfillState.RUNNING, BackfillFact.PAUSED): BackfillState.PAUSED,
        (BackfillState.RUNNING, BackfillFact.CANCELLED): BackfillState.CANCELLED,
        (BackfillState.RUNNING, BackfillFact.EXHAUSTED): BackfillState.COMPLETED,
        (BackfillState.PAUSED, BackfillFact.RESUMED): BackfillState.RUNNING,
        (BackfillState.PAUSED, BackfillFact.CANCELLED): BackfillState.CANCELLED,
        (BackfillState.PAUSED, BackfillFact.EXHAUSTED): BackfillState.COMPLETED,
    },
    frozenset({BackfillState.CANCELLED, BackfillState.COMPLETED}),
)


class ItemState(StrEnum):
    """Where one job of a backfill is."""

    #: It does not exist yet.
    WAITING = "WAITING"
    #: It waits, or a run of it waits or runs.
    ACTIVE = "ACTIVE"
    #: Its last run has completed.
    SUCCEEDED = "SUCCEEDED"
    #: Its last run has failed, was killed or was lost.
    FAILED = "FAILED"
    #: It ended without a run.
    DROPPED = "DROPPED"


def item_state(job: JobState, last_run: RunState | None) -> ItemState:
    """The state of an item by the state of its job and of the last run of that."""
    if not job.is_terminal:
        return ItemState.ACTIVE
    match last_run:
        case None:
            return ItemState.DROPPED
        case RunState.COMPLETED:
            return ItemState.SUCCEEDED
        case RunState.FAILED | RunState.KILLED | RunState.LOST:
            return ItemState.FAILED
        case RunState.PENDING | RunState.STARTING | RunState.RUNNING | RunState.SUSPENDED:
            return ItemState.ACTIVE


@dataclass(frozen=True, slots=True)
class BackfillCounts:
    """How many items a backfill has, in all and by state.

    Attributes:
        skipped: of its span, left out by `only`; not among `items`.
    """

    items: int
    skipped: int
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    dropped: int = 0

    @property
    def ended(self) -> int:
        """Items whose job has ended with all its runs, or will never be made."""
        return self.succeeded + self.failed + self.dropped

    @property
    def waiting(self) -> int:
        """Items without a job yet."""
        return self.items - self.active - self.ended

    def with_item(self, state: ItemState, *, former: ItemState = ItemState.WAITING) -> BackfillCounts:
        """After one item has moved from its former state to this one."""
        return replace(
            self,
            active=self.active + (state is ItemState.ACTIVE) - (former is ItemState.ACTIVE),
            succeeded=self.succeeded + (state is ItemState.SUCCEEDED),
            failed=self.failed + (state is ItemState.FAILED),
            dropped=self.dropped + (state is ItemState.DROPPED),
        )


class BackfillOrder(StrEnum):
    """Which jobs of a backfill come first."""

    OLDEST = "oldest"
    NEWEST = "newest"


class KnownOutcome(StrEnum):
    """What is known of an item before the backfill, from the latest job of the schedule with its ticks, key or
    partitions. MISSING: there is none, or it ended without a run.
    """

    MISSING = "missing"
    ACTIVE = "active"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class Only(StrEnum):
    """Which items become jobs."""

    MISSING = "missing"
    FAILED = "failed"
    ALL = "all"

    def takes(self, known: KnownOutcome) -> bool:
        """Whether an item of which this is known becomes a job."""
        match self:
            case Only.MISSING:
                return known is KnownOutcome.MISSING
            case Only.FAILED:
                return known is KnownOutcome.FAILED
            case Only.ALL:
                return True


def known_outcome(states: Mapping[str, ItemState], marks: tuple[str, ...]) -> KnownOutcome:
    """What is known of an item with these marks (ticks, keys, partitions), given the state of the latest job of each
    mark. It is missing when one of its marks is, and failed when a job of one of them failed.
    """
    found = {states.get(mark, ItemState.DROPPED) for mark in marks}
    if not found or found & {ItemState.DROPPED, ItemState.WAITING}:
        return KnownOutcome.MISSING
    if ItemState.FAILED in found:
        return KnownOutcome.FAILED
    return KnownOutcome.ACTIVE if ItemState.ACTIVE in found else KnownOutcome.SUCCEEDED
