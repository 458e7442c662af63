"""Liveness, readiness and metrics. Part of the API; the only HTTP routes of workers and launchers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.problems import PROBLEMS
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import PUBLIC, VIEW_ALL
from streamsched.api.routing.table import RouteTable
from streamsched.codec.shape.about import About
from streamsched.codec.shape.json_shape import JsonShape
from streamsched.codec.shape.schemas import any_text, object_by_name
from streamsched.process.health import ProcessHealth
from streamsched.telemetry.metrics import CONTENT_TYPE, Metrics

#: The checks by name, each with its failure; None means that the check passed.
Findings = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Health checks and metrics of a process.

    Attributes:
        live: finds permanent failures, after which the process should be restarted.
        ready: checks whether the process and its dependencies can do their work.
        remarks: what is wrong and makes the process no less ready.
        measure: updates the metrics that are computed only when metrics are requested.
    """

    live: Callable[[], Findings]
    ready: Callable[[], Awaitable[Findings]]
    remarks: Callable[[], Findings]
    measure: Callable[[], Awaitable[None]]
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthState:
    """What the checks found: `ok`, or what is wrong."""

    status: Annotated[str, About("ready")]
    checks: Annotated[Mapping[str, str], About(schema=object_by_name(any_text("ok"), "database"))]


HEALTH: Final = JsonShape(HealthState, "Health")


async def _health(request: Request) -> Health:
    health: Health = request.app.state.health
    return health


HealthDep = Annotated[Health, Depends(_health)]
routes = Routes("", "health")


def health_of(health: ProcessHealth, measure: Callable[[], Awaitable[None]]) -> Health:
    """The health checks and metrics of a process."""
    return Health(
        live=health.liveness, ready=health.readiness, remarks=health.remarks, measure=measure, metrics=health.metrics
    )


def make_health(health: Health) -> Starlette:
    """The application of a process that serves only these routes."""
    app = Starlette(routes=[RouteTable(routes)], exception_handlers=PROBLEMS)
    app.state.health = health
    return app


@routes.get("/health/live", "Get liveness", may=PUBLIC, answers={200: HEALTH.answer, 503: HEALTH.answer})
async def live(health: HealthDep) -> Response:
    """200 unless a part of the process is permanently stuck; then 503 and the process should be restarted. `checks` has
    each check with `ok` or its failure.
    """
    return _response(health.live(), passed="live", failed="stuck")


@routes.get("/health/ready", "Get readiness", may=PUBLIC, answers={200: HEALTH.answer, 503: HEALTH.answer})
async def ready(health: HealthDep) -> Response:
    """200 when all dependencies respond and the process makes progress, else 503. `checks` has each check with `ok` or
    its failure. `clock` says when the database's clock has jumped, which makes no process unready.
    """
    return _response(await health.ready(), health.remarks(), passed="ready", failed="unready")


@routes.get("/metrics", "Get metrics", may=VIEW_ALL, answers="AnyText", media=(CONTENT_TYPE,), missing=True)
async def metrics(health: HealthDep) -> Response:
    """All metrics of the process in the Prometheus text format."""
    await health.measure()
    return Response(health.metrics.render(), media_type=CONTENT_TYPE)


def _response(findings: Findings, remarks: Findings | None = None, *, passed: str, failed: str) -> Response:
    wrong = any(reason is not None for reason in findings.values())
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    checks = {name: reason or "ok" for name, reason in {**findings, **(remarks or {})}.items()}
    return json_response(HEALTH.answer_of(status=failed if wrong else passed, checks=checks), status=status)
