"""When a `SinceLastRun` ticks: decided from the jobs and runs of its schedule, when its timer is due. Pure.

The timer is not moved when a run starts or ends. It only decides when to look: never later than the tick can be due.
While a job waits or a run is active, the last end is still to come, so the tick is due at the earliest one duration
from now; after an end within the last duration it is due one duration after that end.

A tick that starts nothing (a part of the trigger is missing, or was lost to a `within`) comes again after each further
duration; while the leaf holds, it changes nothing.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.domain.limits import add_duration


class RunActivity(NamedTuple):
    """What is known of a schedule's jobs and their runs.

    Attributes:
        active: a job waits, or a run has not ended.
        ended_at: the latest end of a run, or of a job without one (UTC), if it is within the duration of the leaf.
        latest: generation and sequence of the latest job of the trigger; (0, 0) without one.
    """

    active: bool = False
    ended_at: datetime | None = None
    latest: tuple[int, int] = (0, 0)


#: Nothing has run, waits or runs.
NO_RUN: Final = RunActivity()


class SinceTick(NamedTuple):
    """The decision about a due timer.

    Attributes:
        tick: the time of the tick to send (UTC); None: it is not due.
        next_at: when to decide again.
    """

    tick: datetime | None
    next_at: datetime


def due_tick(duration: timedelta, due_at: datetime, last_run: RunActivity, now: datetime) -> SinceTick:
    """Decides at `now` about a timer due at `due_at` (UTC), not after `now`."""
    if last_run.active:
        return SinceTick(None, add_duration(now, duration))
    if last_run.ended_at is not None and (ready_at := add_duration(last_run.ended_at, duration)) > now:
        return SinceTick(None, ready_at)
    return SinceTick(due_at, add_duration(now, duration))


def next_tick(duration: timedelta, due_at: datetime, last_run: RunActivity) -> datetime | None:
    """When the next tick is due as things are; None while a job waits or a run is active."""
    if last_run.active:
        return None
    return due_at if last_run.ended_at is None else max(due_at, add_duration(last_run.ended_at, duration))
