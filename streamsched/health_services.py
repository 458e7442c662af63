"""The health checks of a process on a port of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import structlog

from streamsched.api.health import health_of, make_health
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.process.health import ProcessHealth
from streamsched.process.supervision import supervise

log = structlog.get_logger()

_HEALTH_HOST: Final = "STREAMSCHED_HEALTH_HOST"
_HEALTH_PORT: Final = "--health-port or STREAMSCHED_HEALTH_PORT"


@asynccontextmanager
async def health_served(settings: Settings, health: ProcessHealth) -> AsyncIterator[None]:
    """Serves health checks during the block if a port is set, also while the process waits for database or log."""
    if not settings.health_port:
        yield
        return

    async def measure() -> None:
        health.measure()

    bound = bind(settings.health_host, settings.health_port, host_by=_HEALTH_HOST, port_by=_HEALTH_PORT)
    server = HttpServer(make_health(health_of(health, measure)), bound)
    answering = asyncio.create_task(supervise({"health": server.run}, metrics=health.metrics))
    log.info("health.bound", url=url_of(bound))
    try:
        yield
    finally:
        await cancel(answering, retry_s=CLOSING_S)
        bound.close()
