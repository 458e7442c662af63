"""What to fire when a tick is due, and what becomes of ticks that were missed while nobody looked."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Final, assert_never

from streamsched.domain.cron import next_fire
from streamsched.domain.schedule import Misfire
from streamsched.domain.tick import jitter_of
from streamsched.domain.trigger import TimeLeaf

#: A tick no later than this is on time, whatever the policy.
ON_TIME: Final = timedelta(minutes=1)
#: Skipped ticks are counted up to this many, so that a long absence costs little.
COUNTED: Final = 10_000

_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Ticks:
    """The plan for one time leaf.

    Attributes:
        fire: ticks to fire now, ascending, none later than now.
        next_at: the tick to wait for; None when there is none any more.
        skipped: how many due ticks are passed over, counted up to `COUNTED`.
    """

    fire: tuple[datetime, ...]
    next_at: datetime | None
    skipped: int


def due_ticks(
    leaf: TimeLeaf, due_at: datetime, now: datetime, policy: Misfire, *, created_at: datetime, cap: int = 100
) -> Ticks:
    """Plans what to fire of the ticks from `due_at`, the one waited for, up to and including `now`.

    With a jitter `now` is the instant up to which ticks have fired (`domain.jitter.due_until`).
    `ALL` fires each of them, of more than `cap` the newest; `ONE` the newest; `SKIP` the newest if it is on time.
    Pure: the same call gives the same plan.
    """
    if due_at > now:
        return Ticks((), due_at, 0)
    match policy:
        case Misfire.ALL:
            fire = _newest(leaf, due_at, now, created_at, cap)
        case Misfire.ONE:
            fire = _newest(leaf, due_at, now, created_at, 1)
        case Misfire.SKIP:
            fire = _newest(leaf, due_at, now, created_at, 1)
            fire = tuple(tick for tick in fire if now - tick <= ON_TIME + jitter_of(leaf))
        case _:
            assert_never(policy)
    before = _walk(leaf, due_at, now, created_at)
    skipped = sum(1 for tick in islice(before, COUNTED + len(fire)) if not fire or tick < fire[0])
    return Ticks(fire, next_fire(leaf, now, created_at=created_at), min(skipped, COUNTED))


def _newest(leaf: TimeLeaf, due_at: datetime, now: datetime, created_at: datetime, count: int) -> tuple[datetime, ...]:
    """The last `count` ticks in [due_at, now], found by looking back ever farther: dense ticks are never all walked."""
    reach = ON_TIME
    while True:
        since = max(due_at, now - reach)
        begin = since if since == due_at else next_fire(leaf, since - _TICK, created_at=created_at)
        found = deque(_walk(leaf, begin, now, created_at), maxlen=count)
        if len(found) == count or since == due_at:
            return tuple(found)
        reach *= 4


def _walk(leaf: TimeLeaf, begin: datetime | None, until: datetime, created_at: datetime) -> Iterator[datetime]:
    """`begin`, which is a tick, and those after it up to `until`, ascending."""
    tick = begin
    while tick is not None and tick <= until:
        yield tick.astimezone(UTC)
        tick = next_fire(leaf, tick, created_at=created_at)
