"""Calendars as JSON, inline or defined in an app and referred to by name.

    {"name": "exchange", "weekdays": ["SAT", "SUN"], "yearly": ["12-25", "01-01"],
     "dates": ["2026-04-03", "2026-12-24/2027-01-03"], "open": ["2026-12-28"]}

All fields but `open` list closed days; at least one day must be closed. An app defines named calendars by
`"calendars": {"exchange": {…}}`; `"calendar": "exchange"` in a trigger or constraint refers to one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from streamsched.codec.json.reading import Fields, format_value, kind, prefix_errors
from streamsched.domain.errors import DecodeError
from streamsched.domain.json_value import Json, member_path
from streamsched.domain.time.calendar import WEEKDAYS, Calendar

_YEARLY: Final = re.compile(r"([0-9]{2})-([0-9]{2})")
_FIELD: Final = "calendar"
#: The names below this field are columns of the user.
_MATCH: Final = "match"


def to_json(calendar: Calendar) -> dict[str, Any]:
    """The canonical JSON of a calendar: equal calendars give equal JSON."""
    written = {
        "name": calendar.name,
        "weekdays": [WEEKDAYS[weekday] for weekday in sorted(calendar.weekdays)],
        "yearly": [f"{month:02}-{day:02}" for month, day in calendar.yearly],
        "dates": [f"{first}" if first == last else f"{first}/{last}" for first, last in calendar.spans],
        "open": [f"{day}" for day in calendar.open],
    }
    return {name: value for name, value in written.items() if value}


def from_json(obj: object, path: str = "$") -> Calendar:
    """Decodes a calendar.

    Raises:
        DecodeError: a field is of the wrong kind or unknown; the path names it.
        InvalidDefinitionError: there is no such day, or no day or every day is closed.
    """
    fields = Fields(obj, path)
    name = fields.optional_text("name") or ""
    weekdays = [_weekday(value, where) for value, where in fields.optional_list("weekdays")]
    yearly = [_yearly(value, where) for value, where in fields.optional_list("yearly")]
    spans = [_span(value, where) for value, where in fields.optional_list("dates")]
    opened = [_date(value, where) for value, where in fields.optional_list("open")]
    fields.check_all_read()
    with prefix_errors(path):
        return Calendar.of(name, weekdays=weekdays, yearly=yearly, spans=spans, open=opened)


def field(fields: Fields) -> Calendar | None:
    """The field `calendar`, if present.

    Raises:
        DecodeError, InvalidDefinitionError: as `from_json`; or it is a name, outside of an app.
    """
    value = fields.optional_value(_FIELD)
    if value is None:
        return None
    if isinstance(value, str):
        fields.fail(
            _FIELD, f"names {format_value(value)}, but only the `calendars` of an app have names; write the days here"
        )
    return from_json(value, fields.path_of(_FIELD))


def resolve_member(name: str, value: Json, calendars: Mapping[str, Json], path: str) -> Json:
    """A member of a definition with references to calendars, at any depth, replaced by their definitions.

    Raises:
        DecodeError: there is no such name.
    """
    if name == _MATCH:
        return value
    if name != _FIELD or not isinstance(value, str):
        return _resolve_value(value, calendars, path)
    if value not in calendars:
        known = ", ".join(sorted(calendars)) or "none"
        raise DecodeError(path, f"is no calendar of this app: {format_value(value)} (known: {known})")
    return calendars[value]


def _resolve_value(obj: Json, calendars: Mapping[str, Json], path: str) -> Json:
    match obj:
        case Mapping():
            return {
                name: resolve_member(name, value, calendars, member_path(path, str(name)))
                for name, value in obj.items()
            }
        case list() | tuple():
            return [_resolve_value(value, calendars, member_path(path, index)) for index, value in enumerate(obj)]
        case _:
            return obj


def read_named(fields: Fields) -> dict[str, dict[str, Any]]:
    """The field `calendars` of an app: definitions by name, each with its `name` field.

    Raises:
        DecodeError, InvalidDefinitionError: as `from_json`.
    """
    inner = fields.optional_object("calendars")
    if inner is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for name in inner.names():
        own = inner.object(name)
        if own.optional_text("name") not in (None, name):
            own.fail("name", f"is not {format_value(name)}, its name in the app")
        found[name] = to_json(from_json({**own.raw(), "name": name}, own.path))
    return found


def _weekday(value: object, path: str) -> int:
    if isinstance(value, str) and value.upper() in WEEKDAYS:
        return WEEKDAYS.index(value.upper())
    raise DecodeError(path, f"must be one of {', '.join(WEEKDAYS)} but is {format_value(value)}")


def _yearly(value: object, path: str) -> tuple[int, int]:
    matched = _YEARLY.fullmatch(value) if isinstance(value, str) else None
    if matched is None:
        raise DecodeError(path, f"must be a month and a day such as '12-25' but is {format_value(value)}")
    return int(matched[1]), int(matched[2])


def _span(value: object, path: str) -> tuple[date, date]:
    if not isinstance(value, str):
        raise DecodeError(path, f"must be a date, or two as in 2026-12-24/2027-01-03, but is {kind(value)}")
    first, slash, last = value.partition("/")
    return _date(first, path), _date(last if slash else first, path)


def _date(value: object, path: str) -> date:
    try:
        if isinstance(value, str) and len(value) == 10:
            return date.fromisoformat(value)
    except ValueError as exc:
        raise DecodeError(path, f"must be a date such as '2026-12-24' but is {format_value(value)}") from exc
    raise DecodeError(path, f"must be a date such as '2026-12-24' but is {format_value(value)}")
