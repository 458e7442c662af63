"""Limits of numbers, durations and instants in definitions, and date arithmetic that stays inside them.

Arithmetic is by `later` and `longer`, which do not overflow.

Every value type checks its own fields with the functions of this module, so the builder, YAML, native JSON, CDAP's JSON
and rows of PostgreSQL are checked by the same code. Each maximum fits where the value is stored (`integer`, `bigint`,
`timestamptz`), and `now` plus the longest duration is a date that every time zone can show.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from reprlib import Repr
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: The longest duration: 1000 years of 365.25 days.
LONGEST: Final = timedelta(days=365_250)
#: The largest count of events, partitions, rows or bytes: PostgreSQL's `bigint`, Java's `long`.
MOST: Final = 2**63 - 1
#: The largest number of slots or concurrent runs: PostgreSQL's `integer`.
MOST_SLOTS: Final = 2**31 - 1
#: The most constraints, or deadlines, of one schedule.
MOST_PARTS: Final = 1000
#: The longest name of a group, pool, cluster or plug-in, in characters: an index entry holds 2704 bytes.
LONGEST_NAME: Final = 255
#: The first and the last instant that a definition may name.
EARLIEST: Final = datetime(1000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(5000, 1, 1, tzinfo=UTC)
#: The least and the most that `add_duration` and `earlier` return. PostgreSQL stores both, every zone can show both.
_FIRST: Final = datetime(1, 1, 3, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 29, tzinfo=UTC)
_DIGITS: Final = 40
_ABRIDGED: Final = Repr()
_ABRIDGED.maxlevel = 4
_ABRIDGED.maxlist = _ABRIDGED.maxtuple = _ABRIDGED.maxdict = _ABRIDGED.maxset = _ABRIDGED.maxfrozenset = 60
_ABRIDGED.maxstring = _ABRIDGED.maxother = _ABRIDGED.maxlong = 200


def check_most(found: int, most: int, path: str, what: str) -> None:
    """Raises:
    InvalidDefinitionError: `found` is more than `most`; `what` is the noun in the message.
    """
    if found > most:
        raise InvalidDefinitionError(path, f"must have at most {most} {what} but has {found}")


def check_count(value: object, path: str, *, least: int = 1, most: int = MOST) -> None:
    """Raises:
    InvalidDefinitionError: it is not a whole number from `least` to `most`.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidDefinitionError(path, f"must be a whole number but is {_format_value(value)}")
    if most < MOST_SLOTS and not least <= value <= most:
        raise InvalidDefinitionError(path, f"must be from {least} to {most} but is {_format_value(value)}")
    if value < least:
        raise InvalidDefinitionError(path, f"must be at least {least} but is {_format_value(value)}")
    if value > most:
        raise InvalidDefinitionError(path, f"must be at most {most} but is {_format_value(value)}")


def check_duration(value: object, path: str, *, zero: bool = False, longest: timedelta = LONGEST) -> None:
    """Raises:
    InvalidDefinitionError: it is not a duration, negative, 0 without `zero`, or longer than `longest`.
    """
    if not isinstance(value, timedelta):
        raise InvalidDefinitionError(path, f"must be a duration but is {_format_value(value)}")
    if value < timedelta(0) or (not value and not zero):
        raise InvalidDefinitionError(path, f"must {'not be negative' if zero else 'be positive'} but is {value}")
    if value > longest:
        raise InvalidDefinitionError(path, f"must be at most {longest.days} days but is {value}")


def check_instant(value: object, path: str) -> None:
    """Raises:
    InvalidDefinitionError: it has no offset from UTC, or is outside the years 1000 to 4999.
    """
    if not isinstance(value, datetime):
        raise InvalidDefinitionError(path, f"must be an instant but is {_format_value(value)}")
    if value.tzinfo is None:
        raise InvalidDefinitionError(path, "must name its offset from UTC")
    if not EARLIEST <= value < LATEST:
        raise InvalidDefinitionError(
            path, f"must be from year {EARLIEST.year} to {LATEST.year - 1} but is {value.isoformat()}"
        )


def add_duration(instant: datetime, duration: timedelta) -> datetime:
    """`instant + duration` (UTC); the first or last instant that can be stored where the sum is beyond it."""
    try:
        return min(max(instant + duration, _FIRST), _LAST)
    except OverflowError:
        return _FIRST if duration < timedelta(0) else _LAST


def clamp_instant(instant: datetime) -> datetime:
    """The instant, moved to the first or last one that can be stored where it is beyond it."""
    return add_duration(instant, timedelta(0))


def longer(duration: timedelta, factor: float) -> timedelta:
    """`duration * factor`, at most `LONGEST`. `factor` is not negative."""
    try:
        return min(duration * factor, LONGEST)
    except OverflowError:
        return LONGEST


def enumeration(texts: Sequence[str]) -> str:
    """The texts in a sentence; empty without any.

    >>> enumeration(["a"]), enumeration(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:])))


def abridge(value: object, length: int = 60) -> str:
    """`repr` of a value, cut to `length` characters, at bounded cost: only a few levels and elements of a nested value
    and the beginning of a text are formatted.
    """
    match value:
        case str() | bytes():
            text = repr(value[: length + 1])
        case list() | tuple() | dict() | set() | frozenset():
            text = _ABRIDGED.repr(value)
        case _:
            text = repr(value)
    return text if len(text) <= length else f"{text[:length]}…"


def _format_value(value: object) -> str:
    """A value for a message; a number of very many digits by its size."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_DIGITS:
        return f"a number of about {int(value.bit_length() * 0.30103)} digits"
    return abridge(value)
