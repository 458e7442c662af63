"""The OpenAPI document: what FastAPI knows of the routes, with the bodies, answers and problems of `operations`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from streamsched.api.access.rules import PUBLIC, RULES, route_name
from streamsched.api.body import LINES
from streamsched.api.bounds.request_limits import ANSWERS as LIMITED_ANSWERS
from streamsched.api.bounds.request_limits import LIMITS, ORDINARY
from streamsched.api.description.definitions import ANSWERS
from streamsched.api.description.examples import example_of
from streamsched.api.description.executions import EXECUTIONS
from streamsched.api.description.expecting import EXPECTING
from streamsched.api.description.foreign import FOREIGN
from streamsched.api.description.needs import NEEDS
from streamsched.api.description.operating import OPERATING
from streamsched.api.description.operations import ARCHIVE, JSON, OPERATIONS, PLANNED, RATED, TAGGED, Operation
from streamsched.api.description.sending import SENDING
from streamsched.api.description.shared_schemas import REASON, SHARED
from streamsched.api.plain import CDAP_PREFIX
from streamsched.api.problems import CONTENT_TYPE
from streamsched.codec import problem
from streamsched.codec.json.scalar import DEEPEST
from streamsched.codec.schema.apps import DEFINITIONS
from streamsched.codec.schema.events import EVENTS
from streamsched.codec.schema.shapes import Definitions, Schema, extended, listed, one_of, record, ref

Document = dict[str, Any]

_COMPONENTS: Final = "#/components/schemas/"
_PAGERDUTY: Final = ("/api/v1/status", "/api/v1/task", "/api/v1/tasks")
#: How operation ids of other products' dialects begin.
_DIALECTS: Final = {
    "/v3/": "cdap",
    "/v1/dapr/": "dapr",
    "/api/v1/lineage": "openlineage",
    **dict.fromkeys(_PAGERDUTY, "pagerduty"),
}
#: In the paths of apps with a version, which is ignored.
_VERSIONED: Final = "/versions/{version}"
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


def schemas() -> dict[str, Schema]:
    """All named schemas of bodies and answers."""
    return {
        **DEFINITIONS,
        **EVENTS,
        **SHARED,
        **ANSWERS,
        **EXECUTIONS,
        **OPERATING,
        **FOREIGN,
        **NEEDS,
        **SENDING,
        **EXPECTING,
        "CloudEvents": listed(ref("CloudEvent"), maxItems=LIMITS["POST /v1/events"].elements),
        "NewTasks": one_of(ref("NewTask"), listed(ref("NewTask"), maxItems=1000)),
        "PauseRequest": extended(DEFINITIONS["Pause"], record({}, REASON)),
    }


def document(generated: Document) -> Document:
    """The document of an API from the one that FastAPI made.

    Raises:
        LookupError: a route is not among `OPERATIONS`, or an operation has no route.
    """
    known = schemas()
    seen: set[str] = set()
    paths: Document = {}
    for path, operations in generated["paths"].items():
        paths[path] = {}
        for method, found in operations.items():
            name = route_name(method.upper(), path)
            if name not in OPERATIONS:
                raise LookupError(f"api/description/operations.py does not describe {name}")
            seen.add(name)
            paths[path][method] = _operation(path, found, name, known)
    if idle := sorted(set(OPERATIONS) - seen):
        raise LookupError(f"api/description/operations.py describes routes that do not exist: {idle}")
    parameters = generated.get("components", {}).get("schemas", {})
    used = {name: schema for name, schema in parameters.items() if not name.endswith("ValidationError")}
    return {
        **generated,
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**used, **{name: _moved(_with_example(schema, known)) for name, schema in known.items()}},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token of `streamsched token create`, of a run, or of the OpenID provider.",
                }
            },
        },
    }


def described(api_openapi: Callable[[], Document]) -> Callable[[], Document]:
    """The document, made once, when it is asked for."""
    kept: list[Document] = []

    def openapi() -> Document:
        if not kept:
            kept.append(document(api_openapi()))
        return kept[0]

    return openapi


def _operation(path: str, found: Document, name: str, known: Definitions) -> Document:
    operation = OPERATIONS[name]
    public = path in PUBLIC
    described = {
        **{member: value for member, value in found.items() if member not in ("requestBody", "responses")},
        "summary": (summary := f"{found['summary']}{' with a version' if _VERSIONED in path else ''}"),
        "operationId": _identifier(path, summary),
        "parameters": _parameters(path, found),
        "responses": {**_answers(name, operation, known), **_problems(path, name, operation, public=public)},
    }
    if operation.body:
        described["requestBody"] = {
            "required": operation.required,
            "content": {media: _media(schema, known) for media, schema in operation.body.items()},
        }
        if not set(operation.body) & {ARCHIVE, LINES}:
            described["requestBody"]["x-limits"] = _limits(name)
    if name in LIMITED_ANSWERS:
        described["x-limits"] = {"schedules": LIMITED_ANSWERS[name]}
    if public:
        described["security"] = []
    else:
        described["x-permission"] = RULES[name].permission.value
        described["x-scope"] = RULES[name].scope.value
        if RULES[name].emits is not None:
            described["x-emits"] = RULES[name].emits
    return described


def _limits(name: str) -> Document:
    """What the body of a route may hold, as `api.bounds.request_limits`."""
    limit = LIMITS.get(name, ORDINARY)
    found = {"values": limit.values, "levels": DEEPEST}
    return found if limit.elements is None else {**found, "elements": limit.elements}


def _parameters(path: str, found: Document) -> list[Document]:
    """The parameters, with those of the path that the function of the route does not read."""
    given = found.get("parameters", [])
    known = {each["name"] for each in given if each["in"] == "path"}
    missing = [name for name in re.findall(r"\{(\w+)", path) if name not in known]
    ignored = {"version": {"description": "Ignored: schedules belong to the app."}}
    own = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, **ignored.get(name, {})}
        for name in missing
    ]
    return [*own, *given]


def _answers(name: str, operation: Operation, known: Definitions) -> Document:
    found: Document = {}
    for status, schema in operation.answers.items():
        answer: Document = {"description": HTTPStatus(status).phrase}
        if schema:
            content = _media(schema, known)
            if status == HTTPStatus.OK and name in PLANNED:
                content = {
                    "schema": {"anyOf": [content["schema"], {"$ref": f"{_COMPONENTS}Plan"}]},
                    "examples": {
                        "done": {"value": content["example"]},
                        "plan": {"value": example_of(known["Plan"], known)},
                    },
                }
            answer["content"] = {
                media: content if media == JSON or len(operation.media) == 1 else {"schema": {"type": "string"}}
                for media in operation.media
            }
        found[str(status)] = answer
    method, _, path = name.partition(" ")
    if path in TAGGED and method in {"GET", "PUT"}:
        found["200"]["headers"] = {"ETag": _ETAG}
    if path in TAGGED and method == "GET":
        found["304"] = {"description": HTTPStatus.NOT_MODIFIED.phrase, "headers": {"ETag": _ETAG}}
    return found


def _problems(path: str, name: str, operation: Operation, *, public: bool) -> Document:
    statuses = [HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST]
    if not public:
        statuses += [HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE]
    if path in _PAGERDUTY:
        statuses.append(HTTPStatus.INTERNAL_SERVER_ERROR)
    if "{" in path or operation.missing:
        statuses.append(HTTPStatus.NOT_FOUND)
    if operation.conflict:
        statuses.append(HTTPStatus.CONFLICT)
    if path in TAGGED and name.startswith(("PUT", "DELETE")):
        statuses.append(HTTPStatus.PRECONDITION_FAILED)
    if not name.startswith("GET"):
        statuses += [HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE]
    if name in LIMITED_ANSWERS:
        statuses.append(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    if name in RATED:
        statuses.append(HTTPStatus.TOO_MANY_REQUESTS)
    return {str(int(status)): _problem(path, name, status) for status in sorted(statuses)}


def _problem(path: str, name: str, status: HTTPStatus) -> Document:
    example = problem.to_json(status, _DESCRIBED[status])
    content: Document = {CONTENT_TYPE: {"schema": {"$ref": f"{_COMPONENTS}Problem"}, "example": example}}
    if path.startswith(CDAP_PREFIX):
        content |= {"text/plain; charset=utf-8": {"schema": {"type": "string"}, "example": _DESCRIBED[status]}}
    if path in _PAGERDUTY:
        own = {"$ref": f"{_COMPONENTS}PagerdutyProblem"}
        content |= {JSON: {"schema": own, "example": {"errors": [_DESCRIBED[status]]}}}
    if name == "POST /v1/events" and status is HTTPStatus.BAD_REQUEST:
        either = [{"$ref": f"{_COMPONENTS}RefusedEvents"}, {"$ref": f"{_COMPONENTS}Problem"}]
        content[CONTENT_TYPE]["schema"] = {"anyOf": either}
    return {"description": _DESCRIBED[status], "content": content}


def _media(schema: str, known: Definitions) -> Document:
    return {"schema": {"$ref": f"{_COMPONENTS}{schema}"}, "example": example_of(known[schema], known)}


def _identifier(path: str, summary: str) -> str:
    """The operation id: the summary as one word, after the dialect."""
    words = [word.lower() for word in re.findall(r"[A-Za-z]+", summary.replace("'s", ""))]
    dialect = next((own for start, own in _DIALECTS.items() if path.startswith(start)), "")
    parts = [*([dialect] if dialect else []), *(word for word in words if word not in ("a", "an", "the", dialect))]
    return parts[0] + "".join(part.capitalize() for part in parts[1:])


def _with_example(schema: Schema, known: Mapping[str, Schema]) -> Schema:
    return schema if schema.get("examples") else {**schema, "examples": [example_of(schema, known)]}


def _moved(schema: Any) -> Any:
    """The schema with its references as those of an OpenAPI document, without the marks of this program."""
    match schema:
        case {"$ref": str(target)}:
            return {"$ref": _COMPONENTS + target.rpartition("/")[2]}
        case dict():
            return {name: _moved(value) for name, value in schema.items() if name != "x-key"}
        case list():
            return [_moved(each) for each in schema]
        case _:
            return schema
