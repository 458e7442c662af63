"""The HTTP application. It is created by a function, so importing has no side effects and instances share no state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import perf_counter

from fastapi import FastAPI, Request
from fastapi.responses import Response

from streamsched import __version__
from streamsched.api import health
from streamsched.api.cdap.routes import cdap_routes
from streamsched.api.dapr import native as dapr
from streamsched.api.deps import ApiServices
from streamsched.api.pagerduty import routes as pagerduty
from streamsched.api.problems import answer_problems
from streamsched.api.request_guard import RequestGuard
from streamsched.api.routes import (
    admin,
    apps,
    backfills,
    changes,
    events,
    graphs,
    jobs,
    preferences,
    programs,
    runs,
    schedules,
    submissions,
    ticks,
    verdicts,
)
from streamsched.api.routes.limits import clusters, groups, pools
from streamsched.api.routes.tasks import lanes, queues, tasks


def make_api(services: ApiServices) -> FastAPI:
    """Creates the application with all routes, error handlers, metrics and the request guard."""
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
    for module in (
        events,
        verdicts,
        apps,
        changes,
        programs,
        preferences,
        schedules,
        ticks,
        submissions,
        backfills,
        jobs,
        runs,
        graphs,
        groups,
        pools,
        clusters,
        queues,
        lanes,
        tasks,
        pagerduty,
        dapr,
        admin,
        health,
    ):
        api.include_router(module.router)
    api.include_router(cdap_routes())
    answer_problems(api)
    _measure(api, services)
    api.add_middleware(RequestGuard, hosts=services.allowed_hosts, metrics=services.metrics)
    return api


def _measure(api: FastAPI, services: ApiServices) -> None:
    """Measures every response. The label is the route's pattern, not the path, so ids do not create time series."""

    @api.middleware("http")
    async def measured(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        began = perf_counter()
        response = await answer(request)
        route = getattr(request.scope.get("route"), "path", "unknown")
        labels = {"method": request.method, "route": route}
        services.metrics.observe("http_request_seconds", perf_counter() - began, **labels)
        services.metrics.add("http_requests_total", status=str(response.status_code), **labels)
        return response
