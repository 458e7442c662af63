"""Recurring tasks: when a task is due again.

Ticks are computed from the planned time of the tick before, never from the time of its delivery, so they do not drift:

    given                        ticks
    recurrence alone             each tick of the rhythm after the registration, never at the registration itself
    … with a due time            the due time, then each tick of the rhythm after it; the due time need not be a tick
    … with `repeats`             the first so many of those; a tick that was given up counts, a missed one does not
    … with `until`               those up to it, the instant itself included

A tick is delivered when it is due or later, never earlier. Ticks that were missed while no process could deliver them
follow the misfire policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.limits import check_count, check_duration, check_instant
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.ticks.fire_times import check_cron, next_fire, previous_fire, tick_sequence
from streamsched.domain.ticks.misfire import ON_TIME
from streamsched.domain.time.interval import Interval
from streamsched.domain.triggers.trigger import Cron, Every

#: The most repeats: PostgreSQL's `integer`.
MOST_REPEATS: Final = 2**31 - 1
#: The shortest interval of Dapr's `@every`; other intervals are from one second on.
SHORTEST_TICK: Final = timedelta(milliseconds=1)
#: Skipped ticks of a cron are counted up to this many in one gap, which bounds the cost after a long downtime.
COUNTED: Final = 100

_TICK: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A rhythm with its end and its policy for missed ticks.

    Attributes:
        rhythm: cron in any dialect, or an interval of real time.
        repeats: number of ticks; None: no limit.
        until: no tick is planned after this instant (UTC); None: no limit.
        misfire: ALL delivers each missed tick, one after another; ONE the newest; SKIP the newest if it is at most a
            minute late.
        window: ticks missed by more than this are skipped under ALL and ONE; None: no limit.

    Raises:
        InvalidDefinitionError: with the path of the field.
    """

    rhythm: Cron | Every
    repeats: int | None = None
    until: datetime | None = None
    misfire: Misfire = Misfire.ALL
    window: timedelta | None = None

    def __post_init__(self) -> None:
        if self.rhythm.jitter:
            raise InvalidDefinitionError("$.rhythm.jitter", "is not available for tasks")
        if isinstance(self.rhythm, Cron):
            check_cron(self.rhythm, shortest=SHORTEST_TICK)
        if self.repeats is not None:
            check_count(self.repeats, "$.repeats", most=MOST_REPEATS)
        if self.until is not None:
            check_instant(self.until, "$.until")
        if self.window is not None:
            check_duration(self.window, "$.window")
            if self.misfire is Misfire.SKIP:
                raise InvalidDefinitionError("$.window", "is set, but missed ticks are skipped")


def first_tick(recurrence: Recurrence, due_at: datetime | None, registered_at: datetime) -> datetime | None:
    """The first tick of a recurring task (UTC); None when it has none."""
    first = due_at or next_fire(recurrence.rhythm, registered_at, created_at=registered_at)
    return _drop_later_tick(recurrence, first)


def next_tick(recurrence: Recurrence, fired: int, last_planned: datetime) -> datetime | None:
    """The tick after the one planned for `last_planned`, when `fired` ticks are done; None when that was the last one.
    Pure: it depends on nothing else, so every process plans the same ticks.
    """
    if recurrence.repeats is not None and fired >= recurrence.repeats:
        return None
    return _drop_later_tick(recurrence, next_fire(recurrence.rhythm, last_planned, created_at=last_planned))


def next_ticks(recurrence: Recurrence, fired: int, planned: datetime, now: datetime, count: int) -> list[datetime]:
    """The next ticks of a task (UTC), at most `count`, when `fired` are done and one is planned for `planned`. Of those
    that are overdue at `now` there are as many as the misfire policy delivers. Pure.
    """
    found: list[datetime] = []
    plan = plan_tick(recurrence, planned, now)
    tick = planned if planned > now else plan.deliver or plan.wait_for
    while tick is not None and len(found) < count:
        found.append(tick)
        tick = next_tick(recurrence, fired + len(found), tick)
        if tick is not None and tick <= now:
            plan = plan_tick(recurrence, tick, now)
            tick = plan.deliver or plan.wait_for
    return found


class TickPlan(NamedTuple):
    """What to do about a due tick.

    Attributes:
        deliver: planned time of the tick to deliver now; None: none.
        wait_for: with nothing to deliver, the next tick; None: there is none, the task is over.
        skipped: how many ticks were skipped; of a cron, and of a calendar, up to `COUNTED`.
    """

    deliver: datetime | None
    wait_for: datetime | None = None
    skipped: int = 0


def plan_tick(recurrence: Recurrence, planned: datetime, now: datetime) -> TickPlan:
    """Decides which tick to deliver when the one planned for `planned` is reached at `now`."""
    if planned > now:
        return TickPlan(None, planned)
    match recurrence.misfire:
        case Misfire.ALL:
            chosen = _first_tick_from(recurrence, planned, _oldest_tick(recurrence.window, now))
        case Misfire.ONE:
            chosen = _drop_older_tick(_newest_tick(recurrence, planned, now), _oldest_tick(recurrence.window, now))
        case Misfire.SKIP:
            chosen = _drop_older_tick(_newest_tick(recurrence, planned, now), now - ON_TIME)
        case _:
            assert_never(recurrence.misfire)
    if chosen is not None and chosen <= now:
        return TickPlan(chosen, skipped=_count(recurrence, planned, chosen))
    return TickPlan(
        None,
        _drop_later_tick(recurrence, _tick_after(recurrence, planned, now)),
        _count(recurrence, planned, now + _TICK),
    )


def _oldest_tick(window: timedelta | None, now: datetime) -> datetime | None:
    return None if window is None else now - max(window, ON_TIME)


def _drop_older_tick(tick: datetime, oldest: datetime | None) -> datetime | None:
    return tick if oldest is None or tick >= oldest else None


def _first_tick_from(recurrence: Recurrence, planned: datetime, oldest: datetime | None) -> datetime | None:
    """The first tick of the task not before `oldest`."""
    if oldest is None or planned >= oldest:
        return planned
    return _drop_later_tick(recurrence, _tick_after(recurrence, planned, oldest - _TICK))


def _newest_tick(recurrence: Recurrence, planned: datetime, now: datetime) -> datetime:
    """The last tick of the task that is due."""
    until = now if recurrence.until is None else min(now, recurrence.until)
    found = previous_fire(recurrence.rhythm, until + _TICK, created_at=planned)
    return planned if found is None else max(planned, found.astimezone(UTC))


def _tick_after(recurrence: Recurrence, planned: datetime, instant: datetime) -> datetime | None:
    """The first tick of the task after `planned` and after an instant."""
    return next_fire(recurrence.rhythm, max(planned, instant), created_at=planned)


def _count(recurrence: Recurrence, planned: datetime, before: datetime) -> int:
    """The number of ticks of the task from `planned` (included) before an instant."""
    if before <= planned:
        return 0
    if recurrence.until is not None:
        before = min(before, recurrence.until + _TICK)
    ticks = tick_sequence(recurrence.rhythm, planned)
    if isinstance(ticks, Interval) and ticks.calendar is None:
        return 1 + ticks.count(planned, before)
    count, tick = 0, planned
    while tick is not None and tick < before and count < COUNTED:
        count, tick = count + 1, next_fire(recurrence.rhythm, tick, created_at=planned)
    return count


def _drop_later_tick(recurrence: Recurrence, tick: datetime | None) -> datetime | None:
    if tick is None or (recurrence.until is not None and tick > recurrence.until):
        return None
    return tick.astimezone(UTC)
