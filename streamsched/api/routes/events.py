"""`GET /v1/events`: the newest ones of the log. `POST`: accepts events in any dialect and responds after the log has
acknowledged them.

| body | headers |
|---|---|
| one CloudEvent | `Content-Type: application/cloudevents+json` |
| several CloudEvents | `Content-Type: application/cloudevents-batch+json` |
| one CloudEvent with its attributes as `ce-*` headers | `ce-specversion` and any other content type |
| native JSON, the form of a dialect, or a list of these | `Content-Type: application/json` |

Each invalid event of a batch is reported with its index and the path of the field; the valid ones are accepted.
Header `traceparent` (W3C Trace Context) applies to events without a context of their own; a malformed one is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Final
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from streamsched.access.emit_spans import in_trace_of
from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyBytes, decode_body
from streamsched.api.bounds.request_limits import EVENTS, MOST_LISTED
from streamsched.api.deps import ServicesDep
from streamsched.api.problems import problem_response
from streamsched.api.reads.logged_events import EVENT_LIST, newest_events
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import JSON, Body, Routes
from streamsched.api.routing.rules import EMIT_ASKED, VIEW_ALL
from streamsched.catalog.listeners import ListenerHints
from streamsched.codec import event as event_codec
from streamsched.codec.events import cloudevents
from streamsched.codec.json.scalar import elements
from streamsched.codec.problem import error_to_json
from streamsched.domain.errors import DecodeError, ForbiddenError, InvalidError, Refusal
from streamsched.domain.events.event import Event
from streamsched.log.topics import PUBLIC
from streamsched.wire.events import ACCEPTED

routes = Routes("", "events")

#: Characters of a path or reason in an answer.
_LONGEST: Final = 500
#: Records of each partition that a list searches at most.
_DEEPEST: Final = 100_000
#: Events of a list. So many records of each partition are in memory, and one may have megabytes.
_MOST_LISTED: Final = 100
#: Of a request that does not ask which events are heard.
_UNASKED: Final = ListenerHints(())


class ContentMode(StrEnum):
    """The encoding of a request: one of the three content modes of CloudEvents, or other JSON."""

    STRUCTURED = "cloudevents"
    BATCH = "cloudevents-batch"
    BINARY = "cloudevents-binary"
    JSON = "json"


class Check(StrEnum):
    """What the response contains besides the acknowledgement."""

    LISTENERS = "listeners"
    NONE = "none"


@routes.get("/v1/events", "List events", may=VIEW_ALL, answers=EVENT_LIST.answer)
async def list_events(
    services: ServicesDep,
    *,
    text: Annotated[
        str, Query(max_length=200, description="Only events whose record contains this, in any case.")
    ] = "",
    depth: Annotated[
        int, Query(ge=1, le=_DEEPEST, description="Newest records of each partition of a topic that are searched.")
    ] = 1000,
    limit: Annotated[int, Query(ge=1, le=_MOST_LISTED, description="Number of events.")] = _MOST_LISTED,
) -> Response:
    """The newest events of the public topics, newest first, as the log has them: repeated ones too, and those that
    cannot be read, which have a `problem`. `position` is `topic/partition/offset`, `at` when the log appended it.
    """
    tail = await newest_events(services.events.search, PUBLIC, depth=depth, text=text, limit=limit)
    return json_response(EVENT_LIST.write(tail))


@routes.post(
    "/v1/events",
    "Emit events",
    may=EMIT_ASKED,
    body=Body(
        {
            JSON: "AnyEvents",
            "application/cloudevents+json": "CloudEvent",
            "application/cloudevents-batch+json": "CloudEvents",
        }
    ),
    answers={202: ACCEPTED.answer},
    missing=True,
    rated=True,
    limit=EVENTS,
)
async def accept(
    request: Request,
    body: BodyBytes,
    caller: CallerDep,
    services: ServicesDep,
    check: Annotated[
        Check, Query(description="`listeners`: report event keys without a listening schedule. `none`: do not check.")
    ] = Check.LISTENERS,
) -> Response:
    """Accepts one event or a list: CloudEvents (structured, batch or binary mode), native JSON, or the form of a
    dialect; the schema of the body names those that there are.

    202 `{"accepted", "ids", "errors", "unheard"}` when the log has acknowledged at least one event, 400 when all events
    are invalid. 413, and no event is accepted, when there are more than 10,000, or an event is larger than the log
    allows. `errors` has the first 1000 refused events; `refused` counts all when there are more. An event whose id is
    already known has no effect. An event that the caller may not announce is refused like an invalid one; 403 when it
    may announce none of them. 429, and no event is accepted, when a namespace has sent as many events as its quota
    allows, or when earlier ones of it wait for longer than `backlog_limit` to be read; `Retry-After` says when to send
    them again.

    `unheard` lists the event keys, such as `partition:default.flights`, that no schedule listens to; a frequent cause
    is a misspelt name. It is null when the check did not finish in time and missing with `check=none`. `keyless` lists
    those of the first 20 events that have no correlation key for any schedule that listens to them, or partitions
    without one, with the reason; it is missing when there are none.
    `GET /v1/events/{id}/verdicts` shows what the schedules made of an event.
    """
    mode = _mode(request)
    read = partial(_read_events, request.headers, mode=mode, now=services.clock.now())
    found = await decode_body(body, read)
    unreadable = {index: each for index, each in enumerate(found) if isinstance(each, DecodeError)}
    places = [index for index in range(len(found)) if index not in unreadable]
    readable = in_trace_of(request.headers, [each for each in found if isinstance(each, Event)])
    taken = await services.intake.take(caller, readable, body=len(body), dialect=mode)
    events, denied = taken.events, taken.denied
    if denied and not events and not unreadable:
        raise ForbiddenError(denied[0].reason)
    refused = [Refusal(index, each.path, each.reason) for index, each in unreadable.items()]
    refused += [Refusal(places[each.index], each.path, each.reason) for each in denied]
    refused.sort(key=lambda each: each.index)
    if refused:
        services.metrics.add("events_rejected_total", len(refused), dialect=mode)
    hints = await services.events.listeners.hints(events) if check is Check.LISTENERS else _UNASKED
    answer = ACCEPTED.answer_of(
        hints,
        events=len(events),
        ids=[event.id for event in events],
        errors=[Refusal(each.index, each.path[:_LONGEST], each.reason[:_LONGEST]) for each in refused[:MOST_LISTED]],
        refused=len(refused) if len(refused) > MOST_LISTED else 0,
    )
    return _answer(answer, refused)


def _answer(answer: dict[str, Any], refused: Sequence[Refusal]) -> Response:
    if answer["accepted"]:
        return json_response(answer, status=HTTPStatus.ACCEPTED)
    first = refused[0] if refused else Refusal(0, "$", "contains no event")
    problem = error_to_json(InvalidError(first.path, first.reason))
    return problem_response(problem | {"detail": f"no event was accepted: {problem['detail']}"} | answer)


def _mode(request: Request) -> ContentMode:
    content = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if content == "application/cloudevents+json":
        return ContentMode.STRUCTURED
    if content == "application/cloudevents-batch+json":
        return ContentMode.BATCH
    if "ce-specversion" in request.headers:
        return ContentMode.BINARY
    if content == "application/json" or content.endswith("+json"):
        return ContentMode.JSON
    raise HTTPException(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"content type '{content}' is not supported: use application/json, application/cloudevents+json, "
        "application/cloudevents-batch+json, or ce-* headers",
    )


def _read_events(
    headers: Mapping[str, str], body: bytes, *, mode: ContentMode, now: datetime
) -> list[Event | DecodeError]:
    """Each event of a request, or the error that makes it invalid, in order.

    Raises:
        DecodeError: the body as a whole is unreadable.
        HTTPException: 413, there are too many.
    """
    fallback_id = uuid4().hex
    if mode is ContentMode.BATCH or (mode is ContentMode.JSON and body.lstrip().startswith(b"[")):
        items = elements(body)
        EVENTS.check_elements(len(items))
        return event_codec.decode_each(items, fallback_id=fallback_id, fallback_time=now)
    try:
        if mode is ContentMode.BINARY:
            return [cloudevents.decode_binary(headers, body, fallback_time=now)]
        return [event_codec.decode(body, fallback_id=fallback_id, fallback_time=now)]
    except DecodeError as exc:
        return [exc.with_traceback(None)]  # its frames would keep the whole body
