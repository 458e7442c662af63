"""`streamsched pool`: pools, their sizes, and the priorities of schedules in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.lists.listing import Listing, Query, list_command
from streamsched.cli.naming import full_name, short_name
from streamsched.cli.output import Format, FormatOption, console, print_structured
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.shell.completion import schedule_names
from streamsched.cli.table import Column, ColumnKind


def commands() -> typer.Typer:
    """The commands of `streamsched pool`."""
    app = new_group("Lists pools and sets their sizes and priorities: slots that runs share, with a queue.")
    app.command("list")(list_pools)
    app.command("set")(set_pool)
    app.command("prioritize")(prioritize)
    return app


def _row(pool: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **pool,
        "heldBy": "\n".join(map(short_name, pool["runs"])) or None,
        "schedules": "\n".join(f"{short_name(one['id'])} ({one['priority']})" for one in pool["schedules"]) or None,
    }


@list_command(
    Listing(
        "pools",
        (
            Column("name", kind=ColumnKind.ID),
            "size",
            "taken",
            "waiting",
            "age",
            Column("heldBy", "held by", optional=2),
            Column("schedules", optional=1),
        ),
        "no pools yet: no job has used one",
        _row,
    )
)
def list_pools() -> Query:
    """Lists pools with the runs that hold their slots, the number of waiting jobs, and their schedules by priority."""
    return Query("/v1/pools")


def set_pool(
    name: Annotated[str, typer.Argument(metavar="POOL", help="Name of the pool.")],
    size: Annotated[
        int | None, typer.Argument(min=0, metavar="SIZE", help="Number of slots; 0 closes the pool.")
    ] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Restore the size of the schedules.")] = False,
    age: Annotated[
        str,
        typer.Option(
            help="Waiting time that one point of priority is worth, such as 30s. Default: unchanged; at first 1m."
        ),
    ] = "",
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets the number of slots of a pool. Active runs continue."""
    if (size is None) != unset:
        raise typer.BadParameter("give either SIZE or --unset")
    body = {"size": size, "reason": reason, **({"age": age} if age else {})}
    found = ask("PUT", f"/v1/pools/{quote(name, safe='')}", url=url, body=body)
    if not print_structured(found, output):
        shown = "that of its schedules" if found["size"] is None else found["size"]
        console().print(f"size of {name}: {shown}; {found['taken']} taken, {found['waiting']} waiting", markup=False)


def prioritize(
    schedule: Annotated[
        str, typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name.")
    ],
    priority: Annotated[
        int | None,
        typer.Argument(min=-1000, max=1000, metavar="PRIORITY", help="Priority, from -1000 to 1000; higher first."),
    ] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Restore the priority of the definition.")] = False,
    reason: ReasonOption = "",
    url: UrlOption = "",
) -> None:
    """Sets the priority of a schedule in its pool and reorders its waiting jobs."""
    if (priority is None) != unset:
        raise typer.BadParameter("give either PRIORITY or --unset")
    schedule = full_name(schedule)
    body = {"priority": priority, "reason": reason}
    found = ask("PUT", f"/v1/schedules/{quote(schedule, safe='')}/priority", url=url, body=body)
    shown = "that of its definition" if priority is None else priority
    console().print(f"priority of {short_name(schedule)} in pool {found['pool']}: {shown}", markup=False)
