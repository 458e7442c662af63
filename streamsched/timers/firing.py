"""The ticks that a due timer sends to its schedule's home, by the schedule's misfire policy. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, assert_never

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.events.event import Event, Ticked, schedule_key
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.ticks.fire_times import tick_sequence
from streamsched.domain.ticks.jitter import fires_at, last_fired_instant, tick_fired_at
from streamsched.domain.ticks.misfire import ON_TIME, CaughtUp, Ticks, due_ticks
from streamsched.domain.ticks.review import MovedTick, review_tick, reviewed_wait
from streamsched.domain.ticks.since_last_run import due_tick
from streamsched.domain.time.interval import Interval
from streamsched.domain.triggers.time_leaf import SinceLastRun, TimeLeaf, jitter_of
from streamsched.log.topics import SIGNALS
from streamsched.ports.outbox import OutboxRecord
from streamsched.ports.timers import DueTimer, Firing

SOURCE: Final = "streamsched/timers"


class Firings:
    """Decides for all timers due at one instant. Timers with the same leaf, policy and due time (such as all at
    midnight) are planned once.
    """

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._known: dict[Any, Ticks] = {}
        self._intervals: dict[int, tuple[TimeLeaf, bool]] = {}

    def __call__(self, timer: DueTimer) -> Firing:
        """A tick has the same event id whenever and by whichever instance it is fired."""
        leaf = timer.leaf
        if leaf is None:
            return Firing((), None)
        if isinstance(leaf, SinceLastRun):
            tick, next_at = due_tick(leaf.duration, timer.due_at, timer.last_run, self._now)
            return Firing([] if tick is None else [_tick(timer, tick, timer.last_run.latest)], next_at)
        if jitter_of(leaf):
            ticks = _plan(timer, leaf, self._now)
        else:
            counted_from = timer.created_at if self._is_interval(leaf, timer.created_at) else None
            key = leaf, timer.due_at, timer.tick_at, timer.misfire, timer.catch_up, counted_from
            known = self._known.get(key)
            ticks = known or self._known.setdefault(key, _plan(timer, leaf, self._now))
        missed = self._now - timer.due_at > ON_TIME
        records = _ticks(timer, ticks.fire, timer.caught_up if missed else CaughtUp.EACH)
        joined = len(ticks.fire) - len(records)
        if ticks.tick is None or ticks.next_at != ticks.tick:  # no next tick, or it is delayed by the catch-up
            return Firing(records, ticks.next_at, ticks.tick, ticks.skipped, joined)
        next_at = fires_at(leaf, ticks.tick, timer.schedule, created_at=timer.created_at)
        return Firing(records, next_at, skipped=ticks.skipped, joined=joined)

    def _is_interval(self, leaf: TimeLeaf, created_at: datetime) -> bool:
        """Cached by identity: the store returns the same leaf object for equal definitions."""
        known = self._intervals.get(id(leaf))  # the entry keeps the leaf alive, so its id is not reused
        if known is None:
            known = leaf, isinstance(tick_sequence(leaf, created_at), Interval)
            self._intervals[id(leaf)] = known
        return known[1]


def firing(timer: DueTimer, now: datetime) -> Firing:
    """Decides about one timer at `now`."""
    return Firings(now)(timer)


def review(timer: DueTimer, now: datetime) -> MovedTick | None:
    """The tick to store at `now` instead of the timer's; None: its is right."""
    leaf = timer.leaf
    if leaf is None:
        return None
    if isinstance(leaf, SinceLastRun):
        return reviewed_wait(timer.due_at, leaf.duration, now=now)
    if timer.tick_at is not None:
        return reviewed_wait(timer.due_at, timer.catch_up.spacing, now=now)
    return review_tick(leaf, timer.due_at, schedule=timer.schedule, created_at=timer.created_at, now=now)


def _plan(timer: DueTimer, leaf: TimeLeaf, now: datetime) -> Ticks:
    created_at = timer.created_at
    return due_ticks(
        leaf,
        timer.tick_at or tick_fired_at(leaf, timer.due_at, created_at=created_at),
        now,
        timer.misfire,
        timer.catch_up,
        created_at=created_at,
        until=last_fired_instant(leaf, now, timer.schedule, created_at=created_at),
        due_at=timer.due_at if timer.tick_at else None,
    )


def _ticks(timer: DueTimer, due: Sequence[datetime], jobs: CaughtUp) -> list[OutboxRecord]:
    """The records of ticks that are fired together, ascending."""
    match jobs:
        case CaughtUp.EACH:
            return [_tick(timer, each) for each in due]
        case CaughtUp.TOGETHER:
            return [_tick(timer, due[-1], missed=due[:-1])] if due else []
        case CaughtUp.NEWEST:
            return [_tick(timer, each) for each in due[-1:]]
        case _:
            assert_never(jobs)


def _tick(
    timer: DueTimer, due: datetime, after: tuple[int, int] | None = None, missed: Sequence[datetime] = ()
) -> OutboxRecord:
    name = f"tick:{timer.schedule}:{timer.generation}:{timer.leaf_id}:{due.isoformat()}"
    fact = Ticked(timer.schedule, timer.generation, timer.leaf_id, due, after, tuple(missed))
    _, value = signal_codec.encode(Occurred(Event(name, SOURCE, due, fact)))
    return OutboxRecord(SIGNALS, schedule_key(timer.schedule, timer.affinity), value)
