"""Is it up, can it serve, what does it count: a part of the API, and all that workers and launchers answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import Response

from streamsched.api.problems import answer_problems
from streamsched.api.rendering import rendered
from streamsched.telemetry.metrics import CONTENT_TYPE, Metrics

#: Each thing that was looked at, and what is wrong with it; nothing wrong is None.
Findings = Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a process is.

    Attributes:
        live: whether it should be left alone.
        ready: whether it can do its work: asks what it stands on.
        measure: takes the measures that are read only when somebody asks.
    """

    live: Callable[[], Findings]
    ready: Callable[[], Awaitable[Findings]]
    measure: Callable[[], Awaitable[None]]
    metrics: Metrics


def _health(request: Request) -> Health:
    health: Health = request.app.state.health
    return health


HealthDep = Annotated[Health, Depends(_health)]
router = APIRouter()


def make_health(health: Health) -> FastAPI:
    """The application of a process that answers nothing else."""
    app = FastAPI(title="streamsched health", openapi_url=None, docs_url=None, redoc_url=None)
    app.state.health = health
    app.include_router(router)
    answer_problems(app)
    return app


@router.get("/health/live")
async def live(health: HealthDep) -> Response:
    """200 as long as the process answers at all, and nothing in it is stuck for good."""
    return _told(health.live(), well="live", ill="stuck")


@router.get("/health/ready")
async def ready(health: HealthDep) -> Response:
    """200 when everything it depends on answers, and all that it holds gets on; else 503 with what is wrong."""
    return _told(await health.ready(), well="ready", ill="unready")


@router.get("/metrics")
async def metrics(health: HealthDep) -> Response:
    await health.measure()
    return Response(health.metrics.render(), media_type=CONTENT_TYPE)


def _told(found: Findings, *, well: str, ill: str) -> Response:
    wrong = any(reason is not None for reason in found.values())
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    checks = {name: reason or "ok" for name, reason in found.items()}
    return rendered({"status": ill if wrong else well, "checks": checks}, status=status)
