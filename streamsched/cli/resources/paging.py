"""Paged lists of the API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.output import Format, console
from streamsched.cli.server import ask

#: Items of a table, and of each request when all items are read.
PAGE: Final = 100
_LARGEST: Final = 1000

AfterOption = Annotated[
    str, typer.Option("--after", metavar="CURSOR", help="Show the page after this cursor, printed after `more:`.")
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "-n",
        "--limit",
        min=1,
        max=_LARGEST,
        help="Number of items. Default: a page as a table, all items as JSON, YAML or names.",
    ),
]


def fetch_list(
    path: str,
    member: str,
    *,
    url: str,
    output: Format,
    after: str = "",
    limit: int | None = None,
    params: Mapping[str, Any] | None = None,
    page: int = PAGE,
) -> tuple[list[dict[str, Any]], str]:
    """Items of a list and the cursor of the next page, empty when there is none. Without `limit` these are the first
    `page` items for a table, and all items for programs.
    """
    if limit is None and output.is_structured:
        return list(_all(path, member, url=url, after=after, params=params)), ""
    query = {**(params or {}), "after": after, "limit": limit or page}
    found = ask("GET", path, url=url, params=query)
    return found[member], found.get("next", "")


def print_more(cursor: str) -> None:
    """Prints the option that shows the next page, if there is one."""
    if cursor:
        console().print(f"more: --after '{cursor}'", markup=False)


def _all(path: str, member: str, *, url: str, after: str, params: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    while True:
        found = ask("GET", path, url=url, params={**(params or {}), "after": after, "limit": _LARGEST})
        yield from found[member]
        former, after = after, found.get("next", "")
        if not after or after == former:
            return
