"""What is stored until it is due: ticks of schedules, wake-ups of folds. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.signals.signal import Woken
from streamsched.domain.ticks.misfire import CaughtUp
from streamsched.domain.ticks.since_last_run import NO_RUN, RunActivity
from streamsched.domain.triggers.trigger import TickingLeaf
from streamsched.ports.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A due timer, with what determines its next tick.

    Attributes:
        leaf: None when the schedule no longer has this leaf; the timer ends.
        due_at: when the timer fires: its tick's time plus jitter.
        tick_at: its tick while missed ticks are spread; None: the one that fires at `due_at`.
        created_at: when the schedule was created; the origin of `Every`.
        last_run: of a `SinceLastRun`.
        caught_up: what jobs several ticks make that are fired together because they were missed.
        affinity: of the schedule.
    """

    schedule: ScheduleRef
    generation: int
    leaf_id: str
    leaf: TickingLeaf | None
    misfire: Misfire
    due_at: datetime
    created_at: datetime
    catch_up: CatchUp = UNBOUNDED
    tick_at: datetime | None = None
    last_run: RunActivity = NO_RUN
    caught_up: CaughtUp = CaughtUp.EACH
    affinity: int | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """The decision about a due timer.

    Attributes:
        records: the ticks to append to the log.
        next_at: when it is due next; None: it ends.
        tick_at: as in `DueTimer`, at `next_at`.
        skipped: how many ticks were skipped by the misfire policy and its catch-up.
        joined: how many missed ticks make no job of their own, as `DueTimer.caught_up` says.
    """

    records: Sequence[OutboxRecord]
    next_at: datetime | None
    tick_at: datetime | None = None
    skipped: int = 0
    joined: int = 0


class TimerStore(Protocol):
    """Stored timers: the next tick of each time leaf of each enabled schedule. Any number of instances may use it."""

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        """Claims up to `limit` timers due at `now`, those due longest first, skipping those locked by another instance,
        and stores the decision about each (records in the outbox, the next due time, a history line for skipped ticks)
        in the same transaction. Returns how many it claimed.

        `decide` must be pure: it runs inside the transaction.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

    async def next_due_at(self) -> datetime | None:
        """The earliest due time of all timers, claimed by another instance or not.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class WakeUpRequest:
    """A request of the fold (`domain.fold.effect.Wake`) from the log; `logged_at` is the log time of its record.

    Stored by `ports.intake.IntakeStore`, it replaces the request of its schedule and cell, or removes it when it has no
    time. Requests of an unknown or deleted schedule are obsolete. Requests of former generations are stored like any
    other: a cell kept from a former generation may still wait for one, and the fold ignores those it does not expect.
    """

    wake: Wake
    logged_at: datetime


#: The record of a wake-up for its schedule's home, by the affinity of the schedule.
WakeRecord = Callable[[Woken, int | None], OutboxRecord]


class WakeStore(Protocol):
    """Stored wake-ups. Any number of instances may use it."""

    async def fire(self, *, now: datetime, limit: int, record: WakeRecord) -> int:
        """Moves up to `limit` wake-ups due at `now` to the outbox, those due longest first, skipping those locked by
        another instance, in one transaction; `record` makes the record. Returns how many.

        Raises:
            UnavailableError: PostgreSQL is unavailable; nothing changed, or everything did.
        """
        ...

    async def next_due_at(self) -> datetime | None:
        """The earliest due time of all, claimed by another instance or not.

        Raises:
            UnavailableError: PostgreSQL is unavailable.
        """
        ...
