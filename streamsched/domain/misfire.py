"""What to fire when a tick is due, and what becomes of ticks that were missed while nobody looked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, assert_never

from streamsched.domain.catchup import UNBOUNDED, CatchUp
from streamsched.domain.cron import next_fire, previous_fire
from streamsched.domain.schedule import Misfire
from streamsched.domain.tick import jitter_of
from streamsched.domain.trigger import TimeLeaf

#: A tick no later than this is on time, whatever the policy.
ON_TIME: Final = timedelta(minutes=1)
#: Skipped ticks are counted up to this many, so that a long absence costs little.
COUNTED: Final = 1_000

_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Ticks:
    """The plan for one time leaf.

    Attributes:
        fire: ticks to fire now, ascending, none later than now.
        tick: the tick to wait for; None when there is none any more.
        next_at: when to look at it: its own time, or later while ticks that were missed are spread.
        skipped: how many due ticks are passed over, counted up to `COUNTED`.
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
    """Plans what to fire of the ticks from `tick`, the one waited for, up to and including `now`.

    `ALL` fires each of them within the bounds of `catch_up`, `ONE` the newest within its window, `SKIP` the newest if
    it is on time. With a jitter, `until` is the instant up to which ticks have fired (`domain.jitter.due_until`). While
    ticks are spread, `due_at` is when `tick` was to be fired: its catch-up window counts from then, so ticks do not
    grow too old by waiting for each other. Pure: the same call gives the same plan.
    """
    due_at = due_at or tick
    if due_at > now:
        return Ticks((), tick, due_at, 0)
    until = until or now
    oldest = _oldest(leaf, tick, now - due_at, misfire, catch_up)
    following = next_fire(leaf, tick, created_at=created_at)
    if following is None or following > until:  # the common case, at the price of one step
        return Ticks((tick,) if tick >= oldest else (), following, following, 0 if tick >= oldest else 1)
    count = catch_up.at_most if misfire is Misfire.ALL else 1
    wanted = _newest(leaf, max(tick, oldest), until, created_at, count)
    skipped = _skipped(leaf, tick, wanted[0] if wanted else until + _TICK, created_at)
    if len(wanted) > 1 and catch_up.spacing:
        return Ticks(wanted[:1], wanted[1], now + catch_up.spacing, skipped)
    following = next_fire(leaf, until, created_at=created_at)
    return Ticks(wanted, following, following, skipped)


def _oldest(leaf: TimeLeaf, tick: datetime, late: timedelta, misfire: Misfire, catch_up: CatchUp) -> datetime:
    """The earliest tick that is still worth firing."""
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


def _newest(leaf: TimeLeaf, since: datetime, now: datetime, created_at: datetime, count: int) -> tuple[datetime, ...]:
    """The last `count` ticks in [since, now], ascending. Walked backwards: dense ticks are never all looked at."""
    found: list[datetime] = []
    tick = previous_fire(leaf, now + _TICK, created_at=created_at)
    while tick is not None and tick >= since and len(found) < count:
        found.append(tick.astimezone(UTC))
        tick = previous_fire(leaf, tick, created_at=created_at)
    return tuple(reversed(found))


def _skipped(leaf: TimeLeaf, tick: datetime | None, until: datetime, created_at: datetime) -> int:
    """How many ticks there are from `tick`, which is one, before `until`."""
    count = 0
    while tick is not None and tick < until and count < COUNTED:
        count += 1
        tick = next_fire(leaf, tick, created_at=created_at)
    return count
