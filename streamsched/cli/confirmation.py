"""Confirmation of changes that lose something. A command shows its plan and makes the change when it is confirmed.

A plan that loses nothing needs no confirmation. A plan that loses accumulated events, waiting jobs or schedules needs
`--yes` or a yes at the terminal; otherwise the command exits with `NOT_CONFIRMED` and changes nothing. The change is
sent with the plan's token, so the server makes exactly the confirmed change; if the situation has changed meanwhile,
the change is planned again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.output import Format, print_answer, print_structured
from streamsched.cli.preview import print_preview
from streamsched.cli.server import ask
from streamsched.cli.table import plain_text
from streamsched.domain.errors import PlanChangedError

#: Exit code: the change would lose something and was not confirmed.
NOT_CONFIRMED: Final = 7
#: Most plans of one command; a plan is repeated when the situation changed before the change was made.
_TRIES: Final = 5

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Make the change without confirmation, even if something is lost.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Show what would change and what would be lost; change nothing.")
]


def confirmed_change(
    plan: Callable[[], Mapping[str, Any]],
    change: Callable[[str], Any],
    *,
    yes: bool,
    dry_run: bool,
    output: Format,
    show: Callable[[Mapping[str, Any]], None] = print_preview,
    always_shown: bool = False,
) -> Any:
    """Plans a change, asks for confirmation if needed, and makes the change.

    Args:
        plan: gets the plan from the server.
        change: makes the change for the token of a plan.
        yes: no confirmation is needed.
        dry_run: only print the plan.
        output: with JSON, a plan is printed only by `dry_run` or when it is not confirmed.
        show: prints a plan for people.
        always_shown: print plans that lose nothing, too.

    Returns:
        The result of `change`; None with `dry_run`.

    Raises:
        typer.Exit: the change was not confirmed (`NOT_CONFIRMED`).
        PlanChangedError: the situation changed after each of several plans.
    """
    for left in reversed(range(_TRIES)):
        planned = plan()
        if dry_run:
            if not print_structured(planned, output):
                show(planned)
            return None
        if not output.is_structured and (always_shown or planned["loses"]):
            show(planned)
        if planned["loses"] and not yes:
            if output.is_structured:
                print_structured(planned, output)
            confirm(
                "Make this change?",
                declined="nothing was changed",
                refused="not changed, because something would be lost; `--yes` makes the change, `--dry-run` shows it",
                quiet=output.is_structured,
            )
        try:
            return change(planned["plan"])
        except PlanChangedError:
            if not left:
                raise
            typer.secho("the situation has changed; the new plan:", fg=typer.colors.YELLOW, err=True)
    raise AssertionError("unreachable")


def print_change(
    method: str,
    path: str,
    shown: Callable[[Any], object],
    *,
    yes: bool,
    dry_run: bool,
    output: Format,
    url: str,
    params: Mapping[str, Any] | None = None,
    body: object = None,
    always_shown: bool = False,
    answer: object = None,
) -> None:
    """Makes a change by a request as `confirmed_change`, and prints its answer, for people by `shown`. `answer`: in
    place of one without a body.
    """

    def send(**more: Any) -> Any:
        return ask(method, path, url=url, params={**(params or {}), **more}, body=body) or answer

    found = confirmed_change(
        lambda: send(dry_run=True),
        lambda plan: send(plan=plan),
        yes=yes,
        dry_run=dry_run,
        output=output,
        always_shown=always_shown,
    )
    if found is not None:
        print_answer(found, output, shown)


def confirm(question: str, *, declined: str, refused: str, quiet: bool) -> None:
    """Asks for confirmation at the terminal.

    Args:
        declined: printed when the answer is no.
        refused: the error when there is no terminal, or with `quiet`, which asks nothing.

    Raises:
        typer.Exit: the answer is no, or there is no terminal (`NOT_CONFIRMED`).
    """
    if not quiet and sys.stdin.isatty() and sys.stdout.isatty():
        if typer.confirm(plain_text(question), err=True):
            return
        typer.secho(declined, err=True)
    else:
        typer.secho(f"error: {refused}", fg=typer.colors.RED, err=True)
    raise typer.Exit(NOT_CONFIRMED)
