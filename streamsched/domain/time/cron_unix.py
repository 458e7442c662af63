"""Cron in the dialect of crontab(5): five fields, or six with seconds first.

Lists, ranges, steps (`*/15`, `8-18/2`, `5/10`), names of months and days, 7 as Sunday, and `@hourly` … `@yearly`.
Days of month and of week are alternatives when neither begins with `*`; else both must match.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from streamsched.domain.time.cron_days import CronDays, Numbered, Weekdays
from streamsched.domain.time.cron_fields import CronFields, TimesOfDay
from streamsched.domain.time.cron_term import (
    DAY,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Field,
    parse_list,
    refuse,
    sort_distinct,
    weekday,
)

NICKNAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "@yearly": "0 0 1 1 *",
        "@annually": "0 0 1 1 *",
        "@monthly": "0 0 1 * *",
        "@weekly": "0 0 * * 0",
        "@daily": "0 0 * * *",
        "@midnight": "0 0 * * *",
        "@hourly": "0 * * * *",
    }
)

_TERM = re.compile(r"(?:(?P<all>\*)|(?P<low>\w+)(?:-(?P<high>\w+))?)(?:/(?P<step>[0-9]+))?")
#: What Quartz writes in fields of days and Unix does not: `?`, `L`, `L-3`, `15W`, `LW`, `6L`, `2#1`.
_QUARTZ: Final = re.compile(r"\?|(?:^|,)(?:L(?:-[0-9]+)?|LW|[0-9]+W|\w+L|\w+#[0-9])(?:,|$)", re.IGNORECASE | re.ASCII)

_WEEKDAY: Final = weekday(0, 7)
_FIELDS: Final = (SECOND, MINUTE, HOUR, DAY, MONTH, _WEEKDAY)


def parse_unix(expression: str) -> CronFields:
    """Parses an expression; the caller checks whether it ever matches.

    Raises:
        InvalidDefinitionError: a field is wrong; the reason names it.
    """
    if expression.startswith("@"):
        nickname = NICKNAMES.get(expression.lower())
        if nickname is None:
            refuse(f"unknown nickname '{expression}' (known: {', '.join(NICKNAMES)})")
        expression = nickname
    parts = expression.split()
    if len(parts) == 5:
        parts = ["0", *parts]
    if len(parts) != 6:
        refuse(f"'{expression}' has {len(parts)} fields; write five, or six that start with seconds")
    for part in (parts[3], parts[5]):
        if _QUARTZ.search(part):
            refuse(f"'{part}' is of Quartz: give dialect=\"quartz\", where days of the week are 1 (Sunday) to 7")
    seconds, minutes, hours, days, months, weekdays = (
        parse_list(part, field, _term) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return CronFields(
        TimesOfDay(sort_distinct(hours), sort_distinct(minutes), sort_distinct(seconds)),
        CronDays.from_rules(
            [Numbered(days)],
            [Weekdays(frozenset(number % 7 for number in weekdays))],
            either=not parts[3].startswith("*") and not parts[5].startswith("*"),
            months=months,
        ),
        starred_minute=parts[1].startswith("*"),
    )


def _term(term: str, field: Field) -> range:
    matched = _TERM.fullmatch(term)
    if matched is None:
        refuse(f"'{term}' is no {field.noun}; write numbers, ranges (1-5), steps (*/15) and lists (1,3)")
    # 7 is Sunday only when written; a star or an open step must not contain Sunday twice.
    highest = 6 if field is _WEEKDAY else field.highest
    low, high, step = matched["low"], matched["high"], int(matched["step"] or 1)
    if not 1 <= step <= highest - field.lowest + 1:
        refuse(f"step {step} of {field.noun} '{term}' must be from 1 to {highest - field.lowest + 1}")
    if matched["all"]:
        return range(field.lowest, highest + 1, step)
    first = field.number(low)
    if high is not None:
        last = field.number(high)
        if field is _WEEKDAY and last == 0 and first > 0 and high.upper() == "SUN":
            last = 7
        if last < first:
            refuse(f"{field.noun} '{term}' runs backwards")
        return range(first, last + 1, step)
    return range(first, max(first, highest) + 1, step) if matched["step"] else range(first, first + 1)
