"""`streamsched lane`: lanes of queues."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from streamsched.cli.commands.tasks.queue import QueueName
from streamsched.cli.commands.tasks.task import print_reasons
from streamsched.cli.group import new_group
from streamsched.cli.output import colour_state, console
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.client.api_call import api_path


def commands() -> typer.Typer:
    """The commands of `streamsched lane`."""
    app = new_group("Explains lanes, in which the tasks of a queue go one after another.")
    app.command("why")(why)
    app.callback()(_group)
    return app


def _group() -> None:
    """Explains lanes, in which the tasks of a queue go one after another."""


@request_command
def why(
    queue: QueueName,
    lane: Annotated[str, typer.Argument(metavar="LANE", help="Name of the lane.")],
) -> CommandRequest:
    """Explains why a lane waits: its head, the attempts so far, the next one, and how many tasks are behind."""

    def show(found: Mapping[str, Any]) -> None:
        head = found["head"]
        if head is None:
            console().print(f"lane {lane} has no tasks", markup=False)
            return
        console().print(f"{head['id']} is {colour_state(head['state'])}")
        console().print(f"  key {head['key']}, {found['tasks'] - 1} behind it", markup=False)
        print_reasons(found["reasons"])

    return CommandRequest(path=api_path("queues", queue, "lane"), params={"name": lane}, show=show)
