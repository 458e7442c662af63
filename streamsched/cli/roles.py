"""The roles of a server that is spread over processes; settings come from `STREAMSCHED_*`."""

from __future__ import annotations

import os

import typer


def register(app: typer.Typer) -> None:
    """Adds a command for each role."""
    app.command("worker")(worker)
    app.command("launcher")(launcher)
    app.command("api")(api)
    app.command("migrate")(migrate)


def worker() -> None:
    """Evaluates: takes shards of the log and folds their events; any number may run."""
    _serve("worker")


def launcher() -> None:
    """Launches: intake, constraints, timers, the relay, follow-up of runs; any number may run."""
    _serve("launcher")


def api() -> None:
    """Answers HTTP; any number may run."""
    _serve("api")


def migrate() -> None:
    """Brings the database to this version's schema; idempotent."""
    from streamsched.bootstrap import run_migrations

    run_migrations(os.environ)


def _serve(role: str) -> None:
    from streamsched.bootstrap import Role, run_role

    run_role(Role(role), os.environ)
