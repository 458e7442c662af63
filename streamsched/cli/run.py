"""`streamsched run`: executions of programs."""

from __future__ import annotations

from typing import Annotated

import typer

from streamsched.cli.output import Format, FormatOption, console, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask, full_name

_COLUMNS = ("id", "program", "state", "createdAt", "startedAt", "endedAt", "reason")

Run = Annotated[str, typer.Argument(help="Id of a run.")]


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="What executes or was executed.", no_args_is_help=True)
    app.command("list")(list_runs)
    app.command("show")(show)
    app.command("logs")(logs)
    app.command("kill")(kill)
    return app


def list_runs(
    *,
    program: Annotated[str, typer.Option(help="Only of this program.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="Only in this state; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 30,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """The newest runs first."""
    states = [each.upper() for each in state or ()]
    params = {"program": full_name(program), "state": states, "limit": limit}
    runs = ask("GET", "/v1/runs", url=url, params=params)["runs"]
    if output is Format.JSON:
        print_json(runs)
    else:
        print_table(runs, _COLUMNS, empty="no runs yet")


def show(run: Run, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """One run."""
    found = ask("GET", f"/v1/runs/{run}", url=url)
    if output is Format.JSON:
        print_json(found)
    else:
        rows = [{"what": name, "value": value} for name, value in found.items() if value not in (None, {})]
        print_table(rows, ("what", "value"), empty="")


def logs(
    run: Run, *, tail: Annotated[int, typer.Option(min=1, help="Last lines.")] = 1000, url: UrlOption = ""
) -> None:
    """The last lines a run has said."""
    typer.echo(ask("GET", f"/v1/runs/{run}/logs", url=url, params={"tail": tail}), nl=False)


def kill(
    run: Run,
    *,
    reason: ReasonOption = "",
    at_once: Annotated[bool, typer.Option("--at-once", help="Give it no time to tidy up.")] = False,
    url: UrlOption = "",
) -> None:
    """Ends a run."""
    body = {"atOnce": at_once, **({"reason": reason} if reason else {})}
    found = ask("POST", f"/v1/runs/{run}/kill", url=url, body=body)
    console().print(f"{found['id']} is asked to end; it is {found['state']} now")
