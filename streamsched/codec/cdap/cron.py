"""Unix cron in Quartz's words, for clients that know no other.

    >>> to_quartz("0 4 * * 1-5"), to_quartz("0 4 * * *"), to_quartz("0 4 13 * 5")
    ('0 4 ? * MON-FRI', '0 4 * * *', None)

In Quartz Sunday is 1, so `1-5` would be Sunday to Thursday; and it has no "the 13th, or a Friday".
"""

from __future__ import annotations

import re
from typing import Final

from streamsched.domain.cron import parse_cron
from streamsched.domain.cron_unix import NICKNAMES
from streamsched.domain.dialect import Dialect
from streamsched.domain.errors import InvalidDefinitionError

_NAMES: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_DAY: Final = re.compile(r"(?<![/\d])[0-7](?!\d)")


def to_quartz(expression: str) -> str | None:
    """An expression that matches the same times in Quartz's dialect; None when it has none, or none we find."""
    parts = NICKNAMES.get(expression.lower(), expression).split()
    if len(parts) not in (5, 6):
        return None
    *others, days, months, weekdays = parts
    named = _DAY.sub(lambda digit: _NAMES[int(digit[0])], weekdays)
    by_weekday = " ".join([*others, "?" if days == "*" else days, months, named])
    by_day = " ".join([*others, days, months, "*" if len(parts) == 5 else "?"])
    return next((quartz for quartz in (by_day, by_weekday) if _same(expression, quartz)), None)


def _same(unix: str, quartz: str) -> bool:
    """Whether both match the same times: cron is one value, whatever its dialect."""
    try:
        return parse_cron(unix).ticks == parse_cron(quartz, Dialect.QUARTZ).ticks
    except InvalidDefinitionError:
        return False
