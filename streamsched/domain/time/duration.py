"""Durations as text: `15m`, `2h30m`, `1d`, `0.5s`. A day is 24 hours of real time."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

#: Size of the cache of texts; definitions use few distinct durations.
_CACHED_TEXTS: Final = 1024
_UNITS: Final = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_GO_UNITS: Final = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ns": 1,
}
#: Go counts nanoseconds in 63 bits.
_GO_LONGEST: Final = 2**63 - 1
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|[wdhms])\s*")
_TEXT = re.compile(rf"(?:{_PART.pattern})+")
_GO_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|[hms])")
_GO_TEXT = re.compile(rf"[+-]?(?:0|(?:{_GO_PART.pattern})+)")


def parse_duration(text: str, path: str = "$") -> timedelta:
    """Parses a duration such as `2h30m`.

    >>> parse_duration("2h 30m")
    datetime.timedelta(seconds=9000)

    Raises:
        InvalidDefinitionError: it is not a duration, or longer than a `timedelta`.
    """
    if not _TEXT.fullmatch(text.strip()):
        raise InvalidDefinitionError(
            path, f"'{text}' is no duration; write numbers with units, as in 90s, 15m, 2h30m, 1d"
        )
    try:
        return sum((float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text)), timedelta())
    except OverflowError as exc:
        raise InvalidDefinitionError(path, f"'{text}' is longer than can be counted") from exc


@lru_cache(_CACHED_TEXTS)
def duration_text(duration: timedelta) -> str:
    """The shortest text that parses to the same duration; the largest unit is the day.

    >>> duration_text(timedelta(days=1, minutes=5)), duration_text(timedelta(0))
    ('1d5m', '0s')
    """
    left = duration
    parts: list[str] = []
    for name in ("d", "h", "m", "s", "ms", "us"):
        amount, left = divmod(left, _UNITS[name])
        if amount:
            parts.append(f"{amount}{name}")
    return "".join(parts) or "0s"


def units_text(count: int, unit: str) -> str:
    """The text of a number of `ms` or `s`; of more than a duration can hold, that number.

    >>> units_text(90_000, "ms"), units_text(2**63 - 1, "ms")
    ('1m30s', '9223372036854775807ms')
    """
    try:
        return duration_text(count * _UNITS[unit])
    except OverflowError:
        return f"{count}{unit}"


def parse_go_duration(text: str, path: str = "$") -> timedelta:
    """Parses a Go duration: signed, fractions, units h, m, s, ms, us, ns; no days. Truncated to microseconds.

    >>> parse_go_duration("1h30m"), parse_go_duration("-1.5s")
    (datetime.timedelta(seconds=5400), datetime.timedelta(days=-1, seconds=86398, microseconds=500000))

    Raises:
        InvalidDefinitionError: it is not a duration, or longer than Go's 2562047h47m16.854775807s.
    """
    parts = _GO_PART.findall(text)
    if len(text) > 100 or not _GO_TEXT.fullmatch(text) or not all(whole or fraction for whole, fraction, _ in parts):
        raise InvalidDefinitionError(path, f"'{text}' is no duration; write numbers with units, as in 90s, 15m, 2h30m")
    nanoseconds = sum(
        int(whole or 0) * _GO_UNITS[unit] + int(fraction or 0) * _GO_UNITS[unit] // 10 ** len(fraction)
        for whole, fraction, unit in parts
    )
    if nanoseconds > _GO_LONGEST:
        raise InvalidDefinitionError(path, f"'{text}' is longer than Go can count")
    length = timedelta(microseconds=nanoseconds // 1000)
    return -length if text.startswith("-") else length
