"""`streamsched queue reshard`: the number of partitions of lanes."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from streamsched.cli.output import Format, FormatOption, print_structured
from streamsched.cli.server import UrlOption, ask
from streamsched.domain.tasks.layout import MOST_PARTITIONS, LayoutStep

_PATH: Final = "/v1/tasks/partitions"
#: Seconds between two requests.
_POLL_S: Final = 0.2


def reshard(
    *,
    partitions: Annotated[int, typer.Option(min=1, max=MOST_PARTITIONS, help="New number of partitions of lanes.")],
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when all lanes have moved, or at once.")
    ] = True,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Changes the number of partitions, which is the largest number of launchers that can share the tasks.

    Launchers move the lanes while they deliver. If the command is interrupted, they go on; run it again to wait.
    """
    before = ask("GET", _PATH, url=url)["partitions"]
    found = ask("PUT", _PATH, url=url, body={"partitions": partitions})
    noted = ""
    while wait and not found["settled"] and found["wanted"] == partitions:
        note = _note(found)
        if note != noted:
            typer.secho(note, err=True)
            noted = note
        time.sleep(_POLL_S)
        found = ask("GET", _PATH, url=url)
    if output.structured:
        print_structured(found, output)
    elif found["wanted"] != partitions:
        typer.echo(f"another change was asked for meanwhile: to {found['wanted']} partitions")
    elif found["settled"]:
        typer.echo(f"changed from {before} to {partitions} partitions")
    else:
        typer.echo(f"asked for {partitions} partitions; launchers change it from {found['partitions']}")


def _note(found: dict[str, Any]) -> str:
    if found["step"] == LayoutStep.AWAIT_OWNERS:
        return f"{found['taken']} of {found['wanted']} partitions have an owner; waiting for launchers"
    return "lanes are moved; those in flight when their delivery has ended"
