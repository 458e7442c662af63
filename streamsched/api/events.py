"""`POST /v1/events`: events in any dialect, answered only after the log has acknowledged them.

| body | how it is said |
|---|---|
| one CloudEvent | `Content-Type: application/cloudevents+json` |
| several CloudEvents | `Content-Type: application/cloudevents-batch+json` |
| one CloudEvent, its attributes as `ce-*` headers | any other content type, and `ce-specversion` |
| native JSON, a CDAP notification, or a list of these | `Content-Type: application/json` |

Each bad event of a batch is reported with its place and the path to the field; the others are taken all the same.
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

from streamsched.api.body import BodyBytes
from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import rendered
from streamsched.codec import cloudevents
from streamsched.codec import event as event_codec
from streamsched.domain.errors import DecodeError, Refusal
from streamsched.domain.event import Event
from streamsched.domain.home import home
from streamsched.ports.broker import Outgoing
from streamsched.ports.topics import public_topic

router = APIRouter()


class ContentMode(StrEnum):
    """How a request says its events: in one of CloudEvents' three content modes, or as other JSON."""

    STRUCTURED = "cloudevents"
    BATCH = "cloudevents-batch"
    BINARY = "cloudevents-binary"
    JSON = "json"


class Check(StrEnum):
    """What the caller wants to know beside the acknowledgement."""

    LISTENERS = "listeners"
    NONE = "none"


@router.post("/v1/events")
async def accept(
    request: Request, body: BodyBytes, services: ServicesDep, check: Annotated[Check, Query()] = Check.LISTENERS
) -> Response:
    """202 `{"accepted", "ids", "errors", "unheard"}` when at least one event is in the log, 400 when none was fit,
    413 and none taken when one is larger than the log takes.

    `unheard` names what the events are about and no schedule listens to now, most often a misspelt name; it is null
    when nobody could tell in time, and missing with `check=none`. What became of an event in the end says
    `/v1/events/{id}/verdicts`.
    """
    mode = _mode(request)
    events: list[Event] = []
    refused: list[Refusal] = []
    for index, found in enumerate(_decoded(request.headers, body, mode, now=services.clock.now())):
        if isinstance(found, Event):
            events.append(found)
        else:
            refused.append(Refusal(index, found.path, found.reason))
    if refused:
        services.metrics.add("events_rejected_total", len(refused), dialect=mode)
    if events:
        await services.broker.append([outgoing(event, services.shards) for event in events])
        for event in events:
            services.metrics.add("events_accepted_total", topic=public_topic(event.fact), dialect=mode)
    answer: dict[str, Any] = {
        "accepted": len(events),
        "ids": [event.id for event in events],
        "errors": [{"index": each.index, "path": each.path, "reason": each.reason} for each in refused],
    }
    if check is Check.LISTENERS:
        answer["unheard"] = await services.audience.unheard(event.key for event in events)
    return _answer(answer, refused)


def outgoing(event: Event, shards: int) -> Outgoing:
    """The record of an event on its public topic, in its key's home partition."""
    return Outgoing(public_topic(event.fact), home(event.key, shards), event.key.encode(), event_codec.encode(event))


def _answer(answer: dict[str, Any], refused: Sequence[Refusal]) -> Response:
    if answer["accepted"]:
        return rendered(answer, status=HTTPStatus.ACCEPTED)
    first = refused[0] if refused else Refusal(0, "$", "holds no event")
    described = {
        "type": "urn:streamsched:problem:bad-request",
        "title": HTTPStatus.BAD_REQUEST.phrase,
        "status": int(HTTPStatus.BAD_REQUEST),
        "detail": f"no event was accepted: {first.path}: {first.reason}",
        "path": first.path,
        "reason": first.reason,
        "retriable": False,
    }
    return rendered({**described, **answer}, status=HTTPStatus.BAD_REQUEST, media_type="application/problem+json")


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
        f"'{content}' is no way to say events: application/json, application/cloudevents+json, "
        "application/cloudevents-batch+json, or ce-* headers",
    )


def _decoded(headers: Mapping[str, str], body: bytes, mode: ContentMode, *, now: datetime) -> list[Event | DecodeError]:
    """Each event of a request, or what is wrong with it, in order.

    Raises:
        DecodeError: the body as a whole is unreadable, so no event can be told from another.
    """
    made_id = uuid4().hex
    if mode is ContentMode.BATCH or (mode is ContentMode.JSON and body.lstrip().startswith(b"[")):
        return event_codec.decode_batch(body, fallback_id=made_id, fallback_time=now)
    try:
        if mode is ContentMode.BINARY:
            return [cloudevents.decode_binary(headers, body, fallback_time=now)]
        return [event_codec.decode(body, fallback_id=made_id, fallback_time=now)]
    except DecodeError as exc:
        return [exc]
