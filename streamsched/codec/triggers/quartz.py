"""Translates Unix cron to Quartz, for clients that know only that dialect.

    >>> to_quartz("0 4 * * 1-5"), to_quartz("0 4 * * *"), to_quartz("0 4 13 * 5")
    ('0 4 ? * MON-FRI', '0 4 * * *', None)

In Quartz Sunday is 1, so `1-5` would be Sunday to Thursday; and Quartz cannot express "the 13th, or a Friday".
"""

from __future__ import annotations

import re
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.ticks.fire_times import parse_cron
from streamsched.domain.time.cron_unix import NICKNAMES
from streamsched.domain.time.dialect import Dialect

_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY: Final = re.compile(r"(?<![/\d])[0-7](?!\d)")


def to_quartz(expression: str) -> str | None:
    """A Quartz expression that matches the same times; None when none is found."""
    parts = NICKNAMES.get(expression.lower(), expression).split()
    if len(parts) not in (5, 6):
        return None
    *others, days, months, weekdays = parts
    named = _DAY.sub(lambda digit: _NAMES[int(digit[0])], weekdays)
    by_weekday = " ".join([*others, "?" if days == "*" else days, months, named])
    by_day = " ".join([*others, days, months, "*" if len(parts) == 5 else "?"])
    return next((quartz for quartz in (by_day, by_weekday) if _is_same(expression, quartz)), None)


def _is_same(unix: str, quartz: str) -> bool:
    """Whether both match the same times, by comparing the parsed values."""
    try:
        return parse_cron(unix).ticks == parse_cron(quartz, Dialect.QUARTZ).ticks
    except InvalidDefinitionError:
        return False
