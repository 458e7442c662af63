"""Commands that run one role of a distributed installation. Settings are in `STREAMSCHED_*`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

Broker = Annotated[
    str | None,
    typer.Option(
        help="URL of the log, such as kafka://host:9092/. Default: STREAMSCHED_BROKER_URL, else the database."
    ),
]

HealthPort = Annotated[
    int | None,
    typer.Option(help="Port of /health/live, /health/ready and /metrics. Default: STREAMSCHED_HEALTH_PORT, else none."),
]


def worker(*, broker: Broker = None, health_port: HealthPort = None) -> None:
    """Runs a worker: owns shards of the log and folds their events into satisfactions.

    Any number of workers can run; they share the shards. Settings are in STREAMSCHED_*.
    """
    _serve("worker", broker, health_port)


def launcher(*, broker: Broker = None, health_port: HealthPort = None) -> None:
    """Runs a launcher: checks constraints, starts and monitors runs, fires timers, and relays changes to the log.

    Any number of launchers can run. Settings are in STREAMSCHED_*.
    """
    _serve("launcher", broker, health_port)


def api(
    *,
    broker: Broker = None,
    health_port: HealthPort = None,
    host: Annotated[
        str | None, typer.Option(help="Listen address. Default: STREAMSCHED_API_HOST, else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0: any free port. Default: STREAMSCHED_API_PORT, else 8765.")
    ] = None,
) -> None:
    """Runs the HTTP API.

    Any number of APIs can run. Settings are in STREAMSCHED_*.
    """
    _serve("api", broker, health_port, api_host=host, api_port=port)


def migrate() -> None:
    """Migrates the database at STREAMSCHED_DATABASE_URL to the schema of this version. Idempotent."""
    from streamsched.roles.role import run_migrations

    run_migrations(os.environ)


def _serve(role: str, broker: str | None, health_port: int | None, **options: object) -> None:
    from streamsched.process.closed_process import close_process
    from streamsched.process.memory import configure_memory

    close_process()  # before the imports, which take their time
    configure_memory()
    from streamsched.roles.role import Role, run_role

    run_role(Role(role), os.environ, broker_url=broker, health_port=health_port, **options)
