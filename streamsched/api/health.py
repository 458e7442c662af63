"""Is it up, can it serve, what does it count."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import Response

from streamsched.api.deps import ServicesDep
from streamsched.api.rendering import rendered
from streamsched.telemetry.metrics import CONTENT_TYPE

router = APIRouter()


@router.get("/health/live")
async def live() -> Response:
    """200 as long as the process answers at all."""
    return rendered({"status": "live"})


@router.get("/health/ready")
async def ready(services: ServicesDep) -> Response:
    """200 when everything it depends on answers, else 503 with what is wrong with which."""
    found = await services.readiness()
    wrong = {name: reason for name, reason in found.items() if reason is not None}
    status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
    checks = {name: reason or "ok" for name, reason in found.items()}
    return rendered({"status": "unready" if wrong else "ready", "checks": checks}, status=status)


@router.get("/metrics")
async def metrics(services: ServicesDep) -> Response:
    await services.gauges()
    return Response(services.metrics.render(), media_type=CONTENT_TYPE)
