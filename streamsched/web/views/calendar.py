"""Days as a calendar: a column for each week, a row for each day of the week. Pure SVG, without styles and scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

from markupsafe import Markup

from streamsched.domain.time.grain import Grain
from streamsched.domain.time.period import Period, period
from streamsched.domain.triggers.keys.key_value import GRAIN_NAMES, key_value

#: Weeks of a calendar; of a longer time the last ones are shown.
WEEKS: Final = 40
#: Side of a cell with its gap: large enough for a finger.
_PITCH: Final = 24
_LEFT, _TOP = 34, 18
#: Space for the name of the last month.
_RIGHT: Final = 34
_DAYS: Final = ("Mon", "", "Wed", "", "Fri", "", "Sun")


class CalendarDay(NamedTuple):
    """A day of a calendar. `tone`: `ok`, `run`, `wait`, `bad` or `line`; `href`: empty without a page."""

    day: date
    tone: str
    text: str
    href: str = ""
    number: int = 0


def calendar(days: Sequence[CalendarDay], *, label: str) -> Markup:
    """The days, each with its text on hover; days without an entry are left out."""
    if not days:
        return Markup("")
    last = max(each.day for each in days)
    first = max(min(each.day for each in days), last - timedelta(days=7 * WEEKS - 1 - (6 - last.weekday())))
    monday = first - timedelta(days=first.weekday())
    weeks = (last - monday).days // 7 + 1
    parts = [
        Markup('<text class="axis-text" x="0" y="{}">{}</text>').format(_TOP + row * _PITCH + 15, name)
        for row, name in enumerate(_DAYS)
        if name
    ]
    parts += _months(monday, weeks)
    parts += [_cell(each, monday) for each in sorted(days) if each.day >= first]
    return Markup(
        '<div class="scroll newest"><svg class="calendar" width="{}" height="{}" role="group" aria-label="{}">{}</svg>'
        "</div>"
    ).format(_LEFT + weeks * _PITCH + _RIGHT, _TOP + 7 * _PITCH, label, Markup("").join(parts))


def _months(monday: date, weeks: int) -> list[Markup]:
    parts: list[Markup] = []
    shown = -3
    for week in range(weeks):
        day = monday + timedelta(days=7 * week + 6)
        if (day.day <= 7 or week == 0) and week - shown >= 3:
            text = Markup('<text class="axis-text" x="{}" y="12">{}</text>')
            parts.append(text.format(_LEFT + week * _PITCH, f"{day:%b %Y}"))
            shown = week
    return parts


def _cell(each: CalendarDay, monday: date) -> Markup:
    week, row = divmod((each.day - monday).days, 7)
    count = Markup("")
    if each.number:
        shown = str(each.number) if each.number < 1000 else "1k+"
        count = Markup('<text class="cell-text" x="{}" y="{}">{}</text>').format(
            _LEFT + week * _PITCH + 11, _TOP + row * _PITCH + 15, shown
        )
    rect = Markup(
        '<rect class="cell cell-{}" x="{}" y="{}" width="{}" height="{}" rx="3"><title>{}</title></rect>{}'
    ).format(
        each.tone, _LEFT + week * _PITCH + 0.5, _TOP + row * _PITCH + 0.5, _PITCH - 3, _PITCH - 3, each.text, count
    )
    return Markup('<a href="{}" aria-label="{}">{}</a>').format(each.href, each.text, rect) if each.href else rect


def day_of(values: Mapping[str, str]) -> date | None:
    """The day that the columns of a partition name: one of them, or year, month and day; None when they name none. A
    number is no day where the name of its column does not say so.
    """
    texts = [value for name, value in values.items() if name in GRAIN_NAMES or not value.isdecimal()]
    composed = key_value(("year", "month", "day"), values, Grain.DAY)
    for text in [*texts, *([composed] if isinstance(composed, str) else [])]:
        for grain in (Grain.DAY, Grain.HOUR):
            if isinstance(found := period(text, grain), Period):
                return found.start.date()
    return None
