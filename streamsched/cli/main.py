"""`streamsched`: thin commands over HTTP, and the roles of a server.

Exit codes: 0 done, 1 failed, 2 wrong input or settings, 3 not found, 4 conflict, 5 the far end is away,
6 something differs (`diff`).
"""

from __future__ import annotations

from typing import Any, Final

import typer
from typer.core import TyperGroup

from streamsched.cli import (
    admin,
    cluster,
    cron,
    deploy,
    dev,
    event,
    group,
    job,
    pool,
    program,
    roles,
    run,
    schedule,
    top,
)
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    FencedError,
    InvalidError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)

_CODES: Final = {
    InvalidError: 2,
    ConfigurationError: 2,
    NotFoundError: 3,
    ConflictError: 4,
    UnavailableError: 5,
    FencedError: 5,
    StreamschedError: 1,
}


class Commands(TyperGroup):
    """Says expected errors in one line, without a traceback, and exits with their code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except StreamschedError as exc:
            typer.secho(f"error: {exc}", fg=typer.colors.RED, err=True)
            raise typer.Exit(exit_code(exc)) from exc


def exit_code(error: StreamschedError) -> int:
    """The code of the nearest class in the error's family."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def make_app() -> typer.Typer:
    """The whole command line."""
    app = typer.Typer(
        name="streamsched",
        cls=Commands,
        help="Starts the right Spark job seconds after its inputs are complete.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command("dev")(dev.dev)
    app.command("deploy")(deploy.deploy)
    app.command("diff")(deploy.diff)
    for name, commands in (
        ("schedule", schedule.commands),
        ("event", event.commands),
        ("program", program.commands),
        ("job", job.commands),
        ("run", run.commands),
        ("group", group.commands),
        ("pool", pool.commands),
        ("cluster", cluster.commands),
        ("cron", cron.commands),
    ):
        app.add_typer(commands(), name=name)
    roles.register(app)
    admin.register(app)
    top.register(app)
    return app


def main() -> None:
    """Entry point of the console script."""
    make_app()()
