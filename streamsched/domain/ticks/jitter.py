"""Jitter: a tick fires a little after its time, so that not everything starts at once. The delay is a hash of schedule
and tick, not a random number, so it is the same after a restart, on every instance and in a preview.

A tick always fires before the next one is due. So ticks keep their order, and the tick that fires at an instant is the
last one due by then. The due time in the event is the tick's own time, not the time it fired.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from streamsched.domain.names import ScheduleRef
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.triggers.time_leaf import TimeLeaf, jitter_of

_MICROSECOND: Final = timedelta(microseconds=1)


def fires_at(leaf: TimeLeaf, due_at: datetime, schedule: ScheduleRef, *, created_at: datetime) -> datetime:
    """When the tick due at `due_at` fires (UTC): not earlier, within the leaf's jitter, and before the next is due."""
    jitter = jitter_of(leaf)
    if not jitter:
        return due_at
    following = next_fire(leaf, due_at, created_at=created_at)
    room = jitter if following is None else min(jitter, following - due_at)
    return due_at + timedelta(microseconds=_hash(schedule, due_at) * (room // _MICROSECOND) >> 64)


def tick_fired_at(leaf: TimeLeaf, instant: datetime, *, created_at: datetime) -> datetime:
    """The due time (UTC) of the tick that fires at `instant`; the inverse of `fires_at`."""
    if not jitter_of(leaf):
        return instant
    return previous_fire(leaf, instant + _MICROSECOND, created_at=created_at) or instant


def last_fired_instant(leaf: TimeLeaf, now: datetime, schedule: ScheduleRef, *, created_at: datetime) -> datetime:
    """The latest instant such that all ticks due up to it have fired by `now`: `now`, or just before a delayed tick."""
    if not jitter_of(leaf):
        return now
    last = previous_fire(leaf, now + _MICROSECOND, created_at=created_at)
    if last is None or fires_at(leaf, last, schedule, created_at=created_at) <= now:
        return now
    return last - _MICROSECOND


def _hash(schedule: ScheduleRef, due_at: datetime) -> int:
    """A number in [0, 2**64)."""
    text = f"{schedule}@{due_at.isoformat()}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
