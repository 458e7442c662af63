"""A process of a role: a set of loops that it runs with the services of `services`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum

import structlog

from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.parts import Part, additions
from streamsched.ports.clock import Clock
from streamsched.process.health import ProcessHealth
from streamsched.process.memory import freeze_objects
from streamsched.process.supervision import Loop, run_until_signal, supervise
from streamsched.roles.api import api_services, make_http
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import clock_loops, health_served, open_services
from streamsched.roles.worker import worker_loops
from streamsched.store.connections import Pool, check_sessions
from streamsched.telemetry.logs import configure_logs

log = structlog.get_logger()

#: Of a dialect: loops by their names. It is called in the event loop that runs them, and may raise ConfigurationError.
PartLoops = Callable[[Settings, Pool, Clock], Mapping[str, Loop]]


class Role(StrEnum):
    """The role of a process."""

    WORKER = "worker"
    LAUNCHER = "launcher"
    API = "api"
    ALL = "all"


async def serve(
    settings: Settings,
    role: Role,
    *,
    environ: Mapping[str, str],
    name: str | None = None,
    bound: socket.socket | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Runs a role until cancelled. `ready` is called when it has started (and its API, if any, answers).

    Raises:
        ConfigurationError: the installation is misconfigured; a restart does not help.
    """
    health = ProcessHealth()
    async with health_served(settings, health), open_services(settings, name=name, health=health) as services:
        loops: dict[str, Loop] = {}
        if role in {Role.WORKER, Role.ALL}:
            loops |= worker_loops(services)
        if role in {Role.LAUNCHER, Role.ALL}:
            loops |= launcher_loops(services, environ, dev=role is Role.ALL)
        if role in {Role.API, Role.ALL}:
            bound = bound or bind(settings.api.host, settings.api.port)
            server = HttpServer(make_http(api_services(services), services.pool), bound, started=ready)
            loops["api"] = server.run
            loops |= {} if services.traces is None else {"emit-spans": services.traces.queue.run}
            log.info("api.bound", url=url_of(bound))
        elif ready is not None:
            ready()
        if role is Role.ALL:
            added_loops: Iterator[tuple[Part, PartLoops]] = additions("loops")
            for _, make in added_loops:
                loops |= make(settings, services.pool, services.clock)
        loops |= clock_loops(services, role)
        log.info("role.started", role=role, worker=services.identity.id)
        freeze_objects()
        await supervise(loops, metrics=health.metrics)


def run_role(role: Role, environ: Mapping[str, str], **options: object) -> None:
    """Runs one role until SIGINT or SIGTERM. `options` (as in `Settings.from_env`) take precedence over variables."""
    settings = Settings.from_env(environ, **options)
    configure_logs(level=settings.log.level, style=settings.log.format)
    run_until_signal(serve(settings, role, environ=environ))


def run_migrations(environ: Mapping[str, str]) -> None:
    """Migrates the database to the newest schema."""
    from streamsched.store.server.migrate import migrate  # noqa: PLC0415 - Alembic, which no server needs

    settings = Settings.from_env(environ)
    configure_logs(level=settings.log.level, style=settings.log.format)
    asyncio.run(check_sessions(settings.database_url))
    migrate(settings.database_url)
