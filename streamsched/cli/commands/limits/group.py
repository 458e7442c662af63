"""`streamsched group`: slots that runs of any program share."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import short_name
from streamsched.cli.output import Format, FormatOption, console, print_structured, print_table
from streamsched.cli.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind


def commands() -> typer.Typer:
    """The commands of `streamsched group`."""
    app = new_group("Lists groups and sets their limits: slots that runs of any program share.")
    app.command("list")(list_groups)
    app.command("set")(set_limit)
    return app


def list_groups(
    *, after: AfterOption = "", limit: LimitOption = None, output: FormatOption = Format.TABLE, url: UrlOption = ""
) -> None:
    """Lists groups with their limits and the runs that hold their slots."""
    groups, more = fetch_list("/v1/groups", "groups", url=url, output=output, after=after, limit=limit)
    if output.is_structured:
        print_structured(groups, output)
    else:
        rows = [
            {**each, "heldBy": "\n".join(short_name(slot["run"]) for slot in each["slots"]) or None} for each in groups
        ]
        held = Column("heldBy", "held by", ColumnKind.ID, optional=1)
        print_table(
            rows,
            (Column("name", kind=ColumnKind.ID), "limit", "taken", "waiting", held),
            wide=output.is_wide,
            empty="no groups yet: no job has used one",
        )
        print_more(more)


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
    if output.is_structured:
        print_structured(found, output)
    else:
        shown = "that of its schedules" if found["limit"] is None else found["limit"]
        console().print(f"limit of {name}: {shown}; {found['taken']} taken, {found['waiting']} waiting", markup=False)
