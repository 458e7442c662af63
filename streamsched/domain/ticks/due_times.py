"""When expectations are due. Times of day follow the clock of their zone by the rules of cron (`ticks.fire_times`)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from types import MappingProxyType
from typing import Final, NamedTuple, assert_never

from streamsched.domain.expectations.expectation import Expectation, Frequency
from streamsched.domain.limits import add_duration
from streamsched.domain.ticks.fire_times import next_fire, previous_fire
from streamsched.domain.time.grain import period_start
from streamsched.domain.time.zone import first_instant, zone_of
from streamsched.domain.triggers.trigger import Cron

#: Of due times that passed while no launcher judged them, those of so long are judged: about the last 100.
LONGEST_BACK: Final[Mapping[Frequency, timedelta]] = MappingProxyType(
    {
        Frequency.HOUR: timedelta(hours=100),
        Frequency.DAY: timedelta(days=100),
        Frequency.WEEK: timedelta(weeks=100),
        Frequency.MONTH: timedelta(days=3000),
    }
)
#: What a change of the clock can move a time of day by.
_CHANGE: Final = timedelta(hours=3)
_MIDNIGHT: Final = time(0)


class DueTime(NamedTuple):
    """When an expectation is due once.

    Attributes:
        at: UTC.
        start: start of its period on the zone's clock (naive).
        opens_at: of a usual time, the instant of `start`: what came before does not count. None: the due time before.
        learning: its usual time is not known yet, so it is due at the end of the period, and cannot be missed.
    """

    at: datetime
    start: datetime
    opens_at: datetime | None = None
    learning: bool = False


def due_time_after(expectation: Expectation, after: datetime, usual: timedelta | None = None) -> DueTime | None:
    """The first due time after an instant (UTC); None when there is none within the calendar of Python.

    `usual`: of an expectation that is due at its usual time, how long after the start of a period that is; None: it is
    not known.
    """
    if expectation.by is not None:
        at = next_fire(_ticks(expectation, expectation.by), after, created_at=after)
        return None if at is None else DueTime(at, _start(at, expectation))
    starts = _ticks(expectation, _MIDNIGHT)
    if usual is None:
        at = next_fire(starts, after, created_at=after)
        begun = None if at is None else previous_fire(starts, at, created_at=after)
        if at is None or begun is None:
            return None
        return DueTime(at, _start(begun, expectation), begun, learning=True)
    return _usual_due_time_after(expectation, starts, after, usual)


def first_due_time(expectation: Expectation, now: datetime, usual: timedelta | None = None) -> DueTime | None:
    """The first due time of an expectation that begins now: that of the next period."""
    current, due = _start(now, expectation), due_time_after(expectation, now, usual)
    while due is not None and due.start <= current:
        due = due_time_after(expectation, due.at, usual)
    return due


def wall_time(at: datetime, zone: str) -> datetime:
    """What the clock of a zone shows at an instant; naive."""
    return at.astimezone(zone_of(zone)).replace(tzinfo=None, fold=0)


def _start(at: datetime, expectation: Expectation) -> datetime:
    """The start (naive) of the period that contains an instant."""
    return period_start(wall_time(at, expectation.zone), expectation.every.grain)


def _usual_due_time_after(expectation: Expectation, starts: Cron, after: datetime, usual: timedelta) -> DueTime | None:
    """Due times have the order of the starts of their periods, so the first one after the instant is found by walking
    on from a start that is early enough.
    """
    early = add_duration(after, -max(usual, timedelta(0)) - _CHANGE)
    begun = previous_fire(starts, early, created_at=after) or next_fire(starts, early, created_at=after)
    while begun is not None:
        start = _start(begun, expectation)
        following = next_fire(starts, begun, created_at=after)
        at = first_instant(start + usual, zone_of(expectation.zone)).astimezone(UTC)
        if following is not None and not expectation.key:
            at = min(at, following)
        if at > after:
            return DueTime(at, start, begun)
        begun = following
    return None


def _ticks(expectation: Expectation, at: time) -> Cron:
    weekdays = ",".join(str((day + 1) % 7) for day in sorted(expectation.weekdays)) or "*"
    match expectation.every:
        case Frequency.HOUR:
            expression = f"{at.minute} * * * *"
        case Frequency.DAY | Frequency.WEEK:
            expression = f"{at.minute} {at.hour} * * {weekdays}"
        case Frequency.MONTH:
            expression = f"{at.minute} {at.hour} {expectation.day} * *"
        case _:
            assert_never(expectation.every)
    return Cron(expression, expectation.zone, calendar=expectation.calendar)
