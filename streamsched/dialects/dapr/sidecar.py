"""The HTTP API of one app's endpoint, as Dapr's sidecar has it.

    POST, GET, DELETE  /v1.0/jobs/{name}, /v1.0-alpha1/jobs/{name}, /v1.0/schedule/jobs/{name}
    GET                …/jobs/{name}/next?count=10, unless strict
    GET                /v1.0/healthz, /v1.0/healthz/outbound

Unless strict, GET also has `nextFire` and `lastFire`, how many ticks are done (`fired`), were skipped (`skipped`) and
found no handler (`unhandled`), and the error of a tick that is tried again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from http import HTTPStatus
from itertools import chain
from typing import Annotated, Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.body import BodyBytes
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.problems import PROBLEMS
from streamsched.api.rendering import json_response
from streamsched.api.request_guard import RequestGuard
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import Unruled
from streamsched.api.routing.table import RouteTable
from streamsched.dialects.dapr.codec.job_json import job_from_json, job_to_json
from streamsched.dialects.dapr.codec.refusal import JobOperation, answer_of, error_json
from streamsched.dialects.dapr.desk import DaprDesk, KnownJob
from streamsched.dialects.dapr.endpoint import DaprEndpoint
from streamsched.domain.errors import StreamschedError

log = structlog.get_logger()

#: The last is the path of the proposal, which Dapr never served.
_PREFIXES = ("/v1.0", "/v1.0-alpha1", "/v1.0/schedule")
_DIALECT = HttpDialect(name="dapr", prefix="/v1.0", reads_forms=True)

FireCount = Annotated[int, Query(ge=1, le=1000, description="Number of deliveries.")]


def make_sidecar(desk: DaprDesk, endpoint: DaprEndpoint, hosts: AllowedHosts, *, body_limit: int) -> Starlette:
    """Creates the application. `body_limit`: largest request body in bytes."""
    probes = Routes("/v1.0/healthz", "Dapr")
    for path in ("", "/outbound"):
        probes.get(path, "Get health", may=Unruled.DOOR, answers="")(_healthy)
    routes = _routes(desk, endpoint)

    async def admit(request: Request) -> None:
        if request.scope["served"].route.function is not _healthy and not endpoint.admits(request.headers):
            raise HTTPException(HTTPStatus.UNAUTHORIZED, "the api token is missing or wrong")

    table = RouteTable(chain(*(routes.below("", prefix) for prefix in _PREFIXES), probes), door=admit)
    guard = Middleware(RequestGuard, hosts=hosts, dialects=[_DIALECT])
    api = Starlette(routes=[table], middleware=[guard], exception_handlers=PROBLEMS)
    api.state.body_room = BodyRoom(body_limit)
    return api


def job_view(found: KnownJob) -> dict[str, Any]:
    """A job with what Dapr's answer lacks."""
    counters = found.task.counters
    extra = {
        "nextFire": counters.next_at,
        "lastFire": found.task.last_at,
        "fired": counters.fired,
        "failures": counters.failures or None,
        "skipped": counters.skipped or None,
        "unhandled": counters.unhandled or None,
        "error": found.task.error or None,
        "misfire": found.job.misfire,
    }
    return {**job_to_json(found.job), **{name: value for name, value in extra.items() if value is not None}}


def fires_view(name: str, fires: Sequence[datetime]) -> dict[str, Any]:
    """The next deliveries of a job."""
    return {"name": name, "next": list(fires)}


def _routes(desk: DaprDesk, endpoint: DaprEndpoint) -> Routes:
    routes = Routes("", "Dapr")
    app, strict = endpoint.app, endpoint.strict

    async def respond(operation: JobOperation, answer: Callable[[], Awaitable[Response]]) -> Response:
        try:
            return await answer()
        except StreamschedError as exc:
            refused = answer_of(operation, exc, strict=strict)
            if refused.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                log.warning("dapr.request_failed", operation=operation, error=str(exc))
            return json_response(error_json(refused, app=app.app, namespace=app.namespace), status=refused.status)

    async def next_fires(name: str, count: FireCount = 10) -> Response:
        async def answer() -> Response:
            return json_response(fires_view(name, await desk.next_fires(app, name, count)))

        return await respond(JobOperation.GET, answer)

    if not strict:
        routes.get("/jobs/{name}/next", "List the next deliveries", may=Unruled.DOOR, answers="")(next_fires)

    @routes.post("/jobs/{name:path}", "Schedule a job", may=Unruled.DOOR, answers="")
    async def schedule(name: str, body: BodyBytes) -> Response:
        async def answer() -> Response:
            job, overwrite = job_from_json(name, body, strict=strict)
            await desk.schedule(app, job, overwrite=overwrite, strict=strict)
            return Response(status_code=HTTPStatus.NO_CONTENT)

        return await respond(JobOperation.SCHEDULE, answer)

    @routes.get("/jobs/{name:path}", "Get a job", may=Unruled.DOOR, answers="")
    async def get(name: str) -> Response:
        async def answer() -> Response:
            found = await desk.get(app, name)
            return json_response(job_to_json(found.job) if strict else job_view(found))

        return await respond(JobOperation.GET, answer)

    @routes.delete("/jobs/{name:path}", "Delete a job", may=Unruled.DOOR, answers="")
    async def delete(name: str) -> Response:
        async def answer() -> Response:
            await desk.delete(app, name)
            return Response(status_code=HTTPStatus.NO_CONTENT)

        return await respond(JobOperation.DELETE, answer)

    return routes


async def _healthy() -> Response:
    return Response(status_code=HTTPStatus.NO_CONTENT)
