"""`--watch`: runs a command that shows something again and again."""

from __future__ import annotations

import inspect
import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Annotated, Any, Final

import typer

from streamsched.cli.shell.signature import wrap_command
from streamsched.cli.table import plain_text
from streamsched.domain.errors import UnavailableError

#: Seconds between two displays.
_INTERVAL: Final = 2.0
#: Clears the terminal and moves to its upper left corner.
_CLEAR: Final = "\x1b[2J\x1b[H"
#: Names of commands that show something.
_SHOWING: Final = frozenset({"list", "show", "why", "why-not", "history", "next", "keys", "versions"})

WatchOption = Annotated[
    bool,
    typer.Option(
        "--watch", "-w", help="Show it again every 2 s until Ctrl-C; in a pipe or file only when it has changed."
    ),
]


def add_watch(app: typer.Typer) -> typer.Typer:
    """The same group, whose commands that show something have the option `--watch`."""
    for info in app.registered_commands:
        callback = info.callback
        if info.name in _SHOWING and callback is not None and "url" in inspect.signature(callback).parameters:
            info.callback = add_watch_option(callback)
    for each in app.registered_groups:
        if each.typer_instance is not None:
            add_watch(each.typer_instance)
    return app


def add_watch_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the option `--watch`."""

    def repeat_or_run(*arguments: Any, watch: bool = False, **options: Any) -> Any:
        if not watch:
            return command(*arguments, **options)
        return repeat(lambda: command(*arguments, **options))

    return wrap_command(command, repeat_or_run, {"watch": (WatchOption, False)})


def repeat(show: Callable[[], object], *, pause: Callable[[float], None] = time.sleep) -> None:
    """Runs `show` until Ctrl-C. A server that is away for a while is reported, and asked again; a terminal keeps what
    it shows until then.
    """
    terminal = sys.stdout.isatty()
    before: str | None = None
    try:
        while True:
            shown = _Screen(terminal=terminal)
            with redirect_stdout(shown):
                _try(show)
            text = shown.getvalue()
            if text and (terminal or text != before):
                before = text
                sys.stdout.write(f"{_CLEAR}{text}" if terminal else text)
            sys.stdout.flush()
            pause(_INTERVAL)
    except KeyboardInterrupt:
        return


class _Screen(io.StringIO):
    """Takes what a command prints, which it prints as to a terminal, in colours, if `terminal`."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def _try(show: Callable[[], object]) -> None:
    try:
        show()
    except UnavailableError as exc:
        typer.secho(f"error: {plain_text(str(exc))}; asked again in {_INTERVAL:g} s", fg=typer.colors.RED, err=True)
