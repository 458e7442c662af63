"""The partitions of a dataset as its newest events tell them: by day where their columns name one. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from streamsched.api.dataset_view import PartitionCommit
from streamsched.web.views.calendar import WEEKS, CalendarDay, day_of
from streamsched.web.views.names import event_href

#: Missing days that are named.
_NAMED: Final = 10


class PartitionRow(NamedTuple):
    """A partition, with its newest commit and the event that announced it."""

    key: str
    day: date | None
    rows: int | None
    bytes: int | None
    source: str
    at: datetime
    href: str
    late: bool
    rewritten: int = 0


class PartitionDays(NamedTuple):
    """Days of a dataset. `missing`: between the first and the last one, none came for these."""

    days: tuple[CalendarDay, ...]
    missing: tuple[date, ...]
    first: date
    last: date


def partition_row(commit: PartitionCommit) -> PartitionRow:
    """The row of a partition."""
    event = commit.event
    return PartitionRow(
        commit.key,
        day_of(commit.values),
        commit.rows,
        commit.bytes,
        event.source,
        event.at,
        event_href(event.id, event.source, event.position),
        commit.late,
        commit.rewritten,
    )


def partition_days(rows: Sequence[PartitionRow]) -> PartitionDays | None:
    """The days between the first and the last partition; None when fewer than half of them name a day."""
    dated = [row for row in rows if row.day is not None]
    if not dated or 2 * len(dated) < len(rows):
        return None
    counted = Counter(day for _, day in {(row.key, row.day) for row in dated})
    newest = {row.day: row for row in reversed(dated)}
    last = max(day for day in counted if day is not None)
    first = max(min(day for day in counted if day is not None), last - timedelta(days=7 * WEEKS))
    days, missing = list[CalendarDay](), list[date]()
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        row = newest.get(day)
        if row is None:
            missing.append(day)
            days.append(CalendarDay(day, "missing", f"{day}: missing"))
            continue
        count = counted[day]
        came = "late" if row.late else "came"
        text = f"{day}: {came}" + (f", {count} partitions" if count > 1 else "")
        days.append(CalendarDay(day, "wait" if row.late else "ok", text, row.href, count if count > 1 else 0))
    return PartitionDays(tuple(days), tuple(missing), first, last)


def missing_words(missing: Sequence[date]) -> str:
    """The missing days, spans of them together: `2013-03-13 to 2013-03-15, 2013-03-20`."""
    spans: list[list[date]] = []
    for day in missing:
        if spans and day - spans[-1][-1] == timedelta(days=1):
            spans[-1].append(day)
        else:
            spans.append([day])
    named = [str(span[0]) if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in spans[:_NAMED]]
    more = f" and {len(spans) - _NAMED} more" if len(spans) > _NAMED else ""
    return ", ".join(named) + more
