"""An endpoint for one app and a launcher's delivery, in this process, on a real PostgreSQL; the app on real ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import asyncpg
import httpx
import pytest

from compose.ports import free_port
from streamsched.config import Settings
from streamsched.dialects.dapr.loops import dapr_loops
from streamsched.dialects.dapr.settings import DaprSettings
from streamsched.ports.clock import SystemClock
from streamsched.ports.leases import LeaseHolder
from streamsched.process.cancellation import CLOSING_S, cancel
from streamsched.process.supervision import supervise
from streamsched.roles.launcher import make_task_delivery
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.telemetry.metrics import Metrics
from tests.support.services import need_module


class DaprInstallation:
    """Endpoints and launchers of one database."""

    def __init__(self, database: str, pool: asyncpg.Pool) -> None:
        self.pool = pool
        self.settings = Settings.from_env(
            {},
            database_url=database,
            dapr_app_id="orders",
            dapr_http_port=free_port(),
            dapr_grpc_port=free_port(),
        )
        self.metrics = Metrics()
        self._launchers = 0

    @asynccontextmanager
    async def endpoint(self, **settings: object) -> AsyncIterator[httpx.AsyncClient]:
        """An endpoint with these settings; yields a client of its HTTP API."""
        chosen = self.settings.replace(**settings)
        running = asyncio.create_task(supervise(dapr_loops(chosen, self.pool, SystemClock()), metrics=Metrics()))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(cancel, running, retry_s=CLOSING_S)
            url = f"http://127.0.0.1:{chosen.group(DaprSettings).http_port}"
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=url))
            for _ in range(200):
                try:
                    await client.get("/v1.0/healthz/outbound")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.02)
            yield client

    @asynccontextmanager
    async def launcher(self, **settings: object) -> AsyncIterator[None]:
        """The delivery of tasks."""
        chosen = self.settings.replace(**settings)
        self._launchers += 1
        me = LeaseHolder(f"launcher-{self._launchers}", "host", self._launchers)
        notifier = PostgresNotifier(self.settings.database_url)
        delivery = make_task_delivery(self.pool, notifier, me, SystemClock(), chosen, metrics=self.metrics)
        running = asyncio.create_task(delivery.run())
        try:
            yield
        finally:
            await cancel(running, retry_s=CLOSING_S)
            await notifier.close()


@pytest.fixture
def installation(database: str, pool: asyncpg.Pool) -> DaprInstallation:
    need_module("dapr", "dapr")
    return DaprInstallation(database, pool)
