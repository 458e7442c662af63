"""`streamsched program`: listing, starting and deleting programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.confirmation import DryRunOption, YesOption, print_change
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, short_name
from streamsched.cli.output import Format, FormatOption, console
from streamsched.cli.resources.listing import AppFilter, Listing, NamespaceFilter, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import UrlOption
from streamsched.cli.shell.completion import program_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path

#: The member that describes what a program runs, for each type of program.
_RUNS: Final = ("main", "command", "url", "event")


def commands() -> typer.Typer:
    """The commands of `streamsched program`."""
    app = new_group("Lists, starts and deletes programs.")
    app.command("list")(list_programs)
    app.command("start")(start)
    app.command("delete")(delete)
    return app


def _row(program: Mapping[str, Any]) -> dict[str, Any]:
    runs = next((program[kind] for kind in _RUNS if kind in program), None)
    return {**program, "id": short_name(program["id"]), "runs": runs}


@list_command(
    Listing(
        "programs",
        (Column("id", "program", ColumnKind.ID), "type", Column("runs", kind=ColumnKind.TEXT, breakable=True)),
        "no programs yet: `streamsched deploy FILE`",
        _row,
    )
)
def list_programs(*, namespace: NamespaceFilter = "", app: AppFilter = "") -> Query:
    """Lists programs, ordered by id."""
    return Query("/v1/programs", {"namespace": namespace, "app": full_app(app)})


@request_command
def start(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", autocompletion=program_names, help="Program, [namespace.]app.name.")
    ],
    arguments: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Arguments of the run.")] = None,
    *,
    at_most: Annotated[
        int | None, typer.Option(min=1, help="Refuse when this many runs of the program are active. Default: no limit.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Ignore --at-most and the limits of groups and pools.")
    ] = False,
) -> CommandRequest:
    """Starts a run of a program at once, without a job; refuses when a limit is reached. `run start` waits instead."""
    body = {"arguments": pairs(arguments or ()), "atMost": at_most, "force": force, "now": True}
    path = api_path("programs", full_name(program), "runs")
    return CommandRequest(method="POST", path=path, body=body, show=started_text)


def started_text(found: Mapping[str, Any]) -> str:
    """That a run or a job was made, and how to see more of it."""
    if "run" in found:
        run = short_name(found["run"])
        return f"{run} is starting; see `streamsched run show {run}`"
    job = short_name(found["job"])
    return f"{job} {'was submitted before' if found['repeated'] else 'is submitted'}; see `streamsched job why {job}`"


def delete(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", autocompletion=program_names, help="Program, [namespace.]app.name.")
    ],
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deletes a program and its schedules.

    Schedules of its namespace that wait for the program lose that part of their trigger; those whose trigger cannot
    hold without it are deleted. Those of other namespaces stay and say so. Active runs continue. If schedules or
    accumulated events would be lost, the command asks for confirmation at a terminal; without a terminal it needs --yes
    (otherwise exit code 7).
    """
    path = api_path("programs", full_name(program))
    print_change("DELETE", path, _print_deleted, yes=yes, dry_run=dry_run, output=output, url=url)


def _print_deleted(changed: Mapping[str, Any]) -> None:
    out = console()
    for kind in ("programs", "schedules"):
        for each in changed[kind]:
            because = f": {each['reason']}" if each["reason"] else ""
            out.print(f"{short_name(each['id'])} is {each['action']}{because}", markup=False)
