"""Misfire: which ticks to fire when one is due, including ticks missed during downtime, and what jobs they make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, assert_never

from streamsched.domain.schedules.catchup import UNBOUNDED, CatchUp
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.triggers.time_leaf import jitter_of
from streamsched.domain.triggers.trigger import AnyOf, TimeLeaf, Trigger

#: A tick at most this late is on time under every policy; one that is later was missed.
ON_TIME: Final = timedelta(minutes=1)
#: Skipped ticks are counted up to this many, to bound the cost after a long downtime.
COUNTED: Final = 1_000

_TICK: Final = timedelta(microseconds=1)


class CaughtUp(StrEnum):
    """What jobs the ticks make that are fired together, because they were missed. EACH: its own. TOGETHER: one has
    all of them. NEWEST: only the newest makes one.
    """

    EACH = "each"
    TOGETHER = "together"
    NEWEST = "newest"


def choose_catch_up(trigger: Trigger, leaf: TimeLeaf, overlap: Overlap, catch_up: CatchUp) -> CaughtUp:
    """As the overlap policy says of jobs that wait, though none of these has waited yet; each its own where the ticks
    are spread, and where a tick alone satisfies nothing.
    """
    alone = trigger == leaf or (isinstance(trigger, AnyOf) and leaf in trigger.triggers)
    if not alone or catch_up.spacing:
        return CaughtUp.EACH
    match overlap:
        case Overlap.COALESCE:
            return CaughtUp.TOGETHER
        case Overlap.LATEST | Overlap.CANCEL_RUNNING | Overlap.KILL_RUNNING:
            return CaughtUp.NEWEST
        case Overlap.QUEUE | Overlap.SKIP:
            return CaughtUp.EACH
        case _:
            assert_never(overlap)


@dataclass(frozen=True, slots=True)
class Ticks:
    """The plan for one time leaf.

    Attributes:
        fire: ticks to fire now, ascending, none later than now.
        tick: the next tick to wait for; None when there is none.
        next_at: when to handle it: its own time, or later while missed ticks are spaced out.
        skipped: how many due ticks are skipped, counted up to `COUNTED`.
    """

    fire: tuple[datetime, ...]
    tick: datetime | None
    next_at: datetime | None
    skipped: int


def due_ticks(
    leaf: TimeLeaf,
    tick: datetime,
    now: datetime,
    misfire: Misfire,
    catch_up: CatchUp = UNBOUNDED,
    *,
    created_at: datetime,
    until: datetime | None = None,
    due_at: datetime | None = None,
) -> Ticks:
    """Plans which ticks to fire, from `tick`, the one waited for, up to and including `now`.

    `ALL` fires each within the bounds of `catch_up`, `ONE` the newest within its window, `SKIP` the newest if it is on
    time. With jitter, `until` is the instant up to which ticks have fired (`domain.ticks.jitter.due_until`). While
    ticks are spaced out, `due_at` is when `tick` was to be fired; its catch-up window counts from then, so ticks do not
    expire by waiting for each other. Pure.
    """
    due_at = due_at or tick
    if due_at > now:
        return Ticks((), tick, due_at, 0)
    until = until or now
    oldest = _oldest_tick(leaf, tick, now - due_at, misfire, catch_up)
    following = next_fire(leaf, tick, created_at=created_at)
    if following is None or following > until:  # the common case: a single tick
        return Ticks((tick,) if tick >= oldest else (), following, following, 0 if tick >= oldest else 1)
    count = catch_up.at_most if misfire is Misfire.ALL else 1
    wanted = _newest_ticks(leaf, max(tick, oldest), until, created_at, count)
    skipped = _count_skipped_ticks(leaf, tick, wanted[0] if wanted else until + _TICK, created_at)
    if len(wanted) > 1 and catch_up.spacing:
        return Ticks(wanted[:1], wanted[1], now + catch_up.spacing, skipped)
    following = next_fire(leaf, until, created_at=created_at)
    return Ticks(wanted, following, following, skipped)


def _oldest_tick(leaf: TimeLeaf, tick: datetime, late: timedelta, misfire: Misfire, catch_up: CatchUp) -> datetime:
    """The earliest tick that may still be fired."""
    match misfire:
        case Misfire.SKIP:
            grace = ON_TIME
        case Misfire.ALL | Misfire.ONE if catch_up.window is None:
            return tick
        case Misfire.ALL | Misfire.ONE:
            grace = max(catch_up.window or ON_TIME, ON_TIME)
        case _:
            assert_never(misfire)
    return tick + late - grace - jitter_of(leaf)


def _newest_ticks(
    leaf: TimeLeaf, since: datetime, now: datetime, created_at: datetime, count: int
) -> tuple[datetime, ...]:
    """The last `count` ticks in [since, now], ascending. Walks backwards, so the cost does not depend on the rest."""
    found: list[datetime] = []
    tick = previous_fire(leaf, now + _TICK, created_at=created_at)
    while tick is not None and tick >= since and len(found) < count:
        found.append(tick.astimezone(UTC))
        tick = previous_fire(leaf, tick, created_at=created_at)
    return tuple(reversed(found))


def _count_skipped_ticks(leaf: TimeLeaf, tick: datetime | None, until: datetime, created_at: datetime) -> int:
    """The number of ticks from `tick` (included) before `until`, at most `COUNTED`."""
    count = 0
    while tick is not None and tick < until and count < COUNTED:
        count += 1
        tick = next_fire(leaf, tick, created_at=created_at)
    return count
