"""`POST /v1/events`: accepts events in any dialect and responds after the log has acknowledged them.

| body | headers |
|---|---|
| one CloudEvent | `Content-Type: application/cloudevents+json` |
| several CloudEvents | `Content-Type: application/cloudevents-batch+json` |
| one CloudEvent with its attributes as `ce-*` headers | `ce-specversion` and any other content type |
| native JSON, a CDAP notification, or a list of these | `Content-Type: application/json` |

Each invalid event of a batch is reported with its index and the path of the field; the valid ones are accepted.
Header `traceparent` (W3C Trace Context) applies to events without a context of their own; a malformed one is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.access.definitions import may_announce
from streamsched.api.body import BodyBytes
from streamsched.api.deps import ApiServices, ServicesDep
from streamsched.api.emit_spans import in_trace_of
from streamsched.api.rendering import rendered
from streamsched.codec import event as event_codec
from streamsched.codec.events import cloudevents
from streamsched.domain.access.grant import Denied
from streamsched.domain.errors import DecodeError, ForbiddenError, Refusal
from streamsched.domain.events.event import Event
from streamsched.domain.signals.home import home
from streamsched.log.topics import public_topic
from streamsched.ports.broker import Outgoing

router = APIRouter(tags=["events"])


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


@router.post("/v1/events", summary="Emit events")
async def accept(
    request: Request,
    body: BodyBytes,
    caller: CallerDep,
    services: ServicesDep,
    check: Annotated[
        Check, Query(description="`listeners`: report event keys without a listening schedule. `none`: do not check.")
    ] = Check.LISTENERS,
) -> Response:
    """Accepts one event or a list: CloudEvents (structured, batch or binary mode), native JSON or CDAP notifications.

    202 `{"accepted", "ids", "errors", "unheard"}` when the log has acknowledged at least one event, 400 when all events
    are invalid. 413, and no event is accepted, when an event is larger than the log allows. An event whose id is
    already known has no effect. An event that the caller may not announce is refused like an invalid one; 403 when it
    may announce none of them. 429, and no event is accepted, when a namespace has sent as many events as its quota
    allows; `Retry-After` says when to send them again.

    `unheard` lists the event keys, such as `partition:default.flights`, that no schedule listens to; a frequent cause
    is a misspelt name. It is null when the check did not finish in time and missing with `check=none`.
    `GET /v1/events/{id}/verdicts` shows what the schedules made of an event.
    """
    mode = _mode(request)
    events: list[Event] = []
    refused: list[Refusal] = []
    denied: list[Refusal] = []
    for index, decoded in enumerate(_decoded(request.headers, body, mode, now=services.clock.now())):
        if isinstance(decoded, DecodeError):
            refused.append(Refusal(index, decoded.path, decoded.reason))
        elif isinstance(verdict := may_announce(caller, decoded.fact), Denied):
            denied.append(Refusal(index, "$", verdict.reason))
        else:
            events.append(decoded)
    if denied and not events and not refused:
        raise ForbiddenError(denied[0].reason)
    refused = sorted(refused + denied, key=lambda each: each.index)
    if refused:
        services.metrics.add("events_rejected_total", len(refused), dialect=mode)
    if events:
        await services.quota_watch.admit((event.fact for event in events), body=len(body))
        await _append(in_trace_of(request.headers, events), services)
        for event in events:
            services.metrics.add("events_accepted_total", topic=public_topic(event.fact), dialect=mode)
    answer: dict[str, Any] = {
        "accepted": len(events),
        "ids": [event.id for event in events],
        "errors": [{"index": each.index, "path": each.path, "reason": each.reason} for each in refused],
    }
    if check is Check.LISTENERS:
        answer["unheard"] = await services.listeners.without_listeners(event.key for event in events)
    return _answer(answer, refused)


async def _append(events: Sequence[Event], services: ApiServices) -> None:
    spans = services.emit_spans
    began_at = services.clock.now()
    onward = events if spans is None else spans.onward(events)
    await services.broker.append([outgoing(event, services.shards) for event in onward])
    if spans is not None:
        spans.accepted(events, began_at=began_at, ended_at=services.clock.now())


def outgoing(event: Event, shards: int) -> Outgoing:
    """The record of an event for its public topic, in the home partition of its key."""
    return Outgoing(public_topic(event.fact), home(event.key, shards), event.key.encode(), event_codec.encode(event))


def _answer(answer: dict[str, Any], refused: Sequence[Refusal]) -> Response:
    if answer["accepted"]:
        return rendered(answer, status=HTTPStatus.ACCEPTED)
    first = refused[0] if refused else Refusal(0, "$", "contains no event")
    problem = {
        "type": "urn:streamsched:problem:bad-request",
        "title": HTTPStatus.BAD_REQUEST.phrase,
        "status": int(HTTPStatus.BAD_REQUEST),
        "detail": f"no event was accepted: {first.path}: {first.reason}",
        "path": first.path,
        "reason": first.reason,
        "retriable": False,
    }
    return rendered({**problem, **answer}, status=HTTPStatus.BAD_REQUEST, media_type="application/problem+json")


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


def _decoded(headers: Mapping[str, str], body: bytes, mode: ContentMode, *, now: datetime) -> list[Event | DecodeError]:
    """Each event of a request, or the error that makes it invalid, in order.

    Raises:
        DecodeError: the body as a whole is unreadable.
    """
    fallback_id = uuid4().hex
    if mode is ContentMode.BATCH or (mode is ContentMode.JSON and body.lstrip().startswith(b"[")):
        return event_codec.decode_batch(body, fallback_id=fallback_id, fallback_time=now)
    try:
        if mode is ContentMode.BINARY:
            return [cloudevents.decode_binary(headers, body, fallback_time=now)]
        return [event_codec.decode(body, fallback_id=fallback_id, fallback_time=now)]
    except DecodeError as exc:
        return [exc]
