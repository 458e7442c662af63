"""When time leaves tick: cron expressions in an IANA zone, intervals of real time, single instants.

Defaults at DST changes, where the leaf does not set `in_gap` and `in_overlap`:

    expression                              clock put forward (gap)         clock put back (overlap)
    hours are named (`30 2 * * *`)          a skipped time ticks at the     the first of the two
                                            first instant after, once
    … and minute starts with `*`            the same                        both
      (`*/15 1-4 * * *`)
    … in Dapr's dialect                     nothing                         both
    every hour matches (`30 * * * *`)       nothing: a gap takes no time    both, always
    `every`                                 real time throughout            real time throughout
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final, assert_never

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.calendar import OnClosed, OpenDays
from streamsched.domain.time.cron_dapr import parse_dapr, split_zone
from streamsched.domain.time.cron_fields import CronFields, Days
from streamsched.domain.time.cron_quartz import parse_quartz
from streamsched.domain.time.cron_unix import parse_unix
from streamsched.domain.time.cron_walk import DstPolicy, Walk, usual_passes
from streamsched.domain.time.dialect import Dialect, InGap, InOverlap
from streamsched.domain.time.interval import Interval
from streamsched.domain.time.zone import check_zone, zone_of
from streamsched.domain.triggers.trigger import At, Cron, Every, TimeLeaf

__all__ = ["Rhythm", "check_cron", "check_zone", "next_fire", "parse_cron", "previous_fire", "tick_sequence"]


#: Maximum characters of an expression; enough to list every value of every field.
LONGEST: Final = 1000
#: The shortest interval of a schedule's `@every`.
SHORTEST: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A parsed expression of any dialect.

    Attributes:
        ticks: the wall-clock times it matches, or (`@every` in Dapr's dialect) an interval of real time.
        zone: the zone named in the expression, if any.
    """

    ticks: CronFields | timedelta
    zone: str | None = None


@lru_cache(maxsize=4096)
def parse_cron(expression: str, dialect: Dialect = Dialect.UNIX) -> Rhythm:
    """Parses an expression. The path of an error is `$`; callers replace it.

    Raises:
        InvalidDefinitionError: a field is wrong (the reason names it), or the expression can never match.
    """
    if len(expression) > LONGEST:
        raise InvalidDefinitionError("$", f"is longer than {LONGEST} characters")
    match dialect:
        case Dialect.UNIX:
            rhythm = Rhythm(parse_unix(expression))
        case Dialect.QUARTZ:
            rhythm = Rhythm(parse_quartz(expression))
        case Dialect.DAPR:
            rhythm = Rhythm(parse_dapr(expression), split_zone(expression)[0])
        case _:
            assert_never(dialect)
    if isinstance(rhythm.ticks, CronFields) and rhythm.ticks.days.day_from(date(1970, 1, 1)) is None:
        raise InvalidDefinitionError("$", f"'{expression}' never matches: no such month has that day")
    return rhythm


def check_cron(leaf: Cron, *, shortest: timedelta = SHORTEST) -> None:
    """Checks that the expression is valid and can match, that its zone exists, and that the interval of `@every` is at
    least `shortest`.

    Raises:
        InvalidDefinitionError: a field of `$.expression` is wrong, it never matches, or `$.zone` is unknown.
    """
    check_zone(leaf.zone, "$.zone")
    try:
        rhythm = parse_cron(leaf.expression, leaf.dialect)
    except InvalidDefinitionError as exc:
        raise InvalidDefinitionError("$.expression", exc.reason) from exc
    if isinstance(rhythm.ticks, timedelta) and rhythm.ticks < shortest:
        raise InvalidDefinitionError("$.expression", f"'{leaf.expression}' must be at least one second")
    if rhythm.zone is not None:
        _check_location(rhythm.zone)
        if leaf.zone not in ("UTC", rhythm.zone):
            raise InvalidDefinitionError("$.zone", f"is {leaf.zone}, but the expression says {rhythm.zone}")
    _check_calendar(leaf, rhythm)


def _check_location(zone: str) -> None:
    """Checks a zone that the expression names; its error has the words of Dapr's."""
    try:
        check_zone(zone, "$.expression")
    except InvalidDefinitionError as exc:
        hint = "".join(exc.reason.partition("; ")[1:])
        raise InvalidDefinitionError(
            "$.expression", f"provided bad location {zone}: unknown time zone {zone}{hint}"
        ) from exc


def _check_calendar(leaf: Cron, rhythm: Rhythm) -> None:
    if leaf.calendar is None:
        return
    if isinstance(rhythm.ticks, timedelta):
        if leaf.on_closed is not OnClosed.SKIP:
            raise InvalidDefinitionError("$.on_closed", "must be skip: an interval has no time of day to move")
    elif _days(leaf, rhythm.ticks).day_from(date(1970, 1, 1)) is None:
        raise InvalidDefinitionError("$.calendar", f"closes every day on which '{leaf.expression}' matches")


def next_fire(leaf: TimeLeaf, after: datetime, *, created_at: datetime) -> datetime | None:
    """The first tick (UTC) strictly after `after`, or None when there is none.

    An interval without a start first ticks one interval after `created_at`; one with a start ticks at the start.

    Raises:
        InvalidDefinitionError: an unchecked cron expression or zone is invalid.
    """
    match tick_sequence(leaf, created_at):
        case Walk() as walk:
            return walk.tick_after(after)
        case Interval() as interval:
            return interval.tick_after(after)
        case datetime() as instant:
            return instant if instant > after else None


def previous_fire(leaf: TimeLeaf, before: datetime, *, created_at: datetime) -> datetime | None:
    """The last tick (UTC) strictly before `before`, or None when there is none. The mirror of `next_fire`.

    Cron has no first tick; an interval has.

    Raises:
        InvalidDefinitionError: as `next_fire`.
    """
    match tick_sequence(leaf, created_at):
        case Walk() as walk:
            return walk.tick_before(before)
        case Interval() as interval:
            return interval.tick_before(before)
        case datetime() as instant:
            return instant if instant < before else None


def tick_sequence(leaf: TimeLeaf, created_at: datetime) -> Walk | Interval | datetime:
    """The tick sequence of a leaf: wall-clock times, an interval of real time, or one instant (UTC).

    Raises:
        InvalidDefinitionError: an unchecked cron expression or zone is invalid.
    """
    match leaf:
        case Cron():
            rhythm = parse_cron(leaf.expression, leaf.dialect)
            zone = zone_of(rhythm.zone or leaf.zone)
            if isinstance(rhythm.ticks, timedelta):
                return Interval(created_at + rhythm.ticks, rhythm.ticks, leaf.calendar, zone)
            return Walk(rhythm.ticks.times, _days(leaf, rhythm.ticks), zone, _passes(leaf, rhythm.ticks))
        case Every(interval=interval, start=start):
            return Interval(start or created_at + interval, interval, leaf.calendar, zone_of(leaf.zone))
        case At(instant=instant):
            return instant.astimezone(UTC)
        case _:
            assert_never(leaf)


def _days(leaf: Cron, fields: CronFields) -> Days:
    return fields.days if leaf.calendar is None else OpenDays(fields.days, leaf.calendar, leaf.on_closed)


def _passes(leaf: Cron, fields: CronFields) -> DstPolicy:
    usual = usual_passes(fields)
    if fields.times.is_hourly:
        return usual
    dapr = leaf.dialect is Dialect.DAPR
    in_gap = leaf.in_gap or (InGap.SKIP if dapr else None)
    in_overlap = leaf.in_overlap or (InOverlap.BOTH if dapr else None)
    return DstPolicy(
        gap=usual.gap if in_gap is None else in_gap is InGap.AFTER,
        first=usual.first if in_overlap is None else in_overlap is not InOverlap.SECOND,
        second=usual.second if in_overlap is None else in_overlap is not InOverlap.FIRST,
    )
