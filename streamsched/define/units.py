"""Parsing of durations, sizes, instants, times of day and choices. `path` is the path of the value in errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.time.duration import parse_duration

_E = TypeVar("_E", bound=StrEnum)
_T = TypeVar("_T")

Duration = timedelta | str
Size = int | str
Instant = datetime | str

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_WALL = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


def duration(value: Duration, path: str) -> timedelta:
    """Parses a duration such as `"2h30m"`; a timedelta is returned unchanged.

    Raises:
        InvalidDefinitionError: the value is not a duration.
    """
    match value:
        case timedelta():
            return value
        case str():
            return parse_duration(value, path)
        case _:
            raise InvalidDefinitionError(path, f"must be a timedelta or a text such as '15m' but is {value!r}")


def size(value: Size, path: str) -> int:
    """A number of bytes: an integer, or a string such as `"64MB"` (1000²) or `"64MiB"` (1024²).

    >>> size("64MiB", "$"), size("1.5 kB", "$"), size(7, "$")
    (67108864, 1500, 7)

    Raises:
        InvalidDefinitionError: the value is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    matched = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if matched is None:
        raise InvalidDefinitionError(path, f"must be a number of bytes or a text such as '64MB' but is {value!r}")
    try:
        return int(float(matched[1]) * (1024 if matched[3] else 1000) ** _POWERS[matched[2].lower()])
    except OverflowError as exc:
        raise InvalidDefinitionError(path, "is too large") from exc


def instant(value: Instant, path: str) -> datetime:
    """An aware datetime or an ISO 8601 string with an offset, converted to UTC.

    Raises:
        InvalidDefinitionError: the value is not an instant, or has no offset.
    """
    try:
        parsed = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (TypeError, ValueError) as exc:
        raise InvalidDefinitionError(path, f"must be an instant such as '2013-01-08T04:00Z' but is {value!r}") from exc
    if parsed.tzinfo is None:
        raise InvalidDefinitionError(path, f"must name its offset from UTC, as in '{parsed.isoformat()}Z'")
    return parsed.astimezone(UTC)


def time_of_day(value: time | str, path: str) -> time:
    """Parses a time of day such as `"22:00"`; a time is returned unchanged.

    Raises:
        InvalidDefinitionError: the value is not a time of day.
    """
    if isinstance(value, time):
        return value
    matched = _WALL.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise InvalidDefinitionError(path, f"must be a time of day such as '22:00' but is {value!r}")
    return time(int(matched[1]), int(matched[2]))


def check_integer(value: int, path: str) -> int:
    """Checks that the value is an integer and returns it.

    Raises:
        InvalidDefinitionError: the value is not an integer.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidDefinitionError(path, f"must be a whole number but is {value!r}")
    return value


def check_kind(value: _T, kind: Any, path: str, example: str) -> _T:
    """Checks that the value is of a class, or one of a union, and returns it. `example`: what it must be.

    Raises:
        InvalidDefinitionError: it is of another.
    """
    if not isinstance(value, kind):
        raise InvalidDefinitionError(path, f"must be {example} but is {value!r}")
    return value


def check_members(values: Iterable[_T], kind: Any, path: str, example: str) -> tuple[_T, ...]:
    """As `check_kind`, of each value of a list; returns them.

    Raises:
        InvalidDefinitionError: it is no list, or has a value of another class.
    """
    found = check_kind(values, Iterable, path, f"a list such as [{example}]")
    return tuple(check_kind(each, kind, f"{path}[{index}]", example) for index, each in enumerate(found))


def choice(options: type[_E], given: _E | str, path: str) -> _E:
    """The member of `options` that equals `given` or has it as its value.

    Raises:
        InvalidDefinitionError: there is none.
    """
    for option in options:
        if given == option.value:
            return option
    raise InvalidDefinitionError(path, f"must be one of {', '.join(options)} but is {given!r}")


def texts(given: Mapping[str, str] | None, path: str) -> dict[str, str]:
    """A copy of a mapping from strings to strings; empty for None.

    Raises:
        InvalidDefinitionError: a name or value is not a string.
    """
    for name, value in (given or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InvalidDefinitionError(f"{path}.{name}", f"must be a text but is {value!r}")
    return dict(given or {})
