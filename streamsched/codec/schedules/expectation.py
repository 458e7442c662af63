"""Expectations of an app as JSON.

    {"name": "flights", "dataset": "default.flights", "by": "08:00", "timeZone": "Europe/Berlin", "every": "day",
     "on": ["MON", "FRI"], "calendar": {…}, "partition": "day={day}", "lag": 1, "program": "rescue"}

`by` is a time of day, of `"every": "hour"` a minute such as `:15`, or `usual`. `on`: weekdays (`"MON-FRI"` too), or for
`"every": "month"` a day. With `schedule` instead of `dataset`, `key` instead of `partition`. Without a name it has that
of its dataset or schedule.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import time
from typing import Any, Final

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.schedules.recipient import recipient_schema
from streamsched.codec.shape import schemas
from streamsched.codec.triggers import calendar as calendar_codec
from streamsched.domain.errors import DecodeError
from streamsched.domain.expectations.expectation import (
    LAST_DAY,
    MOST_LAG,
    Expectation,
    Frequency,
    SubjectKind,
    weekdays_of,
)
from streamsched.domain.json_value import Json
from streamsched.domain.names import AppRef, DatasetRef, ExpectationRef, ScheduleRef
from streamsched.domain.time.calendar import WEEKDAYS

USUAL: Final = "usual"
_WALL: Final = re.compile(r"([01]?[0-9]|2[0-3])?:([0-5][0-9])")
_RANGE: Final = re.compile(r"([A-Za-z]{3})(?:-([A-Za-z]{3}))?")
#: The field of the key by what it is of.
_KEYS: Final = {SubjectKind.DATASET: "partition", SubjectKind.SCHEDULE: "key"}


def expectation_to_json(expectation: Expectation) -> dict[str, Any]:
    """The canonical JSON: equal expectations give equal JSON."""
    kind = expectation.kind
    given = {
        "on": days_to_json(expectation),
        "calendar": None if expectation.calendar is None else calendar_codec.to_json(expectation.calendar),
        _KEYS[kind]: expectation.key or None,
        "lag": expectation.lag if expectation.key else None,
        "program": expectation.program,
    }
    return {
        "name": expectation.ref.name,
        kind.value: str(expectation.subject),
        "by": by_to_json(expectation),
        "timeZone": expectation.zone,
        "every": expectation.every.value,
        **{name: value for name, value in given.items() if value is not None},
    }


def by_to_json(expectation: Expectation) -> str:
    """The time at which it is due, as text."""
    if expectation.by is None:
        return USUAL
    return f":{expectation.by.minute:02}" if expectation.every is Frequency.HOUR else f"{expectation.by:%H:%M}"


def days_to_json(expectation: Expectation) -> list[str] | int | None:
    """The weekdays, or the day of the month; None where it names none."""
    if expectation.every is Frequency.MONTH:
        return expectation.day
    return [WEEKDAYS[day] for day in sorted(expectation.weekdays)] or None


def expectation_from_json(obj: object, path: str = "$", *, app: AppRef) -> Expectation:
    """Decodes an expectation of the app.

    Raises:
        DecodeError, InvalidDefinitionError: with the path of the field.
    """
    fields = Fields(obj, path)
    dataset, schedule = fields.optional_text("dataset"), fields.optional_text("schedule")
    if (dataset is None) == (schedule is None):
        raise DecodeError(path, "must name either a dataset or a schedule")
    subject: DatasetRef | ScheduleRef
    if dataset is not None:
        with prefix_errors(fields.path_of("dataset")):
            subject = DatasetRef.parse(dataset, app.namespace)
    else:
        with prefix_errors(fields.path_of("schedule")):
            subject = schedule_of(schedule or "", app)
    kind = SubjectKind.SCHEDULE if dataset is None else SubjectKind.DATASET
    every = fields.optional_choice("every", Frequency) or Frequency.DAY
    by = time_from_text(fields.text("by"), fields.path_of("by"))
    given: dict[str, Any] = {"calendar": calendar_codec.field(fields), "program": fields.optional_text("program")}
    given |= days_from_json(fields.optional_value("on"), every, fields.path_of("on"))
    given["key"] = fields.optional_text(_KEYS[kind]) or ""
    if (zone := fields.optional_text("timeZone")) is not None:
        given["zone"] = zone
    if (lag := fields.optional_integer("lag")) is not None:
        given["lag"] = lag
    name = fields.optional_text("name") or default_name(subject)
    fields.check_all_read()
    with prefix_errors(path, key=_KEYS[kind], zone="timeZone"):
        return Expectation(ExpectationRef(app.namespace, app.app, name), subject, by, every, **given)


def schedule_of(text: str, app: AppRef) -> ScheduleRef:
    """A schedule by its full name, or by its name in the app.

    Raises:
        InvalidError: it is no name.
    """
    return ScheduleRef.parse(text) if "." in text else ScheduleRef(app.namespace, app.app, text)


def default_name(subject: DatasetRef | ScheduleRef) -> str:
    """The name of an expectation that has none: that of what it is about, with `-` for dots."""
    return re.sub(r"[.$]", "-", subject.name)


def time_from_text(text: str, path: str) -> time | None:
    """A time of day, or a minute; None for `usual`.

    Raises:
        DecodeError: it is none of these.
    """
    if text == USUAL:
        return None
    found = _WALL.fullmatch(text)
    if found is None:
        raise DecodeError(
            path, f"must be a time of day such as 08:00, a minute such as :15, or usual, but is {format_value(text)}"
        )
    return time(int(found[1] or 0), int(found[2]))


def days_from_json(value: Json, every: Frequency, path: str) -> dict[str, Any]:
    """The fields of an expectation that say on which days it is due.

    Raises:
        DecodeError: it names no days.
    """
    match value:
        case bool():
            raise DecodeError(path, "must be weekdays or a day of the month")
        case int():
            return {"day": value}
        case None:
            return {"weekdays": weekdays_of(every, frozenset())}
        case str():
            return {"weekdays": weekdays_of(every, _weekdays([value], path))}
        case list() | tuple():
            return {"weekdays": weekdays_of(every, _weekdays(value, path))}
        case _:
            raise DecodeError(path, f"must be weekdays or a day of the month but is {format_value(value)}")


def _weekdays(listed: Sequence[object], path: str) -> frozenset[int]:
    found = set[int]()
    for each in listed:
        named = _RANGE.fullmatch(each) if isinstance(each, str) else None
        names = [] if named is None else [name.upper() for name in named.groups() if name]
        if not names or any(name not in WEEKDAYS for name in names):
            raise DecodeError(
                path, f"must be of {', '.join(WEEKDAYS)}, or ranges such as MON-FRI, but has {format_value(each)}"
            )
        first, last = WEEKDAYS.index(names[0]), WEEKDAYS.index(names[-1])
        found |= {day % len(WEEKDAYS) for day in range(first, last + 1 if last >= first else last + 1 + len(WEEKDAYS))}
    return frozenset(found)


_TIME: Final = r"^(usual|([01]?[0-9]|2[0-3])?:[0-5][0-9])$"
_GIVEN: Final = {"not": {"type": "null"}}
_ABSENT: Final = {"type": "null"}
_EXPECTATION: Final = schemas.record(
    {"by": schemas.text("08:00", pattern=_TIME, about="A time of day, of an hour a minute such as `:15`, or `usual`.")},
    {
        "name": schemas.name("flights"),
        "dataset": schemas.text("default.flights"),
        "schedule": schemas.text("default.shop.daily"),
        "every": schemas.choice(Frequency),
        "timeZone": schemas.text("Europe/Berlin"),
        "on": schemas.one_of(
            schemas.text("MON-FRI"),
            schemas.array(schemas.text("MON"), maxItems=7),
            schemas.integer(1, least=1, most=LAST_DAY),
        ),
        "calendar": schemas.one_of(schemas.ref("Calendar"), schemas.name("exchange")),
        "partition": schemas.text("day={day}", about="The partition of a dataset that must be there."),
        "key": schemas.text("day={day}", about="The key of a schedule whose run must have completed."),
        "lag": schemas.integer(
            1, most=MOST_LAG, about="How many periods ago the period lies that `partition` or `key` name."
        ),
        "program": schemas.name("rescue", about="A program of the app that a miss starts."),
    },
    "What must be there, and by when.",
    anyOf=[
        {"required": ["dataset"], "properties": {"dataset": _GIVEN, "schedule": _ABSENT, "key": _ABSENT}},
        {"required": ["schedule"], "properties": {"schedule": _GIVEN, "dataset": _ABSENT, "partition": _ABSENT}},
    ],
)
EXPECTATIONS: Final[schemas.Definitions] = {
    "Expectation": _EXPECTATION,
    "NamedExpectation": schemas.drop_members(_EXPECTATION, "name"),
    "Recipient": recipient_schema(),
}
