"""`streamsched pool`: pools, their sizes, and the priorities of schedules in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from streamsched.cli.commands.limits.group import slots_text
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_name, short_name
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import ReasonOption
from streamsched.cli.shell.completion import schedule_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path


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


@request_command
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
) -> CommandRequest:
    """Sets the number of slots of a pool. Active runs continue."""
    if (size is None) != unset:
        raise typer.BadParameter("give either SIZE or --unset")
    body = {"size": size, "reason": reason, **({"age": age} if age else {})}
    return CommandRequest(
        method="PUT",
        path=api_path("pools", name),
        body=body,
        show=lambda found: slots_text(f"size of {name}", found["size"], found),
    )


@request_command
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
) -> CommandRequest:
    """Sets the priority of a schedule in its pool and reorders its waiting jobs."""
    if (priority is None) != unset:
        raise typer.BadParameter("give either PRIORITY or --unset")
    schedule = full_name(schedule)
    shown = "that of its definition" if priority is None else priority
    return CommandRequest(
        method="PUT",
        path=api_path("schedules", schedule, "priority"),
        body={"priority": priority, "reason": reason},
        show=lambda found: f"priority of {short_name(schedule)} in pool {found['pool']}: {shown}",
        names=lambda _: [short_name(schedule)],
    )
