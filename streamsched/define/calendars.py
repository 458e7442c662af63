"""Calendars of closed days, for the parameter `calendar` of triggers and windows."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from streamsched.codec.triggers.calendar import from_json
from streamsched.domain.time.calendar import Calendar

#: A day, or the first and last day of a range: `"2026-12-24"`, `date(2026, 12, 24)`, `("2026-12-24", "2027-01-03")`.
Dates = str | date | tuple[str | date, str | date]


def calendar(
    name: str = "",
    *,
    weekdays: Iterable[str] = (),
    yearly: Iterable[str] = (),
    dates: Iterable[Dates] = (),
    open: Iterable[str | date] = (),  # noqa: A002 - the name of the field
) -> Calendar:
    """A calendar of closed days, on which nothing ticks and no window opens.

    >>> exchange = calendar("exchange", weekdays=["sat", "sun"], yearly=["12-25"], dates=[("2026-04-03", "2026-04-06")])
    >>> exchange.closed_by(date(2026, 12, 25))
    '12-25 of every year'

    Args:
        name: shown in previews and reasons.
        weekdays: closed days of the week, `"mon"` to `"sun"`.
        yearly: closed days of every year, such as `"12-25"`.
        dates: closed days, and pairs of the first and last day of a range.
        open: exceptions: days that are open although another rule closes them.

    Raises:
        InvalidError: a day does not exist, or no day or every day is closed.
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
