"""The OpenAPI document, of what the routes say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from inspect import cleandoc
from typing import Any, Final

from streamsched import __version__
from streamsched.api.body import LINES
from streamsched.api.bounds.request_limits import EVENTS as MOST_EVENTS
from streamsched.api.bounds.request_limits import RequestLimit
from streamsched.api.description.examples import example_of
from streamsched.api.description.shared_schemas import SHARED
from streamsched.api.plan_views import PLAN
from streamsched.api.preconditions import read_expected, read_tagged
from streamsched.api.problems import CONTENT_TYPE
from streamsched.api.routing.routes import ARCHIVE, JSON, PLAIN, VERSION, Route
from streamsched.api.routing.table import ServedRoute
from streamsched.codec import problem
from streamsched.codec.json.scalar import DEEPEST
from streamsched.codec.schema.apps import DEFINITIONS
from streamsched.codec.schema.events import EVENTS
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import Definitions, Schema, array, ref
from streamsched.wire.events import REFUSED

Document = dict[str, Any]

_COMPONENTS: Final = "#/components/schemas/"
_ETAG: Final = {
    "description": "The revision of the thing, and after a `-` a digest of the answer.",
    "schema": {"type": "string"},
    "example": '"7-0a1b2c3d4e5f6071"',
}
_DESCRIBED: Final = {
    HTTPStatus.BAD_REQUEST: "The request is wrong; `path` and `reason` say where and why.",
    HTTPStatus.UNAUTHORIZED: "The request has no valid token.",
    HTTPStatus.FORBIDDEN: "The caller has no permission, a quota forbids it, or a page of another origin made it.",
    HTTPStatus.NOT_FOUND: "There is no such thing, or the caller may not see it.",
    HTTPStatus.CONFLICT: "The state of the thing forbids the request, or it exists already.",
    HTTPStatus.PRECONDITION_FAILED: "The thing has another revision than `If-Match` expects; nothing was changed.",
    HTTPStatus.REQUEST_TIMEOUT: "The body arrives too slowly.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Body or answer has more than `x-limits` allows.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is of a content type that this route does not read.",
    HTTPStatus.MISDIRECTED_REQUEST: "The Host header names a host that is not allowed.",
    HTTPStatus.TOO_MANY_REQUESTS: "A namespace has sent as many events as its quota allows; see `Retry-After`.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "A part of the installation cannot be reached; the request can be repeated.",
    HTTPStatus.SERVICE_UNAVAILABLE: "A part of the installation is away, or other bodies take the room; `Retry-After`.",
}


def schemas(routes: Iterable[Route] = ()) -> dict[str, Schema]:
    """All named schemas of bodies and answers, with those that the routes have written where they stand."""
    return {
        **DEFINITIONS,
        **EVENTS,
        **SHARED,
        "CloudEvents": array(ref("CloudEvent"), maxItems=MOST_EVENTS.elements),
        **{shape.name: shape.schema for shape in (*PLAN.answer.all, *REFUSED.all)},
        **{shape.name: shape.schema for route in routes for shape in route.shapes},
    }


def document(routes: Sequence[ServedRoute]) -> Document:
    """The OpenAPI document of the routes."""
    known = schemas(each.route for each in routes)
    paths: defaultdict[str, Document] = defaultdict(dict)
    for each in routes:
        paths[each.route.pattern][each.route.method.lower()] = _operation(each, known)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streamsched",
            "summary": "Starts the right Spark job seconds after its inputs are complete.",
            "version": __version__,
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {name: _move_refs(_with_example(schema, known)) for name, schema in known.items()},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `streamsched token create`, of a run, or of the OpenID provider.",
                }
            },
        },
    }


def _operation(served: ServedRoute, known: Definitions) -> Document:
    route = served.route
    summary = f"{route.summary}{' with a version' if VERSION in route.path else ''}"
    described: Document = {
        "tags": [route.tag],
        "summary": summary,
        "description": cleandoc(route.function.__doc__ or ""),
        "operationId": _identifier(route.dialect.name if route.dialect else "", summary),
        "parameters": [*_path_parameters(route.pattern), *(each.openapi for each in served.call.parameters)],
        "responses": {**_answers(served, known), **_problems(served)},
    }
    if route.body is not None:
        schemas = route.body.by_media
        described["requestBody"] = {
            "required": route.body.required,
            "content": {media: _media(schema, known) for media, schema in schemas.items()},
        }
        if not set(schemas) & {ARCHIVE, LINES}:
            described["requestBody"]["x-limits"] = _limits(route.limit)
    if route.schedules is not None:
        described["x-limits"] = {"schedules": route.schedules}
    if route.rule is None:
        described["security"] = []
    else:
        described["x-permission"] = route.rule.permission.value
        described["x-scope"] = route.rule.scope.value
        if route.rule.emits is not None:
            described["x-emits"] = route.rule.emits
    return described


def _limits(limit: RequestLimit) -> Document:
    """What the body of a route may hold."""
    found = {"values": limit.values, "levels": DEEPEST}
    return found if limit.elements is None else {**found, "elements": limit.elements}


def _path_parameters(pattern: str) -> list[Document]:
    ignored = {"version": {"description": "Ignored: schedules belong to the app."}}
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **ignored.get(name, {})}
        for name in re.findall(r"\{(\w+)", pattern)
    ]


def _answers(served: ServedRoute, known: Definitions) -> Document:
    route, found = served.route, dict[str, Any]()
    planned = {"dry_run", "plan"} <= served.filters and PLAN.answer not in route.answers.values()
    for status, schema in route.answers.items():
        answer: Document = {"description": HTTPStatus(status).phrase}
        if schema:
            content = _media(schema, known)
            if status == HTTPStatus.OK and planned:
                content = {
                    "schema": {"anyOf": [content["schema"], {"$ref": f"{_COMPONENTS}Plan"}]},
                    "examples": {
                        "done": {"value": content["example"]},
                        "plan": {"value": example_of(known["Plan"], known)},
                    },
                }
            answer["content"] = {
                media: content if media == JSON or len(route.media) == 1 else {"schema": {"type": "string"}}
                for media in route.media
            }
        found[str(status)] = answer
    if (read_tagged in served.call.functions) or (read_expected in served.call.functions and route.method == "PUT"):
        found["200"]["headers"] = {"ETag": _ETAG}
    if read_tagged in served.call.functions:
        found["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase, "headers": {"ETag": _ETAG}}
    return found


def _problems(served: ServedRoute) -> Document:
    route, path = served.route, served.route.pattern
    statuses = {HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST}
    if route.rule is not None:
        statuses |= {HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE}
    if route.dialect is not None and route.dialect.refusal is not None:
        statuses.add(HTTPStatus.INTERNAL_SERVER_ERROR)
    if "{" in path or route.missing:
        statuses.add(HTTPStatus.NOT_FOUND)
    if route.conflict:
        statuses.add(HTTPStatus.CONFLICT)
    if read_expected in served.call.functions:
        statuses.add(HTTPStatus.PRECONDITION_FAILED)
    if route.method != "GET":
        statuses |= {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE}
    if route.schedules is not None:
        statuses.add(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    if route.rated:
        statuses.add(HTTPStatus.TOO_MANY_REQUESTS)
    return {str(int(status)): _problem(route, status) for status in sorted(statuses)}


def _problem(route: Route, status: HTTPStatus) -> Document:
    example = problem.to_json(status, _DESCRIBED[status])
    content: Document = {CONTENT_TYPE: {"schema": {"$ref": f"{_COMPONENTS}Problem"}, "example": example}}
    if route.dialect is not None and route.dialect.message is not None:
        content |= {PLAIN: {"schema": {"type": "string"}, "example": _DESCRIBED[status]}}
    if route.dialect is not None and route.dialect.refusal is not None:
        schema, refuse = route.dialect.refusal
        own = {"$ref": f"{_COMPONENTS}{schema.name}"}
        content |= {JSON: {"schema": own, "example": refuse(_DESCRIBED[status])}}
    if route.name == "POST /v1/events" and status is HTTPStatus.BAD_REQUEST:
        either = [{"$ref": f"{_COMPONENTS}RefusedEvents"}, {"$ref": f"{_COMPONENTS}Problem"}]
        content[CONTENT_TYPE]["schema"] = {"anyOf": either}
    return {"description": _DESCRIBED[status], "content": content}


def _media(schema: str | NamedSchema, known: Definitions) -> Document:
    name = schema if isinstance(schema, str) else schema.name
    return {"schema": {"$ref": f"{_COMPONENTS}{name}"}, "example": example_of(known[name], known)}


def _identifier(dialect: str, summary: str) -> str:
    """The operation id: the summary as one word, after the dialect."""
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", summary.replace("'s", ""))]
    parts = [*([dialect] if dialect else []), *(word for word in words if word not in ("a", "an", "the", dialect))]
    return parts[0] + "".join(part.capitalize() for part in parts[1:])


def _with_example(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    return schema if schema.get("examples") else {**schema, "examples": [example_of(schema, known)]}


def _move_refs(schema: Any) -> Any:
    """The schema with its references as those of an OpenAPI document, without the marks of this program."""
    match schema:
        case {"$ref": str(target)}:
            return {"$ref": _COMPONENTS + target.rpartition("/")[2]}
        case dict():
            return {name: _move_refs(value) for name, value in schema.items() if name != "x-key"}
        case list():
            return [_move_refs(each) for each in schema]
        case _:
            return schema
