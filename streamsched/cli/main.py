"""The command `streamsched`: clients of the HTTP API, administration, and the server's roles.

Exit codes: 0 done, 1 failed, 2 invalid input or settings, 3 not found, 4 conflict, 5 server unavailable,
6 differences found (`diff`), 7 not confirmed: something would be lost (`--yes`), 8 no valid token, or no permission.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any, Final

import typer

from streamsched import __version__
from streamsched.cli.connection.server_url import CONTEXT
from streamsched.cli.group import CommandGroup
from streamsched.cli.naming import field_path
from streamsched.cli.shell.coercion import quicken_own
from streamsched.cli.shell.command_table import CommandTable, commands
from streamsched.cli.shell.completion import Completion, context_names
from streamsched.cli.table import plain_text
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    FencedError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    StreamschedError,
    UnauthenticatedError,
    UnavailableError,
)
from streamsched.process.extras import missing_extra_error

_CODES: Final = {
    InvalidError: 2,
    ConfigurationError: 2,
    NotFoundError: 3,
    ConflictError: 4,
    UnauthenticatedError: 8,
    ForbiddenError: 8,
    UnavailableError: 5,
    FencedError: 5,
    StreamschedError: 1,
}


class RootGroup(CommandGroup):
    """All commands. Prints an expected error as one line without a traceback, and exits with the error's code."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": CommandTable()})
        quicken_own(self)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, without importing them."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the name and the summary of each command, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, source.summary) for name, source in commands().items()])

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The commands that begin with the text, without importing them; the options once it begins with a dash."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [Completion(name, source.summary) for name, source in commands().items() if name.startswith(incomplete)]

    def invoke(self, ctx: Any) -> Any:
        """Runs a command. An error of ours, or an extra that is not installed, is printed as one line on standard
        error, with the exit code of its kind; any other is Python's.
        """
        try:
            return super().invoke(ctx)
        except StreamschedError as exc:
            typer.secho(f"error: {message(exc)}", fg=typer.colors.RED, err=True)
            raise typer.Exit(exit_code(exc)) from exc
        except ModuleNotFoundError as exc:
            missing = missing_extra_error(exc, extra="embedded" if ctx.invoked_subcommand == "dev" else "")
            if missing is None:
                raise
            typer.secho(f"error: {missing}", fg=typer.colors.RED, err=True)
            raise typer.Exit(exit_code(missing)) from exc


def exit_code(error: StreamschedError) -> int:
    """The exit code of the nearest class in the error's method resolution order."""
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def message(error: StreamschedError) -> str:
    """The error for people: paths into documents without `$`, control characters as escapes."""
    if isinstance(error, InvalidError):
        path = field_path(error.path)
        return plain_text(f"{path}: {error.reason}" if path else error.reason)
    return plain_text(str(error))


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"streamsched {__version__}")
        raise typer.Exit


def options(
    *,
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    context: Annotated[
        str,
        typer.Option(
            "--context",
            envvar=CONTEXT,
            autocompletion=context_names,
            help="The context whose server the command uses (`streamsched context list`).",
        ),
    ] = "",
) -> None:
    """Starts the right Spark job seconds after its inputs are complete.

    `streamsched dev` runs a complete scheduler on this machine. The other commands use the API at STREAMSCHED_URL, or
    of the `streamsched dev` of this folder.
    """


def make_app() -> typer.Typer:
    """Creates the command line with all commands."""
    app = typer.Typer(
        name="streamsched",
        cls=RootGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "color": False if os.environ.get("NO_COLOR") else None,
        },
    )
    app.callback()(options)
    return app


def main() -> None:
    """Entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a character that the terminal cannot encode is no error
            stream.reconfigure(errors="backslashreplace")
    make_app()()
