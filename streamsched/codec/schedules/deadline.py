"""Deadlines as JSON: `{"type": "start-by" | "finish-by" | "duration", "within": "30m", "then": "warn" | "cancel"}`, or
`"at": "06:00", "timeZone": "Europe/Berlin"` instead of `within`, or `"then": "start", "program": "rescue"`.
"""

from __future__ import annotations

import re
from datetime import time
from typing import Any, Final

from streamsched.codec.json.reading import Fields, format_value, prefix_errors
from streamsched.codec.shape import schemas
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind, OnMiss
from streamsched.domain.time.duration import duration_text, parse_duration

_WALL: Final = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?")
_GIVEN: Final = {"not": {"type": "null"}}
_ABSENT: Final = {"type": "null"}
DEADLINE: Final = schemas.record(
    {"type": schemas.choice(DeadlineKind)},
    {
        "within": schemas.duration("30m"),
        "at": schemas.text("06:00", pattern=schemas.WALL),
        "timeZone": schemas.text("Europe/Berlin"),
        "then": schemas.choice(OnMiss),
        "program": schemas.name("rescue"),
    },
    anyOf=[
        {"required": ["within"], "properties": {"within": _GIVEN, "at": _ABSENT, "timeZone": _ABSENT}},
        {"required": ["at"], "properties": {"at": _GIVEN, "within": _ABSENT}},
    ],
)


def to_json(deadline: Deadline) -> dict[str, Any]:
    """The canonical JSON."""
    at, within = deadline.at, deadline.within
    return {
        "type": deadline.promise.value,
        **({} if within is None else {"within": duration_text(within)}),
        **(
            {} if at is None else {"at": at.isoformat("seconds" if at.second else "minutes"), "timeZone": deadline.zone}
        ),
        "then": deadline.then.value,
        **({} if deadline.program is None else {"program": deadline.program}),
    }


def from_json(obj: object, path: str = "$") -> Deadline:
    """Raises:
    DecodeError, InvalidDefinitionError: with the path of the field.
    """
    fields = Fields(obj, path)
    promise = fields.choice("type", DeadlineKind)
    within, at = fields.optional_text("within"), fields.optional_text("at")
    if at is None and fields.has("timeZone"):
        fields.fail("timeZone", "goes with 'at'")
    given: dict[str, Any] = {"zone": fields.optional_text("timeZone"), "then": fields.optional_choice("then", OnMiss)}
    program = fields.optional_text("program")
    fields.check_all_read()
    with prefix_errors(path, zone="timeZone"):
        return Deadline(
            promise,
            None if within is None else parse_duration(within, "$.within"),
            None if at is None else _wall(fields, at),
            program=program,
            **{name: value for name, value in given.items() if value is not None},
        )


def _wall(fields: Fields, text: str) -> time:
    matched = _WALL.fullmatch(text)
    if matched is None:
        return fields.fail("at", f"must be a time of day from 00:00 to 23:59 but is {format_value(text)}")
    return time(int(matched[1]), int(matched[2]), int(matched[3] or 0))
