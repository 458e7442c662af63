"""What runs for Dapr: in launchers the delivery of jobs, and an endpoint of its jobs API for one app, with HTTP, gRPC
and the heartbeats of the app's instances.

An endpoint holds no state: any number of them may serve an app. Launchers deliver its jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from streamsched.api.allowed_hosts import AllowedHosts
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.dialects.dapr.app_channel import check_address
from streamsched.dialects.dapr.codec.scope import DaprApp
from streamsched.dialects.dapr.delivery import DaprDelivery
from streamsched.dialects.dapr.desk import make_desk
from streamsched.dialects.dapr.endpoint import DaprEndpoint
from streamsched.dialects.dapr.settings import DaprSettings
from streamsched.dialects.dapr.sidecar import make_sidecar
from streamsched.dialects.dapr.store.instances import AppInstance, AppInstances
from streamsched.domain.errors import ConfigurationError, InvalidError, UnavailableError
from streamsched.ports.clock import Clock
from streamsched.process.memory import freeze_objects
from streamsched.process.run_forever import run_forever
from streamsched.process.supervision import Loop, run_until_signal, supervise, wait_until_available
from streamsched.roles.services import open_clock, open_database
from streamsched.store.connections import Pool
from streamsched.tasks.worker_streams import WorkerStreams
from streamsched.telemetry.logs import configure_logs
from streamsched.telemetry.metrics import Metrics

log = structlog.get_logger()

#: Seconds between two heartbeats of the app's instances.
_BEAT_S: Final = 4.0


def dapr_loops(settings: Settings, pool: Pool, clock: Clock) -> Mapping[str, Loop]:
    """The loops of an endpoint; none without `dapr_app_id`. Call it in the event loop that runs them: its ports are
    bound.

    Raises:
        ConfigurationError: a setting is invalid, a port is in use, or gRPC is not installed.
    """
    dapr = settings.group(DaprSettings)
    if not dapr.app_id:
        return {}
    from streamsched.dialects.dapr.grpc_server import DaprGrpcServer  # noqa: PLC0415 - it comes with an extra

    app, instances = _app_of(dapr)
    desk = make_desk(pool, clock)
    endpoint = DaprEndpoint(app, dapr.api_token, dapr.strict)
    bound = bind(
        dapr.host,
        dapr.http_port,
        host_by="--host or STREAMSCHED_DAPR_HOST",
        port_by="--http-port or STREAMSCHED_DAPR_HTTP_PORT",
    )
    hosts = AllowedHosts.of(settings.api.allowed_hosts, api_host=dapr.host)
    http = HttpServer(make_sidecar(desk, endpoint, hosts, body_limit=settings.api.body_limit), bound)
    grpc = DaprGrpcServer(desk, endpoint, host=dapr.host, port=dapr.grpc_port)
    log.info("dapr.bound", app=app.app, namespace=app.namespace, http=url_of(bound), grpc=grpc.address)

    async def beat() -> None:
        await wait_until_available("database", lambda: desk.open(app))
        if instances:
            await _beat(AppInstances(pool), instances)

    return {"dapr_http": http.run, "dapr_grpc": grpc.run, "dapr_instances": beat}


def connections(
    settings: Settings, pool: Pool, clock: Clock, workers: WorkerStreams
) -> Sequence[Callable[[], Awaitable[None]]]:
    """What connects a launcher to instances of apps; with `dapr_scheduler` it is also Dapr's scheduler.

    Raises:
        ConfigurationError: the port of that is in use.
    """
    instances, address = AppInstances(pool), settings.group(DaprSettings).scheduler
    delivery = DaprDelivery(instances, workers).run
    if not address:
        return [delivery]
    from streamsched.dialects.dapr.scheduler_server import DaprSchedulerServer  # noqa: PLC0415 - it comes with an extra

    return [delivery, DaprSchedulerServer(make_desk(pool, clock), workers, instances, address=address).run]


def run_dapr(environ: Mapping[str, str], **options: object) -> None:
    """Runs one endpoint until SIGINT or SIGTERM. `options` (as in `Settings.from_env`) take precedence over variables.

    Raises:
        ConfigurationError: a setting is missing or invalid, a port is in use, or gRPC is not installed.
    """
    settings = Settings.from_env(environ, **options)
    if not settings.group(DaprSettings).app_id:
        raise ConfigurationError("STREAMSCHED_DAPR_APP_ID is not set: the id of the app that is served (--app-id)")
    configure_logs(level=settings.log.level, style=settings.log.format)
    run_until_signal(_serve(settings))


async def _serve(settings: Settings) -> None:
    async with open_database(settings) as pool:
        clock = await open_clock(pool, f"dapr endpoint of {settings.group(DaprSettings).app_id}")
        freeze_objects()
        await supervise({**dapr_loops(settings, pool, clock), "clock": clock.run}, metrics=Metrics())


def _app_of(dapr: DaprSettings) -> tuple[DaprApp, tuple[AppInstance, ...]]:
    try:
        app = DaprApp(dapr.namespace, dapr.app_id)
        addresses = [each.strip() for each in dapr.app.split(",") if each.strip()]
        for address in addresses:
            check_address(address)
    except InvalidError as exc:
        name = {"$.namespace": "NAMESPACE", "$.app": "APP"}.get(exc.path, "APP_ID")
        name = "APP_ID" if exc.path == "$.app" and "://" not in exc.reason else name
        raise ConfigurationError(f"STREAMSCHED_DAPR_{name} {exc.reason}") from exc
    return app, tuple(AppInstance(app.queue, address, dapr.app_token) for address in addresses)


async def _beat(store: AppInstances, instances: tuple[AppInstance, ...]) -> None:
    async def step() -> float:
        await store.beat(instances)
        return _BEAT_S

    try:
        await run_forever(step, called="dapr_instances")
    finally:
        with suppress(UnavailableError):
            async with asyncio.timeout(2):
                await store.remove(instances)
