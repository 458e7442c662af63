"""`streamsched bookmark`: how far watchers and consumers have read their datasets."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, print_record, print_structured, print_table
from streamsched.cli.paging import AfterOption, LimitOption, fetch_list, print_more
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


def list_bookmarks(
    *, after: AfterOption = "", limit: LimitOption = None, output: FormatOption = Format.TABLE, url: UrlOption = ""
) -> None:
    """Lists bookmarks and when each was last set."""
    found, more = fetch_list("/v1/bookmarks", "bookmarks", url=url, output=output, after=after, limit=limit)
    if output.is_structured:
        print_structured(found, output)
        return
    columns = (Column("name", kind=ColumnKind.ID), "revision", Column("changedAt", "changed"))
    print_table(found, columns, wide=output.is_wide, empty="no bookmarks yet: no table is watched")
    print_more(more)


def show(name: NameArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows a bookmark with its value, in the format of its reader."""
    found = ask("GET", _path(name), url=url)
    if output.is_structured:
        print_structured(found, output)
    else:
        print_record(found)


def delete(name: NameArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Deletes a bookmark: its reader begins anew.

    Stop the reader first. Events that it repeats within the dedupe horizon count once.
    """
    found = ask("DELETE", _path(name), url=url)
    if not found["deleted"]:
        raise NotFoundError("bookmark", name)
    if output.is_structured:
        print_structured(found, output)
    else:
        console().print(f"bookmark {name} is deleted", markup=False)


def _path(name: str) -> str:
    return f"/v1/bookmarks/{quote(name, safe='')}"
