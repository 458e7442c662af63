"""The roles of a server that is spread over processes; settings come from `STREAMSCHED_*`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

Broker = Annotated[
    str | None,
    typer.Option(
        help="URL of the log, such as kafka://host:9092/ (STREAMSCHED_BROKER_URL; else the database is the log)."
    ),
]

HealthPort = Annotated[
    int | None,
    typer.Option(help="Port of /health/live, /health/ready and /metrics (STREAMSCHED_HEALTH_PORT; else none)."),
]


def register(app: typer.Typer) -> None:
    """Adds a command for each role."""
    app.command("worker")(worker)
    app.command("launcher")(launcher)
    app.command("api")(api)
    app.command("migrate")(migrate)


def worker(*, broker: Broker = None, health_port: HealthPort = None) -> None:
    """Evaluates: takes shards of the log and folds their events; any number may run."""
    _serve("worker", broker, health_port)


def launcher(*, broker: Broker = None, health_port: HealthPort = None) -> None:
    """Launches: intake, constraints, timers, the relay, follow-up of runs; any number may run."""
    _serve("launcher", broker, health_port)


def api(
    *,
    broker: Broker = None,
    health_port: HealthPort = None,
    host: Annotated[str | None, typer.Option(help="Where it listens (STREAMSCHED_API_HOST; else 127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="Its port (STREAMSCHED_API_PORT; else 8765); 0: any free one.")
    ] = None,
) -> None:
    """Answers HTTP; any number may run."""
    _serve("api", broker, health_port, api_host=host, api_port=port)


def migrate() -> None:
    """Brings the database to this version's schema; idempotent."""
    from streamsched.bootstrap import run_migrations

    run_migrations(os.environ)


def _serve(role: str, broker: str | None, health_port: int | None, **options: object) -> None:
    from streamsched.bootstrap import Role, run_role

    run_role(Role(role), os.environ, broker_url=broker, health_port=health_port, **options)
