"""`streamsched group`: slots that runs of any program share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.lists.listing import Listing, Query, list_command
from streamsched.cli.naming import short_name
from streamsched.cli.output import Format, FormatOption, console, print_structured
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind


def commands() -> typer.Typer:
    """The commands of `streamsched group`."""
    app = new_group("Lists groups and sets their limits: slots that runs of any program share.")
    app.command("list")(list_groups)
    app.command("set")(set_limit)
    return app


def _row(group: Mapping[str, Any]) -> dict[str, Any]:
    return {**group, "heldBy": "\n".join(short_name(slot["run"]) for slot in group["slots"]) or None}


@list_command(
    Listing(
        "groups",
        (Column("name", kind=ColumnKind.ID), "limit", "taken", "waiting", Column("heldBy", "held by", optional=1)),
        "no groups yet: no job has used one",
        _row,
    )
)
def list_groups() -> Query:
    """Lists groups with their limits and the runs that hold their slots."""
    return Query("/v1/groups")


def set_limit(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")],
    limit: Annotated[
        int | None, typer.Argument(min=0, metavar="LIMIT", help="Number of slots; 0 closes the group.")
    ] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Restore the limit of the schedules.")] = False,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets the number of slots of a group. Active runs continue."""
    if (limit is None) != unset:
        raise typer.BadParameter("give either LIMIT or --unset")
    found = ask("PUT", f"/v1/groups/{quote(name, safe='')}", url=url, body={"limit": limit, "reason": reason})
    if not print_structured(found, output):
        shown = "that of its schedules" if found["limit"] is None else found["limit"]
        console().print(f"limit of {name}: {shown}; {found['taken']} taken, {found['waiting']} waiting", markup=False)
