"""The HTTP routes by which workers receive tasks from the process that delivers them (ADR 26). They are served by that
process, beside the API: a worker asks the API for the owners and opens a stream to each.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Final
from uuid import uuid4

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from streamsched.access.authentication import Authentication
from streamsched.api.access.authorise import CallerDep, require
from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.body import LINES, BodyBytes
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.problems import PROBLEMS
from streamsched.api.rendering import json_response
from streamsched.api.request_guard import RequestGuard
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import Unruled
from streamsched.api.routing.table import RouteTable
from streamsched.api.streams.places import Places
from streamsched.codec.tasks.worker import StreamRequest, line, read_report, read_request, task_line
from streamsched.domain.access.grant import Caller
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import NotFoundError
from streamsched.domain.tasks.attempt import StartedTask
from streamsched.tasks.worker_streams import WorkerStream, WorkerStreams

log = structlog.get_logger()

#: Seconds after which a worker sends a report, and its owner an empty line, also without news.
REPORT_S: Final = 5.0
#: A worker that sends nothing for so many seconds is given nothing more.
QUIET_S: Final = 15.0
_MOST_STREAMS: Final = 2000

routes = Routes("/v1/task-streams", "tasks")


@dataclass(slots=True)
class _Connected:
    """A stream with the numbers of its deliveries."""

    stream: WorkerStream
    tokens: dict[int, str] = field(default_factory=dict)
    last: int = 0

    def line(self, task: StartedTask) -> bytes:
        """The line of a task, with a new number."""
        self.last += 1
        self.tokens[self.last] = task.token
        return task_line(self.last, task)

    def stop_line(self, token: str) -> bytes:
        """The line of a delivery that need not go on."""
        numbers = [number for number, known in self.tokens.items() if known == token]
        for number in numbers:
            del self.tokens[number]
        return b"".join(line({"stop": number}) for number in numbers)


@dataclass(slots=True)
class StreamServices:
    """What the routes use."""

    workers: WorkerStreams
    authentication: Authentication
    connected: dict[str, _Connected] = field(default_factory=dict)
    places: Places = field(default_factory=lambda: Places("receive tasks", _MOST_STREAMS))


async def _authorise(request: Request) -> None:
    """Workers need the permission to emit in all namespaces: queues belong to none.

    Raises:
        UnauthenticatedError, ForbiddenError: as the routes of the API.
    """
    services: StreamServices = request.app.state.services
    caller = await services.authentication.caller(request.headers.get("authorization"))
    require(caller.may(Permission.EMIT, None))
    request.state.caller = caller


def make_stream_api(
    workers: WorkerStreams, hosts: AllowedHosts, authentication: Authentication, *, body_limit: int
) -> Starlette:
    """The application of a process that delivers tasks; for the event loop of `workers`. `body_limit`: bytes of a
    report.
    """
    app = Starlette(
        routes=[RouteTable(routes, door=_authorise)],
        middleware=[Middleware(RequestGuard, hosts=hosts)],
        exception_handlers=PROBLEMS,
    )
    app.state.services = StreamServices(workers, authentication)
    app.state.body_room = BodyRoom(body_limit)
    return app


async def _services(request: Request) -> StreamServices:
    services: StreamServices = request.app.state.services
    return services


_ServicesDep = Annotated[StreamServices, Depends(_services)]


@routes.post("", "Receive tasks", may=Unruled.DOOR, answers="")
async def open_stream(body: BodyBytes, caller: CallerDep, services: _ServicesDep) -> Response:
    """A stream of lines of JSON (`codec.tasks.worker`) until the worker disconnects. Tasks that it has not ended then
    are delivered again. 403 when a grant restricts the caller to names, and one of the queues has another.
    """
    asked = read_request(body)
    services.places.check(caller)
    for queue in asked.queues:
        require(caller.may_emit(None, queue))
    return StreamingResponse(_lines(services, asked, caller), media_type=LINES)


@routes.post("/{stream}", "Report ends and heartbeats", may=Unruled.DOOR, answers="")
async def report(stream: str, body: BodyBytes, services: _ServicesDep) -> Response:
    """Ends deliveries, prolongs them, and sets the credit. Numbers of deliveries that are over are ignored. 404 when
    the stream has ended: its tasks are delivered again.
    """
    connected = services.connected.get(stream)
    if connected is None:
        raise NotFoundError("stream", stream)
    sent = read_report(body)
    tokens = connected.tokens
    for delivery in sent.done:
        if (token := tokens.pop(delivery, None)) is not None:
            connected.stream.acknowledge(token)
    for delivery, reason in sent.failed:
        if (token := tokens.pop(delivery, None)) is not None:
            connected.stream.fail(token, reason)
    for delivery in sent.heartbeats:
        if delivery in tokens:
            connected.stream.heartbeat(tokens[delivery])
    if sent.credit is not None:
        connected.stream.take(sent.credit)
    connected.stream.note_sign_of_life()
    return json_response({})


async def _lines(services: StreamServices, asked: StreamRequest, caller: Caller) -> AsyncIterator[bytes]:
    name = uuid4().hex
    workers = services.workers
    with (
        services.places.hold(caller),
        workers.connect(asked.queues, credit=asked.credit, quiet_s=QUIET_S, counts_losses=True) as stream,
    ):
        connected = services.connected[name] = _Connected(stream)
        log.info("task_streams.opened", stream=name, queues=sorted(asked.queues)[:20], credit=asked.credit)
        try:
            yield line({"stream": name, "reportEvery": REPORT_S})
            while True:
                try:
                    async with asyncio.timeout(REPORT_S):
                        found = await stream.news()
                except TimeoutError:
                    yield line({})
                    continue
                if found is None:
                    return
                if isinstance(found, StartedTask):
                    yield connected.line(found)
                else:
                    yield connected.stop_line(found.token)
        finally:
            del services.connected[name]
            log.info("task_streams.closed", stream=name)
