"""Durations as people write them: `15m`, `2h30m`, `1d`, `0.5s`. Days are 24 hours of real time."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError

_UNITS: Final = {
    "w": timedelta(weeks=1),
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
    "us": timedelta(microseconds=1),
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|us|[wdhms])\s*")
_TEXT = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(text: str, path: str = "$") -> timedelta:
    """Reads a duration such as `2h30m`.

    >>> parse_duration("2h 30m")
    datetime.timedelta(seconds=9000)

    Raises:
        InvalidDefinitionError: no such duration, or longer than can be counted.
    """
    if not _TEXT.fullmatch(text.strip()):
        raise InvalidDefinitionError(
            path, f"'{text}' is no duration; write numbers with units, as in 90s, 15m, 2h30m, 1d"
        )
    try:
        return sum((float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text)), timedelta())
    except OverflowError as exc:
        raise InvalidDefinitionError(path, f"'{text}' is longer than can be counted") from exc


def duration_text(duration: timedelta) -> str:
    """The shortest text that reads back as the same duration; largest unit is the day.

    >>> duration_text(timedelta(days=1, minutes=5)), duration_text(timedelta(0))
    ('1d5m', '0s')
    """
    left, parts = duration, []
    for name in ("d", "h", "m", "s", "ms", "us"):
        amount, left = divmod(left, _UNITS[name])
        if amount:
            parts.append(f"{amount}{name}")
    return "".join(parts) or "0s"
