"""The HTTP application, made by a function: nothing exists before it is called, and two never share anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from fastapi import FastAPI, Request
from fastapi.responses import Response

from streamsched import __version__
from streamsched.api import (
    apps,
    clusters,
    events,
    groups,
    health,
    jobs,
    pools,
    programs,
    runs,
    schedules,
    ticks,
    verdicts,
)
from streamsched.api.cdap.routes import cdap_routes
from streamsched.api.deps import ApiServices
from streamsched.api.problems import answer_problems


def make_api(services: ApiServices) -> FastAPI:
    """The application that serves these services."""
    api = FastAPI(
        title="streamsched",
        version=__version__,
        summary="Starts the right Spark job seconds after its inputs are complete.",
        openapi_url="/v1/openapi.json",
        docs_url="/docs",
        redoc_url=None,
    )
    api.state.services = services
    api.state.health = services.health
    for module in (events, verdicts, apps, programs, schedules, ticks, jobs, runs, groups, pools, clusters, health):
        api.include_router(module.router)
    api.include_router(cdap_routes())
    answer_problems(api)
    _measure(api, services)
    return api


def _measure(api: FastAPI, services: ApiServices) -> None:
    """Counts every answer by its route's pattern, never by its address: ids would make a series each."""

    @api.middleware("http")
    async def measured(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        began = perf_counter()
        response = await answer(request)
        route = getattr(request.scope.get("route"), "path", "unknown")
        labels = {"method": request.method, "route": route}
        services.metrics.observe("http_request_seconds", perf_counter() - began, **labels)
        services.metrics.add("http_requests_total", status=str(response.status_code), **labels)
        return response
