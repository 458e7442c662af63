"""Points in time and periods of Dapr's jobs: RFC 3339, Go durations, ISO 8601 durations.

A point in time is tried as RFC 3339 (`2026-03-01T06:00:00Z`), then as a Go duration (`1h30m`, `-5s`), then as an ISO
8601 duration (`P1DT2H`); durations count from a base. Years and months are added as Go does: what exceeds the month
rolls over into the next, so 31 January + `P1M` is 3 March. In an ISO duration parts may stand in any order; weeks, days
and times add up, of years and months the last one counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final, NoReturn

from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.limits import abridge, check_instant
from streamsched.domain.time.duration import parse_go_duration

#: The longest text of a point in time or a period.
LONGEST: Final = 100
_RFC3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_ISO: Final = re.compile(r"P((?:\d+[YMWD])*)(?:T((?:\d+[HMS])+))?", re.ASCII)
_ISO_SIGNED: Final = re.compile(r"P((?:-?\d+[YMWD])*)(?:T((?:-?\d+[HMS])+))?", re.ASCII)
_PART: Final = re.compile(r"(-?\d+)([YMWDHMS])")
_REPEATED: Final = re.compile(r"R(-?\d+)(?:/(.*))?", re.ASCII | re.DOTALL)
_MICROSECOND: Final = timedelta(microseconds=1)
_UNITS: Final = {"H": timedelta(hours=1), "M": timedelta(minutes=1), "S": timedelta(seconds=1)}
#: The most digits of a number in an ISO 8601 duration.
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class IsoDuration:
    """An ISO 8601 duration. Years and months are of the calendar, a day has 24 hours."""

    years: int = 0
    months: int = 0
    days: int = 0
    time: timedelta = timedelta(0)

    def add_to(self, base: datetime) -> datetime:
        """The instant (UTC) this long after another.

        Raises:
            OverflowError, ValueError: there is no such date.
        """
        base = base.astimezone(UTC)
        months = (base.year + self.years) * 12 + base.month - 1 + self.months
        first = date(months // 12, months % 12 + 1, 1)
        day = first + timedelta(days=base.day - 1 + self.days)
        return datetime.combine(day, base.time(), UTC) + self.time


def point_in_time(text: str, base: datetime, path: str, *, strict: bool = False) -> datetime:
    """A due time or an expiry (UTC), not before the text says: fractions of a microsecond are rounded up.

    Raises:
        InvalidDefinitionError: it is none, or beyond the years that can be stored.
    """
    try:
        found = _parse_absolute(text) or base + _parse_relative(text, base, path, strict)
        check_instant(found, path)
    except (ValueError, OverflowError):
        _fail_unsupported(text, path)
    return found


def is_absolute(text: str) -> bool:
    """Whether a valid point in time does not count from a base."""
    return _RFC3339.fullmatch(text) is not None


def period(text: str, path: str) -> tuple[timedelta | None, int | None]:
    """A reminder's period: a Go or ISO 8601 duration with optional repeats, as in `R4/PT3S`; or repeats
    alone, `R4` or `R4/`.

    >>> period("R4/PT3S", "$")
    (datetime.timedelta(seconds=3), 4)

    Raises:
        InvalidDefinitionError: it is none; or has days, weeks, months or years; or repeats less than once.
    """
    repeats = None
    repeated = _REPEATED.fullmatch(text[: LONGEST + 1])
    if repeated:
        if len(repeated[1]) > _DIGITS or (repeats := int(repeated[1])) < 1:
            raise InvalidDefinitionError(path, "repetitions must be greater than 0")
        if not repeated[2]:
            return None, repeats
        text = repeated[2]
    try:
        return parse_go_duration(text, path), repeats
    except InvalidError:
        duration = _iso(text, strict=False)
    if duration is None:
        _fail_unsupported(text, path)
    if duration.years or duration.months or duration.days:
        raise InvalidDefinitionError(path, f"unsupported period format: {abridge(text)} has more than hours")
    return duration.time, repeats


def go_duration_text(duration: timedelta) -> str:
    """A positive duration in Go's form.

    >>> go_duration_text(timedelta(days=1, milliseconds=1500))
    '24h1500ms'
    """
    hours, rest = divmod(duration, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    if not rest.microseconds:
        units = (hours, "h"), (minutes, "m"), (rest.seconds, "s")
    else:
        milliseconds, micro = divmod(rest, timedelta(milliseconds=1))
        units = (hours, "h"), (minutes, "m"), (milliseconds, "ms"), (micro // _MICROSECOND, "us")
    return "".join(f"{number}{unit}" for number, unit in units if number) or "0s"


def _parse_absolute(text: str) -> datetime | None:
    matched = _RFC3339.fullmatch(text[: LONGEST + 1])
    if matched is None:
        return None
    whole, fraction, zone = matched.groups()
    nanoseconds = int(((fraction or "") + "0" * 9)[:9])
    found = datetime.fromisoformat(f"{whole}{'+00:00' if zone == 'Z' else zone}")
    return found.astimezone(UTC) + -(-nanoseconds // 1000) * _MICROSECOND


def _parse_relative(text: str, base: datetime, path: str, strict: bool) -> timedelta:
    try:
        return parse_go_duration(text, path)
    except InvalidError:
        pass
    repeated = _REPEATED.fullmatch(text[: LONGEST + 1])
    if repeated:
        if not repeated[2] or not strict or len(repeated[1]) > _DIGITS or int(repeated[1]) > 0:
            raise InvalidDefinitionError(path, f"repetitions are not allowed: {abridge(text)}")
        text = repeated[2]
    duration = _iso(text, strict)
    if duration is None:
        _fail_unsupported(text, path)
    return duration.add_to(base) - base


def _iso(text: str, strict: bool) -> IsoDuration | None:
    """Numbers may have a sign with `strict` only."""
    matched = (_ISO_SIGNED if strict else _ISO).fullmatch(text[: LONGEST + 1])
    if matched is None or not (matched[1] or matched[2]):
        return None
    years = months = days = 0
    time = timedelta(0)
    for number, unit in _PART.findall(matched[1]):
        if len(number) > _DIGITS:
            return None
        match unit:
            case "Y":
                years = int(number)
            case "M":
                months = int(number)
            case "W":
                days += 7 * int(number)
            case _:
                days += int(number)
    for number, unit in _PART.findall(matched[2] or ""):
        if len(number) > _DIGITS:
            return None
        try:
            time += int(number) * _UNITS[unit]
        except OverflowError:
            return None
    return IsoDuration(years, months, days, time)


def _fail_unsupported(text: str, path: str) -> NoReturn:
    raise InvalidDefinitionError(path, f"unsupported time/duration format: {abridge(text)}")
