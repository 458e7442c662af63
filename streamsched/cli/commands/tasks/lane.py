"""`streamsched lane`: lanes of queues."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.commands.tasks.queue import QueueName
from streamsched.cli.commands.tasks.task import print_reasons
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, colour_state, console, print_structured
from streamsched.cli.server import UrlOption, ask


def commands() -> typer.Typer:
    """The commands of `streamsched lane`."""
    app = new_group("Explains lanes, in which the tasks of a queue go one after another.")
    app.command("why")(why)
    app.callback()(_group)
    return app


def _group() -> None:
    """Explains lanes, in which the tasks of a queue go one after another."""


def why(
    queue: QueueName,
    lane: Annotated[str, typer.Argument(metavar="LANE", help="Name of the lane.")],
    *,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Explains why a lane waits: its head, the attempts so far, the next one, and how many tasks are behind."""
    found = ask("GET", f"/v1/queues/{quote(queue, safe='')}/lane", url=url, params={"name": lane})
    if print_structured(found, output):
        return
    head = found["head"]
    if head is None:
        console().print(f"lane {lane} has no tasks", markup=False)
        return
    console().print(f"{head['id']} is {colour_state(head['state'])}")
    console().print(f"  key {head['key']}, {found['tasks'] - 1} behind it", markup=False)
    print_reasons(found["reasons"])
