"""The columns of a correlation key: named values, which are arguments of the runs that the key starts.

    >>> from streamsched.domain.names import EventName
    >>> from streamsched.domain.triggers.trigger import CustomEvent
    >>> daily = Per(CustomEvent(EventName("default", "landed")), ("region", "date"))
    >>> key_columns(daily, "EU/2013-01-07")
    {'region': 'EU', 'date': '2013-01-07'}

The names are the columns of each `per` of the trigger. The key of a roll-up or fan-out is another value than that of
its column, so it has the name of its period instead, such as `day`. Columns that compose a period have its parts, as
`day=2013-01-07` and `hour=05`. Where several `per` name one value differently, it has all of these names; where they
name different values the same, the leftmost counts.
"""

from __future__ import annotations

from itertools import islice
from typing import Final
from urllib.parse import unquote

from streamsched.domain.schedules.template import replace_unprintable
from streamsched.domain.time.period import Period, period
from streamsched.domain.triggers.correlation import MOST_COLUMNS, Per
from streamsched.domain.triggers.keys.key_value import SEPARATOR, column_grains, period_columns
from streamsched.domain.triggers.trigger import Trigger, correlations

#: Most characters of a value that becomes an argument; `trigger.key` has a longer one too.
LONGEST_VALUE: Final = 2000


def key_columns(trigger: Trigger, key: str) -> dict[str, str]:
    """Column → value as the events had it; at most `MOST_COLUMNS`, leftmost first. Empty without a key, and for the key
    of a job that was kept while its trigger changed to another number of columns.

    Values of more than `LONGEST_VALUE` characters are left out. One with control characters is escaped as in the key.
    """
    if not key:
        return {}  # without a walk through the trigger, which may have thousands of parts
    parts = [_value(part) for part in key.split(SEPARATOR)]
    found: dict[str, str] = {}
    for per in correlations(trigger):
        names, values = column_names(per), parts
        if per.grain is not None and len(names) > 1:
            named = isinstance(period(key, per.grain, per.zone), Period)
            values = period_columns(key, column_grains(per.grain, len(names))) if named else []
        if len(names) == len(values):
            found = {**found, **{name: value for name, value in zip(names, values, strict=True) if name not in found}}
        if len(found) >= MOST_COLUMNS:
            break
    return dict(islice(((name, value) for name, value in found.items() if len(value) <= LONGEST_VALUE), MOST_COLUMNS))


def all_column_names(trigger: Trigger) -> tuple[str, ...]:
    """The names of the columns of any key of the trigger, each once; empty where it does not correlate."""
    return tuple(dict.fromkeys(name for per in correlations(trigger) for name in column_names(per)))


def column_names(per: Per) -> tuple[str, ...]:
    """The names of the values of its keys, in their order."""
    period = per.rolled_up_to or per.fanned_out_to
    return per.by if period is None else (period.value,)


def _value(part: str) -> str:
    """The inverse of the escaping in keys, where the value is printable."""
    try:
        value = unquote(part, errors="strict")
    except UnicodeDecodeError:
        return part
    return value if replace_unprintable(value) == value else part
