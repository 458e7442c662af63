"""Schemas of events: native JSON and CloudEvents (`codec.events`). Readers skip members that they do not know."""

from __future__ import annotations

from typing import Any, Final

from streamsched.codec.shape.schemas import (
    Definitions,
    Schema,
    any_text,
    array,
    boolean,
    choice,
    constant,
    instant,
    integer,
    nullable,
    object_by_name,
    one_of,
    text,
)
from streamsched.domain.events.event import Outcome

_DOTTED: Final = r"^([a-zA-Z0-9_]+\.)?[$a-zA-Z0-9_-]+$"
_PROGRAM: Final = r"^[a-zA-Z0-9_]+\.[a-zA-Z0-9_-]+\.[a-zA-Z0-9_-]+$"
#: A name without control characters and lone surrogates.
_WORD: Final = {"pattern": "^[ -~]+$"}
_SCALARS: Final = object_by_name(one_of(text("EU"), {"type": "integer"}, {"type": "boolean"}), "region")


def _open_object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object that may have other members."""
    properties = {**required, **{name: nullable(schema) for name, schema in (optional or {}).items()}}
    return {"type": "object", "properties": properties, "required": list(required)}


_PARTITION: Final = one_of(
    text("day=2026-03-01", minLength=1),
    _open_object(
        {"key": text("day=2026-03-01", minLength=1)}, {"values": _SCALARS, "bytes": integer(1024), "rows": integer(10)}
    ),
)
#: The data of each type, without the prefix of CloudEvents.
_DATA: Final[dict[str, Schema]] = {
    "partitions.added": _open_object(
        {"dataset": text("default.flights", pattern=_DOTTED), "partitions": array(_PARTITION, minItems=1)},
        {
            "run": text("default.flights.weekly.1.1.r1", **_WORD, description="The run that committed them."),
            "statistics_follow": boolean(),
        },
    ),
    "stream.size": _open_object(
        {"stream": text("default.clicks", pattern=_DOTTED), "bytes": integer(1_000_000)},
        {},
    )
    | {
        "properties": {
            "stream": text("default.clicks", pattern=_DOTTED),
            "bytes": integer(1_000_000),
            "absolute": boolean(),
        }
    },
    "program.status": _open_object(
        {
            "program": text("default.flights.join", pattern=_PROGRAM),
            "run": text("default.flights.weekly.1.1.r1", **_WORD),
            "outcome": choice(Outcome),
        },
        {"ended_at": instant(), "error": any_text("exit code 1")},
    ),
    "custom": _open_object({"name": text("default.approved", pattern=_DOTTED)})
    | {"properties": {"name": text("default.approved", pattern=_DOTTED), "attributes": _SCALARS}},
}


def _event(kind: str, data: Schema) -> Schema:
    members = {"id": text("e1", **_WORD), "source": text("feeds", **_WORD), "type": constant(kind), "data": data}
    return _open_object(members, {"time": instant()})


def _cloud_event(kind: Schema, data: Schema) -> Schema:
    members: dict[str, Any] = {
        "specversion": constant("1.0"),
        "id": text("e1", **_WORD),
        "source": text("feeds", **_WORD),
        "type": kind,
    }
    return _open_object({**members, "data": data}, {"time": instant()})


EVENTS: Final[Definitions] = {
    "Event": one_of(*(_event(kind, data) for kind, data in _DATA.items()), about="An event in native JSON."),
    "CloudEvent": one_of(
        *(_cloud_event(constant(f"streamsched.{kind}"), data) for kind, data in _DATA.items()),
        about="A CloudEvent. Other types than these become custom events.",
    ),
}
