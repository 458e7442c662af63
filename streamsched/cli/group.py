"""`streamsched group`: slots that runs of any program share."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.output import Format, FormatOption, console, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="Slots that runs of any program share.", no_args_is_help=True)
    app.command("list")(list_groups)
    app.command("set")(set_limit)
    return app


def list_groups(*, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """All groups, and who holds their slots."""
    groups = ask("GET", "/v1/groups", url=url)["groups"]
    if output is Format.JSON:
        print_json(groups)
    else:
        rows = [{**each, "heldBy": [slot["run"] for slot in each["slots"]]} for each in groups]
        print_table(rows, ("name", "limit", "taken", "waiting", "heldBy"), empty="no groups yet: no job asked for one")


def set_limit(
    name: Annotated[str, typer.Argument(help="Name of a group.")],
    limit: Annotated[int | None, typer.Argument(min=0, help="Slots from here on; 0 shuts it.")] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Leave the limit to the schedules again.")] = False,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets how many slots a group has; running runs go on."""
    if (limit is None) != unset:
        raise typer.BadParameter("say a limit, or --unset")
    found = ask("PUT", f"/v1/groups/{quote(name, safe='')}", url=url, body={"limit": limit, "reason": reason})
    if output is Format.JSON:
        print_json(found)
    else:
        said = "left to its schedules" if found["limit"] is None else found["limit"]
        console().print(f"limit of {name}: {said}; {found['taken']} taken, {found['waiting']} waiting", markup=False)
