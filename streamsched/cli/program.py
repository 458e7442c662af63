"""`streamsched program`: what runs."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from streamsched.cli.event import Pairs, pairs
from streamsched.cli.output import Format, FormatOption, console, print_json, print_table
from streamsched.cli.server import UrlOption, ask, full_name

#: What programs of each kind run, by its name in JSON.
_RUNS: Final = ("main", "command", "url", "event")


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="What runs.", no_args_is_help=True)
    app.command("list")(list_programs)
    app.command("start")(start)
    app.command("delete")(delete)
    return app


def list_programs(
    *,
    namespace: Annotated[str, typer.Option(help="Only of this namespace.")] = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """All programs."""
    programs = ask("GET", "/v1/programs", url=url, params={"namespace": namespace})["programs"]
    if output is Format.JSON:
        print_json(programs)
    else:
        rows = [{**each, "runs": next((each[kind] for kind in _RUNS if kind in each), None)} for each in programs]
        print_table(rows, ("id", "type", "runs"), empty="no programs yet: `streamsched deploy FILE`")


def start(
    program: Annotated[str, typer.Argument(help="[namespace.]app.name")],
    arguments: Pairs = None,
    *,
    at_most: Annotated[int | None, typer.Option(min=1, help="Refuse when as many runs are active.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Beyond --at-most, and the room in groups and pools.")] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Starts a program by hand."""
    body = {"arguments": pairs(arguments or ()), "atMost": at_most, "force": force}
    found = ask("POST", f"/v1/programs/{full_name(program)}/runs", url=url, body=body)
    if output is Format.JSON:
        print_json(found)
    else:
        console().print(f"{found['run']} is on its way: `streamsched run show {found['run']}`")


def delete(
    program: Annotated[str, typer.Argument(help="[namespace.]app.name")],
    *,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Forgets a program and its schedules; those that wait for it go on without that, or go. Running runs go on."""
    changed = ask("DELETE", f"/v1/programs/{full_name(program)}", url=url)
    if output is Format.JSON:
        print_json(changed)
        return
    out = console()
    for kind in ("programs", "schedules"):
        for each in changed[kind]:
            because = f": {each['reason']}" if each["reason"] else ""
            out.print(f"{each['id']} is {each['action']}{because}", markup=False)
