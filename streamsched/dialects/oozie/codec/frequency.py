"""The frequency of a coordinator as a trigger."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from streamsched.codec.moving.draft import Report
from streamsched.domain.errors import DecodeError
from streamsched.domain.time.duration import duration_text

_FUNCTION: Final = re.compile(
    r"\$\{\s*coord:(minutes|hours|days|months|endOfDays|endOfWeeks|endOfMonths)\(([0-9]{1,9})\)\s*\}"
)
#: A property that has no value.
_PROPERTY: Final = re.compile(r"\$\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}")
#: Minutes; a longer number is none.
_NUMBER: Final = re.compile(r"[0-9]{1,9}")
_HOUR, _DAY, _YEAR_MONTHS = 60, 24 * 60, 12
_MINUTES: Final = {"minutes": 1, "hours": _HOUR, "days": _DAY}


def moment(text: str, path: str) -> datetime:
    """An instant of Oozie: `2009-01-01T05:00Z` or `2009-01-01T05:00+0530`.

    Raises:
        DecodeError: it is none.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise DecodeError(path, f"'{text}' is no time such as 2009-01-01T05:00Z{_missing_property_hint(text)}") from exc
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def trigger_of(frequency: str, start: datetime, zone: str, path: str, report: Report) -> dict[str, Any]:
    """The trigger as JSON; `start` is in the zone of the coordinator.

    Raises:
        DecodeError: it is no frequency that is known here.
    """
    text = frequency.strip()
    if len(text.split()) == 5:
        report.differs(path, "a cron frequency of Oozie is in UTC; so it is here")
        return {"type": "TIME", "cronExpression": text}
    if _NUMBER.fullmatch(text):
        return _every(int(text), start, zone, path, report)
    found = _FUNCTION.fullmatch(text)
    if found is None:
        raise DecodeError(path, f"frequency '{text}' is not known here{_missing_property_hint(text)}")
    kind, count = found[1], int(found[2])
    if not count:
        raise DecodeError(path, f"frequency '{text}' is zero")
    match kind:
        case "minutes" | "hours" | "days":
            return _every(count * _MINUTES[kind], start, zone, path, report)
        case "months":
            return _months(f"{start.minute} {start.hour} {start.day}", count, start, zone, path)
        case "endOfDays" if count == 1:
            return _time("0 0 * * *", zone)
        case "endOfWeeks" if count == 1:
            return _time("0 0 * * 0", zone)
        case "endOfMonths":
            return _months("0 0 1", count, start, zone, path)
        case _:
            raise DecodeError(path, f"frequency '{text}' has no expression here; use `every`")


def _missing_property_hint(text: str) -> str:
    """How to give the property that the text still names; empty when it names none."""
    found = _PROPERTY.search(text)
    return f"; `--set {found[1]}=…` gives its value" if found else ""


def _every(minutes: int, start: datetime, zone: str, path: str, report: Report) -> dict[str, Any]:
    """So many minutes from the start on: as a cron expression where there is one."""
    if not minutes:
        raise DecodeError(path, "a frequency of 0 minutes")
    at = f"{start.minute} {start.hour}"
    if minutes == _DAY:
        return _time(f"{at} * * *", zone)
    if minutes == 7 * _DAY:
        return _time(f"{at} * * {start.isoweekday() % 7}", zone)
    if minutes == _HOUR:
        return _time(f"{start.minute} * * * *", zone)
    if minutes % _DAY == 0:
        report.differs(path, "several days are so many hours here; daylight saving moves the time of day")
    try:
        begin = start.astimezone(UTC).isoformat()
    except OverflowError as exc:
        raise DecodeError(path, "its start is out of the range of times") from exc
    return {"type": "EVERY", "interval": duration_text(timedelta(minutes=minutes)), "start": begin}


def _months(at: str, count: int, start: datetime, zone: str, path: str) -> dict[str, Any]:
    """Every so many months, counted from that of the start."""
    if count == 1:
        return _time(f"{at} * *", zone)
    if _YEAR_MONTHS % count:
        raise DecodeError(path, f"every {count} months: that is not the same months each year")
    months = sorted((start.month - 1 + step) % _YEAR_MONTHS + 1 for step in range(0, _YEAR_MONTHS, count))
    return _time(f"{at} {','.join(map(str, months))} *", zone)


def _time(expression: str, zone: str) -> dict[str, Any]:
    return {"type": "TIME", "cronExpression": expression, **({} if zone == "UTC" else {"timeZone": zone})}
