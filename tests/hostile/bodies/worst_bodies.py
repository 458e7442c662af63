"""The worst requests for every route: junk with as many values as its limit allows and of the largest size, valid
bodies whose lists, objects and texts are at the limit, and paths and queries as long as a head may be.

Made from the table of routes and the schemas of their bodies, so a new route is in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle
from typing import Any, Final

import orjson

from streamsched.api.body import LINES
from streamsched.api.bounds.request_limits import RequestLimit
from streamsched.api.description.document import schemas
from streamsched.api.description.examples import example_of
from streamsched.api.routing.routes import ARCHIVE, JSON
from streamsched.codec.json.scalar import DEEPEST
from streamsched.codec.json.size import values_in
from streamsched.codec.shape.schemas import Definitions, Schema
from tests.support.api_routes import api_routes, routes_by_name

#: Bytes of the largest body.
LARGEST: Final = 16 * 1024 * 1024
#: Characters of a path or query; a head has at most 16 KiB.
_LONG: Final = 12_000
_TEXT: Final = 1_000_000
#: What paths name. Of the others nothing exists.
_NAMES: Final[Mapping[str, str]] = {
    "namespace": "default",
    "app": "flights",
    "schedule": "default.flights.weekly",
    "program": "default.flights.join",
    "queue": "mail",
    "dataset": "flights",
    "category": "workflows",
    "action": "enable",
}
#: Streams that do not end, and what ends the token of the trial itself.
_OMITTED: Final = frozenset({"GET /v1/decisions", "POST /v1/tokens/{token}/revoke", "GET /v1/audit/verify"})


@dataclass(frozen=True, slots=True)
class WorstRequest:
    """Attributes:
    route: its name in the table of routes.
    kind: of the body, for people.
    """

    route: str
    kind: str
    path: str
    body: bytes = field(default=b"", repr=False)
    media: str = JSON

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]


def worst_requests() -> Iterator[WorstRequest]:
    """All of them, those of one route after another."""
    large = cycle(_junk(RequestLimit(values=LARGEST)))
    known = schemas(each.route for each in api_routes().served)
    for route in sorted(routes_by_name(), key=_order):
        method, _, pattern = route.partition(" ")
        if route in _OMITTED:
            continue
        if method in {"GET", "DELETE"}:
            yield from _long_heads(route, pattern)
            continue
        path = _path(pattern)
        bodies = _bodies_of(route)
        media = [each for each in bodies if each not in {LINES, ARCHIVE}]
        if not media:
            yield WorstRequest(route, "bytes", path, bytes(LARGEST), _media_of(route))
            continue
        limit = routes_by_name()[route].limit
        for kind, body in (*_junk(limit), next(large)):
            yield WorstRequest(route, kind, path, body)
        for each in media:
            for kind, value in _grown(known[bodies[each]], known, limit):
                yield WorstRequest(route, f"valid: {kind}", path, orjson.dumps(value), each)


def _order(route: str) -> tuple[bool, bool, str]:
    """First what reads a body, last what deletes the things that others name."""
    return route.startswith("DELETE"), route.startswith("GET"), route


def _media_of(route: str) -> str:
    return next(iter(_bodies_of(route)), JSON)


def _bodies_of(route: str) -> dict[str, str]:
    """The names of the schemas of its bodies by content type."""
    body = routes_by_name()[route].body
    schemas_of = {} if body is None else body.by_media
    return {media: each if isinstance(each, str) else each.name for media, each in schemas_of.items()}


def _path(pattern: str, **names: str) -> str:
    known = {**_NAMES, **names}
    parts = (known.get(part.strip("{}"), "none") if part.startswith("{") else part for part in pattern.split("/"))
    return "/".join(parts)


def _long_heads(route: str, pattern: str) -> Iterator[WorstRequest]:
    yield WorstRequest(route, "plain", _path(pattern))
    yield WorstRequest(route, "long query", f"{_path(pattern)}?{'&'.join(f'x{n}=1' for n in range(_LONG // 8))}")
    for name in ("namespace", "app", "schedule", "after", "focus", "limit", "ids", "key"):
        yield WorstRequest(route, f"long {name}", f"{_path(pattern)}?{name}={'9' * _LONG}")
    for part in (part.strip("{}") for part in pattern.split("/") if part.startswith("{")):
        yield WorstRequest(route, f"long path {part}", _path(pattern, **{part: "x." * (_LONG // 2)}))


@cache
def _junk(limit: RequestLimit) -> tuple[tuple[str, bytes], ...]:
    """Bodies with as many values as the limit allows, or, where it allows more, of the largest size."""
    deep = b"[" * (DEEPEST - 2) + b"]" * (DEEPEST - 2)
    return (
        ("numbers", _list_of(b"1", limit)),
        ("large numbers", _list_of(b"9" * 300, limit)),
        ("objects", _list_of(b"{}", limit)),
        ("members", _list_of(b'{"a":1}', limit)),
        ("nested", _list_of(deep, limit)),
        ("one text", b'"' + b"x" * (LARGEST - 2) + b'"'),
        ("quotes", b'["' + b'\\"' * (LARGEST // 2 - 4) + b'"]'),
    )


def _list_of(element: bytes, limit: RequestLimit) -> bytes:
    number = min((limit.values - 2) // values_in(element, most=LARGEST), (LARGEST - 2) // (len(element) + 1))
    return b"[" + b",".join([element] * number) + b"]"


def _grown(schema: Schema, known: Definitions, limit: RequestLimit) -> Iterator[tuple[str, Any]]:
    """Bodies of a schema, each with one part as large as it may be."""
    for variant in _variants(schema, known):
        if variant.get("type") == "array":
            most = variant.get("maxItems") or limit.elements or limit.values
            yield "list", _many(variant["items"], known, limit, most)
            continue
        base = example_of(variant, known)
        for name, part in variant.get("properties", {}).items():
            for kind, value in _large(part, known, limit):
                yield f"{kind} {name}", {**base, name: value}


def _large(part: Schema, known: Definitions, limit: RequestLimit) -> Iterator[tuple[str, Any]]:
    for schema in _variants(part, known):
        kinds = schema.get("type", "")
        if "array" in kinds:
            yield "list", _many(schema["items"], known, limit, schema.get("maxItems") or limit.values)
        elif "object" in kinds and schema.get("additionalProperties"):
            values = _many(schema["additionalProperties"], known, limit, schema.get("maxProperties") or limit.values)
            yield "object", {f"name{index}": value for index, value in enumerate(values)}
        elif "string" in kinds and not {"enum", "const", "format", "maxLength"} & schema.keys():
            yield "text", "x" * _TEXT


def _many(schema: Schema, known: Definitions, limit: RequestLimit, most: int) -> list[Any]:
    example = example_of(schema, known)
    size = len(orjson.dumps(example))
    number = min(
        most, (limit.values - 100) // (values_in(orjson.dumps(example), most=LARGEST) + 1), LARGEST // (size + 12)
    )
    return [_distinct(example, index) for index in range(number)]


def _distinct(example: Any, index: int) -> Any:
    match example:
        case str():
            return f"{example}{index}"
        case dict():
            named = {
                key: f"{example[key]}{index}" for key in ("id", "name", "key") if isinstance(example.get(key), str)
            }
            return {**example, **named}
        case _:
            return example


def _variants(schema: Schema, known: Definitions) -> Iterator[Schema]:
    if "$ref" in schema:
        yield from _variants(known[schema["$ref"].rpartition("/")[2]], known)
    elif "anyOf" in schema and "properties" not in schema:
        for each in schema["anyOf"]:
            yield from _variants(each, known)
    else:
        yield schema
