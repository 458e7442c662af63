"""`streamsched pool`: places that runs of any program share, and the order in which waiting jobs get them."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.output import Format, FormatOption, console, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask, full_name


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="Places that runs of any program share.", no_args_is_help=True)
    app.command("list")(list_pools)
    app.command("set")(set_pool)
    app.command("prioritize")(prioritize)
    return app


def list_pools(*, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """All pools: who has their places, how many jobs stand in line, and their schedules, high priority first."""
    pools = ask("GET", "/v1/pools", url=url)["pools"]
    if output is Format.JSON:
        print_json(pools)
        return
    rows = [
        {
            **each,
            "heldBy": each["runs"],
            "schedules": [f"{one['id']} ({one['priority']})" for one in each["schedules"]],
        }
        for each in pools
    ]
    columns = ("name", "size", "taken", "waiting", "age", "heldBy", "schedules")
    print_table(rows, columns, empty="no pools yet: no job asked for one")


def set_pool(
    name: Annotated[str, typer.Argument(help="Name of a pool.")],
    size: Annotated[int | None, typer.Argument(min=0, help="Places from here on; 0 shuts it.")] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Leave the size to the schedules again.")] = False,
    age: Annotated[str, typer.Option(help="What a point of priority is worth, such as 30s.")] = "",
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets how many places a pool has; running runs go on."""
    if (size is None) != unset:
        raise typer.BadParameter("say a size, or --unset")
    body = {"size": size, "reason": reason, **({"age": age} if age else {})}
    found = ask("PUT", f"/v1/pools/{quote(name, safe='')}", url=url, body=body)
    if output is Format.JSON:
        print_json(found)
    else:
        said = "left to its schedules" if found["size"] is None else found["size"]
        console().print(f"size of {name}: {said}; {found['taken']} taken, {found['waiting']} in line", markup=False)


def prioritize(
    schedule: Annotated[str, typer.Argument(help="[namespace.]app.name")],
    priority: Annotated[int | None, typer.Argument(min=-1000, max=1000, help="Higher goes first.")] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Its own again.")] = False,
    reason: ReasonOption = "",
    url: UrlOption = "",
) -> None:
    """Sets a schedule's priority in its pool; its waiting jobs move in the line."""
    if (priority is None) != unset:
        raise typer.BadParameter("say a priority, or --unset")
    schedule = full_name(schedule)
    body = {"priority": priority, "reason": reason}
    found = ask("PUT", f"/v1/schedules/{quote(schedule, safe='')}/priority", url=url, body=body)
    said = "its own" if priority is None else priority
    console().print(f"priority of {schedule} in pool {found['pool']}: {said}", markup=False)
