"""Calendars in their owner's words: what goes into `calendar=`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from streamsched.codec.calendar import from_json
from streamsched.domain.calendar import Calendar

#: A day, or the first and the last of several: `"2026-12-24"`, `date(2026, 12, 24)`, `("2026-12-24", "2027-01-03")`.
Dates = str | date | tuple[str | date, str | date]


def calendar(
    name: str = "",
    *,
    weekdays: Iterable[str] = (),
    yearly: Iterable[str] = (),
    dates: Iterable[Dates] = (),
    open: Iterable[str | date] = (),  # noqa: A002 - the word of the field
) -> Calendar:
    """Days that are closed: nothing ticks, no window is open.

    >>> exchange = calendar("exchange", weekdays=["sat", "sun"], yearly=["12-25"], dates=[("2026-04-03", "2026-04-06")])
    >>> exchange.closed_by(date(2026, 12, 25))
    '12-25 of every year'

    Args:
        name: for people; previews and reasons say it.
        weekdays: `"mon"` to `"sun"`.
        yearly: such as `"12-25"`.
        dates: single days, and pairs of first and last.
        open: days that are open all the same.

    Raises:
        InvalidError: there is no such day, or no day or every day is closed.
    """
    return from_json(
        {
            "name": name or None,
            "weekdays": list(weekdays),
            "yearly": list(yearly),
            "dates": ["/".join(map(str, each)) if isinstance(each, tuple) else str(each) for each in dates],
            "open": [str(each) for each in open],
        }
    )
