"""`streamsched bookmark`: how far watchers and consumers have read their datasets."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.lists.listing import Listing, Query, list_command
from streamsched.cli.output import Format, FormatOption, console, print_record, print_structured
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
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


def show(name: NameArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows a bookmark with its value, in the format of its reader."""
    found = ask("GET", _path(name), url=url)
    if not print_structured(found, output):
        print_record(found)


def delete(name: NameArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Deletes a bookmark: its reader begins anew.

    Stop the reader first. Events that it repeats within the dedupe horizon count once.
    """
    found = ask("DELETE", _path(name), url=url)
    if not found["deleted"]:
        raise NotFoundError("bookmark", name)
    if not print_structured(found, output):
        console().print(f"bookmark {name} is deleted", markup=False)


def _path(name: str) -> str:
    return f"/v1/bookmarks/{quote(name, safe='')}"
