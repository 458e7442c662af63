"""Building blocks of schemas. Each has an example, from which those of larger documents are composed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from streamsched.domain.limits import MOST

Schema = dict[str, Any]
Definitions = Mapping[str, Schema]

#: Patterns of names; `domain.names` has the rules.
NAMESPACE: Final = "^[a-zA-Z0-9_]+$"
NAME: Final = "^[a-zA-Z0-9_-]+$"
SCHEDULE_NAME: Final = r"^[^/\u0000-\u001f\u007f]{1,255}$"
#: A time of day.
WALL: Final = "^([01]?[0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$"
#: A text whose characters PostgreSQL can store.
_STORABLE: Final = r"^[^\u0000]*$"
_PART: Final = r"[0-9]+(\.[0-9]+)?\s*(ms|us|[wdhms])\s*"

_REF: Final = "#/$defs/"


def text(example: str = "a text", *, about: str = "", **rules: Any) -> Schema:
    """A text without NUL."""
    return {
        "type": "string",
        **({} if rules else {"pattern": _STORABLE}),
        **rules,
        "examples": [example],
        **_description(about),
    }


def any_text(example: str = "a text", about: str = "") -> Schema:
    """A text of an answer."""
    return {"type": "string", "examples": [example], **_description(about)}


def name(example: str = "flights", pattern: str = NAME, about: str = "") -> Schema:
    """A name."""
    return text(example, pattern=pattern, about=about)


def duration(example: str = "15m", about: str = "") -> Schema:
    """A duration such as `2h30m`."""
    return text(example, pattern=f"^({_PART})+$", about=about or "A duration: numbers with units, such as `2h30m`.")


def like(example: Any, about: str) -> Schema:
    """An object of another product's dialect."""
    return {"type": "object", "examples": [example], "description": about}


def instant(example: str = "2026-03-01T06:00:00Z", about: str = "") -> Schema:
    """An ISO 8601 instant with an offset."""
    return {"type": "string", "format": "date-time", "examples": [example], **_description(about)}


def integer(example: int = 1, *, least: int = 0, most: int = MOST, about: str = "") -> Schema:
    """A whole number."""
    return {"type": "integer", "minimum": least, "maximum": most, "examples": [example], **_description(about)}


def number(example: float = 0.5, about: str = "") -> Schema:
    """A number."""
    return {"type": "number", "examples": [example], **_description(about)}


def boolean(example: bool = True, about: str = "") -> Schema:
    """True or false."""
    return {"type": "boolean", "examples": [example], **_description(about)}


def choice(options: Iterable[str] | type[StrEnum], about: str = "") -> Schema:
    """One of some texts; the first is the example."""
    listed = [str(option) for option in options]
    return {"type": "string", "enum": listed, "examples": listed[:1], **_description(about)}


def constant(value: str) -> Schema:
    """That text."""
    return {"type": "string", "const": value, "examples": [value]}


def anything(example: object = None, about: str = "") -> Schema:
    """Any JSON value."""
    return {"examples": [example], **_description(about)}


def ref(definition: str) -> Schema:
    """The schema of that name."""
    return {"$ref": _REF + definition}


def array(item: Schema, about: str = "", **rules: Any) -> Schema:
    """A list."""
    return {"type": "array", "items": item, **rules, **_description(about)}


def object_by_name(value: Schema, key: str = "year", about: str = "", **rules: Any) -> Schema:
    """An object from names to values. `key`: the name in the example."""
    return {"type": "object", "additionalProperties": value, "x-key": key, **rules, **_description(about)}


def texts(key: str = "day", value: str = "2026-03-01", about: str = "", **rules: Any) -> Schema:
    """An object of texts."""
    return object_by_name(text(value), key, about, **rules)


def record(
    required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None, about: str = "", **rules: Any
) -> Schema:
    """An object with these members and no others. An optional member may also be null, which means absent."""
    return {
        "type": "object",
        "properties": {**required, **{each: nullable(schema) for each, schema in (optional or {}).items()}},
        "required": list(required),
        "additionalProperties": False,
        **rules,
        **_description(about),
    }


def answer(members: Mapping[str, Schema], sometimes: Mapping[str, Schema] | None = None, about: str = "") -> Schema:
    """An object of an answer: it always has these members, and `sometimes` the others."""
    return {
        "type": "object",
        "properties": {**members, **(sometimes or {})},
        "required": list(members),
        "additionalProperties": False,
        **_description(about),
    }


def page(member: str, item: Schema) -> Schema:
    """A page of a list, in a member of an answer."""
    return answer({member: array(item)}, {"next": any_text("default.flights.weekly", "`after` of the following page.")})


def extend(base: Schema, *others: Schema) -> Schema:
    """An object with the members of all."""
    properties: Schema = {}
    required: list[str] = []
    for each in (base, *others):
        properties |= each["properties"]
        required += [one for one in each["required"] if one not in required]
    return {**base, "properties": properties, "required": required}


def spread(base: Schema, other: Schema) -> Schema:
    """An object with the members of another too, which may be one of several."""
    if "anyOf" in other and "properties" not in other:
        return one_of(*(extend(each, base) for each in other["anyOf"]), about=base.get("description", ""))
    return extend(base, other)


def drop_members(base: Schema, *members: str) -> Schema:
    """An object without some members."""
    return {
        **base,
        "properties": {each: schema for each, schema in base["properties"].items() if each not in members},
        "required": [each for each in base["required"] if each not in members],
    }


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema and "const" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        return {**schema, "type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    if not set(schema) - {"examples", "description"}:
        return schema
    return {"anyOf": [schema, {"type": "null"}]}


def one_of(*schemas: Schema, about: str = "") -> Schema:
    """Any of some schemas; the example is that of the first."""
    return {"anyOf": list(schemas), **_description(about)}


def _description(about: str) -> Schema:
    return {"description": about} if about else {}
