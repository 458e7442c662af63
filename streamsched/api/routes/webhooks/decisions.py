"""The decisions about jobs and runs as a stream: why one was launched, why one waits, and why one was refused."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from math import inf
from typing import Annotated, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from streamsched.api.access.authorise import CallerDep, check_rule, require
from streamsched.api.deps import ApiServices, NamespaceQuery, ServicesDep
from streamsched.api.routing.parameters import Header, Query
from streamsched.api.routing.routes import EVENT_STREAM, Routes
from streamsched.api.routing.rules import VIEW_LIST
from streamsched.api.streams.server_sent import HEADERS, MEDIA
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.codec.shape.schemas import any_text
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ScheduleRef, check_namespace
from streamsched.domain.webhooks.change import WorkLine

routes = Routes("/v1/decisions", "jobs")

_STREAM: Final = NamedSchema(
    "DecisionStream",
    any_text(
        'id: 17\nevent: job.waits\ndata: {"number": 17, "kind": "job", "subject": "default.flights.weekly.1.7", …}\n\n'
    ),
)
#: Digits of a number of a line.
_LONGEST: Final = 18


@routes.get("", "Follow decisions", may=VIEW_LIST, answers=_STREAM, media=(EVENT_STREAM,), conflict=True)
async def follow_decisions(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    *,
    namespace: NamespaceQuery = None,
    schedule: Annotated[str | None, Query(description="Only decisions about this schedule's jobs and runs.")] = None,
    after: Annotated[str, Query(max_length=_LONGEST, description="Begin after this number, as Last-Event-ID.")] = "",
    seconds: Annotated[
        float | None, Query(ge=0, le=86_400, description="End the stream after so long. Default: it does not end.")
    ] = None,
    last_event_id: Annotated[
        str, Header(alias="Last-Event-ID", max_length=_LONGEST, description="Go on after the event with this id.")
    ] = "",
) -> Response:
    """Server-sent events (`text/event-stream`), one for each line that the history of jobs and runs gets from now on,
    or after `Last-Event-ID` as far as the history is kept. `event` is the action, such as `job.waits`; `id` its number,
    in whose order they come; `data` an object with `number`, `at`, `kind`, `subject`, `action`, `state` (null: it stays
    as it was), `reason`, `schedule`, `program`, `job` and `attempt`. First comes an event `open`, whose `id` is where
    the stream begins. A comment is sent after 15 seconds without an event. An event `end` with a `reason` ends the
    stream when the token does not permit it any more, within a second. 409 when 200 clients follow at this
    process, 20 of this caller (100 of one with a role in all namespaces), or 50 of a namespace that it has a role in.
    """
    if namespace is not None:
        check_namespace(namespace)
    wanted = None if schedule is None else str(ScheduleRef.parse(schedule))
    begin = _number(last_event_id, "Last-Event-ID") if last_event_id else _number(after, "after") if after else None

    def wants(line: WorkLine) -> bool:
        return (namespace is None or line.namespace == namespace) and (wanted is None or line.schedule == wanted)

    async def check_access() -> None:
        caller = await services.access.authentication.caller(request.headers.get("authorization"))
        check_rule(caller, VIEW_LIST, request)
        if namespace is not None:
            require(caller.may(VIEW_LIST.permission, namespace))

    services.webhooks.decisions.places.check(caller)
    most_s = inf if seconds is None else seconds
    stream = services.webhooks.decisions.follow(caller, begin, wants, check_access, most_s=most_s)
    return StreamingResponse(_count_client(stream, services), media_type=MEDIA, headers=HEADERS)


async def _count_client(stream: AsyncGenerator[bytes, None], services: ApiServices) -> AsyncIterator[bytes]:
    """The stream, while which its client is counted."""

    def measure() -> None:
        services.metrics.replace("decision_clients", [({}, services.webhooks.decisions.clients)])

    try:
        async with aclosing(stream):
            async for chunk in stream:
                measure()
                yield chunk
    finally:
        measure()


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise InvalidError(name, "must be the id of an event of this stream")
    return int(text)
