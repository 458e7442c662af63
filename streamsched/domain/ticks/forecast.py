"""Forecasts of a time leaf: its next ticks, with notes on DST changes and calendars, and the days left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from streamsched.domain.names import ScheduleRef
from streamsched.domain.ticks.fire_times import next_fire, tick_sequence
from streamsched.domain.ticks.jitter import fires_at
from streamsched.domain.time.calendar import Calendar, OnClosed, OpenDays
from streamsched.domain.time.cron_fields import Days, wall_from
from streamsched.domain.time.cron_walk import Walk
from streamsched.domain.time.interval import Interval
from streamsched.domain.time.zone import change_at, changes, first_instant
from streamsched.domain.triggers.time_leaf import TimeLeaf

#: Most omitted days in a forecast, and most moved days noted on one tick.
MOST_OMITTED: Final = 100
MOST_MOVED: Final = 10

_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
#: Range of omitted days when there are no more ticks.
_YEAR: Final = timedelta(days=366)


class TickNote(StrEnum):
    """`GAP`: the time is in a DST gap. `OVERLAP`: it occurs twice. `CLOSED`: a calendar closes the day. `MOVED`: the
    tick was moved from a closed day.
    """

    GAP = "gap"
    OVERLAP = "overlap"
    CLOSED = "closed"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on a tick or an omitted day."""

    kind: TickNote
    text: str


@dataclass(frozen=True, slots=True)
class ForecastTick:
    """A future tick.

    Attributes:
        due_at: its time (UTC), the logical start time of the job.
        local: the same instant in the leaf's zone.
        fires_at: `due_at` plus the schedule's jitter.
    """

    due_at: datetime
    local: datetime
    fires_at: datetime
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Omission:
    """A day on which the leaf would tick, except for the reason in the note."""

    day: date
    note: Note


@dataclass(frozen=True, slots=True)
class Forecast:
    """Ticks in ascending order, and the omitted days before the last of them."""

    zone: str
    ticks: tuple[ForecastTick, ...]
    omitted: tuple[Omission, ...]


def forecast(
    leaf: TimeLeaf, after: datetime, count: int, *, created_at: datetime, schedule: ScheduleRef | None = None
) -> Forecast:
    """The next `count` ticks strictly after an instant, or fewer if there are not as many. Pure. Without a schedule no
    jitter is applied.

    Raises:
        InvalidDefinitionError: an unchecked cron expression or zone is invalid.
    """
    dues = list(islice(_dues(leaf, after, created_at), count))
    until = dues[-1] if dues else after + _YEAR
    match tick_sequence(leaf, created_at):
        case Walk() as walk:
            zone = walk.zone
            notes = [_notes(walk, due) for due in dues]
            omitted = _omitted_by_walk(walk, after, until)
        case Interval() as interval:
            zone = interval.zone
            notes = [()] * len(dues)
            omitted = _omitted_by_interval(interval, after, until)
        case datetime():
            zone, notes, omitted = ZoneInfo("UTC"), [()] * len(dues), ()
    ticks = tuple(
        ForecastTick(
            due,
            due.astimezone(zone),
            fires_at(leaf, due, schedule, created_at=created_at) if schedule else due,
            note,
        )
        for due, note in zip(dues, notes, strict=True)
    )
    return Forecast(str(zone), ticks, tuple(islice(omitted, MOST_OMITTED)))


def _dues(leaf: TimeLeaf, after: datetime, created_at: datetime) -> Iterator[datetime]:
    due = next_fire(leaf, after, created_at=created_at)
    while due is not None:
        yield due
        due = next_fire(leaf, due, created_at=created_at)


def _notes(walk: Walk, due: datetime) -> tuple[Note, ...]:
    local = due.astimezone(walk.zone)
    wall, notes = local.replace(tzinfo=None, fold=0), list[Note]()
    jump = next(iter(changes(walk.zone, due - _SECOND, due)), None)
    if jump is not None and jump.is_forward and walk.passes.gap:
        skipped = wall_from(walk.times, walk.days, jump.old)
        if skipped is not None and skipped < jump.new:
            notes.append(Note(TickNote.GAP, _skip_text(skipped, jump.old, jump.new)))
            wall = skipped
    change = change_at(wall, walk.zone)
    if change is not None and not change.is_forward:
        alone = walk.passes.first != walk.passes.second
        text = f"{_clock(wall)} comes twice that day, this is the {'second' if local.fold else 'first'} time"
        notes.append(Note(TickNote.OVERLAP, f"{text}; the other does not tick" if alone else text))
    if isinstance(walk.days, OpenDays):
        notes += [
            Note(TickNote.MOVED, f"stands for {day}, which is closed: {why}")
            for day, why in islice(_days_moved_onto(walk.days, wall.date()), MOST_MOVED)
        ]
    return tuple(notes)


def _days_moved_onto(days: OpenDays, day: date) -> Iterator[tuple[date, str]]:
    """The closed days whose ticks are moved to this open day, within a year."""
    step = {OnClosed.SKIP: 0, OnClosed.NEXT: -1, OnClosed.PREVIOUS: 1}[days.on_closed]
    for distance in range(1, 366 if step else 0):
        closed = day + step * distance * _DAY
        why = days.calendar.closed_by(closed)
        if why is None:
            return
        if days.days.day_from(closed) == closed:
            yield closed, why


def _omitted_by_walk(walk: Walk, after: datetime, until: datetime) -> Iterator[Omission]:
    begin, end = _wall(after, walk.zone) + _SECOND, _wall(until, walk.zone)
    skips = not walk.passes.gap and not walk.times.is_hourly
    if isinstance(walk.days, OpenDays) and walk.days.on_closed is OnClosed.SKIP:
        matched, calendar = walk.days.days, walk.days.calendar
    else:
        matched, calendar = walk.days, None
    if calendar is None and not skips:
        return
    for day in _days_between(matched, begin.date(), end.date()):
        if calendar is not None and (why := calendar.closed_by(day)) is not None:
            if day > begin.date() or walk.times.time_from(begin.time()) is not None:
                yield _closing_note(calendar, day, why)
        elif skips:
            yield from _skipped_ticks(walk, day)


def _skipped_ticks(walk: Walk, day: date) -> Iterator[Omission]:
    begin = first_instant(datetime.combine(day, time.min), walk.zone)
    end = first_instant(datetime.combine(day + _DAY, time.min), walk.zone)
    for change in changes(walk.zone, begin - _SECOND, end) if _differ(walk.zone, begin - _SECOND, end) else ():
        skipped = wall_from(walk.times, walk.days, change.old) if change.is_forward else None
        if skipped is not None and skipped < change.new and skipped.date() == day:
            yield Omission(day, Note(TickNote.GAP, _skip_text(skipped, change.old, change.new)))


def _omitted_by_interval(interval: Interval, after: datetime, until: datetime) -> Iterator[Omission]:
    calendar, plain = interval.calendar, Interval(interval.first, interval.interval, None, interval.zone)
    if calendar is None:
        return
    day, last = _wall(after, interval.zone).date(), _wall(until, interval.zone).date()
    while day <= last:
        why = calendar.closed_by(day)
        if why is not None:
            tick = plain.tick_after(max(after, first_instant(datetime.combine(day, time.min), interval.zone) - _SECOND))
            if tick is not None and _wall(tick, interval.zone).date() == day:
                yield _closing_note(calendar, day, why)
        day += _DAY


def _days_between(days: Days, first: date, last: date) -> Iterator[date]:
    day = days.day_from(first)
    while day is not None and day <= last:
        yield day
        day = days.day_from(day + _DAY)


def _differ(zone: ZoneInfo, *instants: datetime) -> bool:
    return len({instant.astimezone(zone).utcoffset() for instant in instants}) > 1


def _closing_note(calendar: Calendar, day: date, why: str) -> Omission:
    return Omission(day, Note(TickNote.CLOSED, f"{calendar} closes it: {why}"))


def _skip_text(wall: datetime, old: datetime, new: datetime) -> str:
    return f"{_clock(wall)} does not come that day, the clock is put forward from {_clock(old)} to {_clock(new, old)}"


def _wall(instant: datetime, zone: ZoneInfo) -> datetime:
    return instant.astimezone(zone).replace(tzinfo=None, microsecond=0, fold=0)


def _clock(wall: datetime, since: datetime | None = None) -> str:
    text = wall.time().isoformat("seconds" if wall.second else "minutes")
    return f"{text} of {wall.date()}" if since is not None and wall.date() != since.date() else text
