"""How texts write a time: the spellings of ISO 8601 and of Hive's folders, and some that Spark and databases print.

| part            | spellings                                                                                   |
|-----------------|---------------------------------------------------------------------------------------------|
| date            | `2026`, `2026-03`, `202603`, `2026-03-01`, `20260301`, `2026-W09`, `2026W09`, `2026-W09-7`  |
| before the hour | `T`, a space, `_`, `-`                                                                      |
| time            | `05`, `05:00`, `0500`, `05-00`, `05:00:00`, `050000`, `05:00:00.000`                        |
| offset          | `Z`, `UTC`, `+01:00`, `+0100`, `+01`                                                        |

A month, day, week or hour may have one digit where something separates it. Characters may be escaped as in Hive's
folders and URLs (`%3A`). An offset of hours alone that begins with `-` needs minutes before it, because `T05-03` could
mean either.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple
from urllib.parse import unquote

from streamsched.domain.time.grain import Grain

#: Most characters of a text that names a period.
LONGEST: Final = 64
#: Linear: no part of it can match the same characters in two ways.
_TEXT: Final = re.compile(
    r"""
    (?P<year>\d{4})
    (?: (?: -(?P<month>\d{1,2}) (?:-(?P<day>\d{1,2}))?
        |   (?P<month2>\d\d) (?P<day2>\d\d)?
        |   -?W (?P<week>\d{1,2}) (?:-?(?P<weekday>[1-7]))?
        )
        (?: [T\ _-] (?P<hour>\d{1,2})
            (?: (?: :(?P<minute>\d\d) (?: :(?P<second>\d\d) (?:[.,](?P<part>\d+))? )?
                |   (?<=\d\d)(?P<minute2>\d\d) (?: (?P<second2>\d\d) (?:[.,](?P<part2>\d+))? )?
                )
                (?: \ ?(?P<offset>Z|UTC|[+-]\d\d(?::?\d\d(?::\d\d)?)?) )?
            |   -(?P<minute3>\d\d) (?:-(?P<second3>\d\d))?
            |   \ ?(?P<offset2>Z|UTC|\+\d\d(?::?\d\d(?::\d\d)?)?|-\d\d:?\d\d(?::\d\d)?)
            )?
        )?
    )?
    """,
    re.VERBOSE | re.IGNORECASE,
)


class WrittenTime(NamedTuple):
    """What a text says, without a zone.

    Attributes:
        shown: what a clock shows, naive.
        grain: the period that it names by its form: `2026-03-01` a day, `2026-03-01T05` an hour.
        timestamp: it has minutes, so it may be the beginning of any period.
        offset: from UTC; None where the text has none.
    """

    shown: datetime
    grain: Grain
    timestamp: bool = False
    offset: timedelta | None = None


class NoPeriod(NamedTuple):
    """Why a text names no period: the end of a sentence, may be empty."""

    why: str = ""


def written_time(text: str) -> WrittenTime | NoPeriod:
    """Reads a text. Total, in a time linear in its length."""
    if len(text) > LONGEST:
        return NoPeriod(f"it is longer than {LONGEST} characters")
    found = _TEXT.fullmatch((unquote(text) if "%" in text else text).strip())
    if found is None:
        return NoPeriod()
    year, month, day, month2, day2, week, weekday, hour, *clock, offset, minute3, second3, offset2 = found.groups()
    month, day, grain = month or month2, day or day2, Grain.YEAR
    if month is not None:
        grain = Grain.MONTH if day is None else Grain.DAY
    elif week is not None:
        grain = Grain.WEEK if weekday is None else Grain.DAY
    if hour is not None and grain is not Grain.DAY:
        return NoPeriod()
    minute, second, part = (one or other for one, other in zip(clock[:3], clock[3:], strict=True))
    minute, second, offset = minute or minute3, second or second3, offset or offset2
    try:
        if week is None:
            start = date(int(year), int(month or 1), int(day or 1))
        else:
            start = date.fromisocalendar(int(year), int(week), int(weekday or 1))
        if hour is None:
            return WrittenTime(datetime(start.year, start.month, start.day), grain)  # noqa: DTZ001 - naive
        shown = datetime(start.year, start.month, start.day, int(hour), int(minute or 0), int(second or 0))  # noqa: DTZ001
        ahead = None if offset is None else _offset(offset)
    except ValueError:
        return NoPeriod("there is no such time")
    if part and int(part):
        shown = shown.replace(microsecond=max(1, int(part[:6].ljust(6, "0"))))
    return WrittenTime(shown, Grain.HOUR, minute is not None, ahead)


def _offset(text: str) -> timedelta:
    if text[0] not in "+-":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(6, "0")
    hours, minutes, seconds = int(digits[:2]), int(digits[2:4]), int(digits[4:])
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(text)
    ahead = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return -ahead if text[0] == "-" else ahead
