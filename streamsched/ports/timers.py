"""Timers: the next tick of each time leaf of each enabled schedule. Times are UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedule import Misfire
from streamsched.domain.trigger import TimeLeaf
from streamsched.ports.outbox import OutboxRecord


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer whose time has come, with what decides its next.

    Attributes:
        leaf: None when the schedule has no such leaf any more; such a timer ends.
        due_at: when the timer fires: its tick's time, and a jitter.
        tick_at: the tick it stands for while missed ticks are spread; None: the one that fires at `due_at`.
        created_at: when the schedule was created; where `Every` counts from.
    """

    schedule: ScheduleRef
    generation: int
    leaf_id: str
    leaf: TimeLeaf | None
    misfire: Misfire
    due_at: datetime
    created_at: datetime
    catch_up: CatchUp = UNBOUNDED
    tick_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Firing:
    """What becomes of a due timer.

    Attributes:
        records: the ticks that go to the log.
        next_at: when it is due next; None: never again.
        tick_at: as in `DueTimer`, for then.
        skipped: how many ticks were passed over.
    """

    records: Sequence[OutboxRecord]
    next_at: datetime | None
    tick_at: datetime | None = None
    skipped: int = 0


class TimerStore(Protocol):
    """The durable side of the timers; any number of instances may share it."""

    async def fire(self, *, now: datetime, limit: int, decide: Callable[[DueTimer], Firing]) -> int:
        """Claims up to `limit` timers due at `now`, those due longest first, leaving those another instance has;
        stores what `decide` says about each (records to the outbox, the next due time, a line of history for skipped
        ticks) in the same transaction. Returns how many it claimed.

        `decide` must be pure: it runs inside the transaction.

        Raises:
            UnavailableError: PostgreSQL is away; nothing changed, or everything did.
        """
        ...

    async def next_due(self) -> datetime | None:
        """The earliest due time of all timers, claimed by another instance or not.

        Raises:
            UnavailableError: PostgreSQL is away.
        """
        ...
