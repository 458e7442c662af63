"""Whether a stored next tick is one that its schedule can want: not after a clock was wrong for a while, nor when zones
have got other rules. Pure.

The tick after the next one may be stored: the next was sent already, when the clock was a little ahead and then was set
back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.limits import add_duration
from streamsched.domain.names import ScheduleRef
from streamsched.domain.ticks.fire_times import next_fire
from streamsched.domain.ticks.jitter import fires_at, tick_fired_at
from streamsched.domain.triggers.time_leaf import TimeLeaf

_MICROSECOND: Final = timedelta(microseconds=1)


class MovedTick(NamedTuple):
    """What to store instead: when it is due (UTC), and why."""

    due_at: datetime
    why: str


def review_tick(
    leaf: TimeLeaf, due_at: datetime, *, schedule: ScheduleRef, created_at: datetime, now: datetime
) -> MovedTick | None:
    """The tick to store at `now` instead of the one due at `due_at`; None: that is right, or due already.

    Raises:
        InvalidDefinitionError: the installation's time zone data lacks its zone.
    """
    if due_at <= now:
        return None
    first = next_fire(leaf, now, created_at=created_at)
    if first is None:
        return None
    tick = tick_fired_at(leaf, due_at, created_at=created_at)
    ticks = next_fire(leaf, tick - _MICROSECOND, created_at=created_at) == tick
    known = ticks and fires_at(leaf, tick, schedule, created_at=created_at) == due_at
    if known and tick <= (next_fire(leaf, first, created_at=created_at) or first):
        return None
    why = "it is further ahead than the schedule can want" if known else "zones have other rules"
    return MovedTick(fires_at(leaf, first, schedule, created_at=created_at), why)


def reviewed_wait(due_at: datetime, longest: timedelta, *, now: datetime) -> MovedTick | None:
    """The same of a timer that is never further ahead than `longest`."""
    latest = add_duration(now, longest)
    return MovedTick(latest, "it is further ahead than the schedule can want") if due_at > latest else None
