"""`streamsched bookmark`: how far watchers and consumers have read their datasets."""

from __future__ import annotations

from typing import Annotated

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, print_answer
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path
from streamsched.domain.errors import NotFoundError

NameArgument = Annotated[str, typer.Argument(metavar="BOOKMARK", help="Name, such as watch.default.flights.")]


def commands() -> typer.Typer:
    """The commands of `streamsched bookmark`."""
    app = new_group("Shows and deletes bookmarks: how far a reader has read a dataset.")
    app.command("list")(list_bookmarks)
    app.command("show")(show)
    app.command("delete")(delete)
    return app


@list_command(
    Listing(
        "bookmarks",
        (Column("name", kind=ColumnKind.ID), "revision", Column("changedAt", "changed", ColumnKind.TIME)),
        "no bookmarks yet: no table is watched",
    )
)
def list_bookmarks() -> Query:
    """Lists bookmarks and when each was last set."""
    return Query("/v1/bookmarks")


@request_command
def show(name: NameArgument) -> CommandRequest:
    """Shows a bookmark with its value, in the format of its reader."""
    return CommandRequest(path=api_path("bookmarks", name))


def delete(name: NameArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Deletes a bookmark: its reader begins anew.

    Stop the reader first. Events that it repeats within the dedupe horizon count once.
    """
    found = ask("DELETE", api_path("bookmarks", name), url=url)
    if not found["deleted"]:
        raise NotFoundError("bookmark", name)
    print_answer(found, output, lambda _: f"bookmark {name} is deleted")
