"""`streamsched group`: slots that runs of any program share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import short_name
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import ReasonOption
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path


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


@request_command
def set_limit(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.")],
    limit: Annotated[
        int | None, typer.Argument(min=0, metavar="LIMIT", help="Number of slots; 0 closes the group.")
    ] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Restore the limit of the schedules.")] = False,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Sets the number of slots of a group. Active runs continue."""
    if (limit is None) != unset:
        raise typer.BadParameter("give either LIMIT or --unset")
    return CommandRequest(
        method="PUT",
        path=api_path("groups", name),
        body={"limit": limit, "reason": reason},
        show=lambda found: slots_text(f"limit of {name}", found["limit"], found),
    )


def slots_text(what: str, number: int | None, found: Mapping[str, Any]) -> str:
    """How many slots there are, and how many are in use."""
    shown = "that of its schedules" if number is None else number
    return f"{what}: {shown}; {found['taken']} taken, {found['waiting']} waiting"
