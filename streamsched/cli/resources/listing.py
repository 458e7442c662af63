"""Lists of the API as commands: of each resource its columns, and a function that says which items are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from streamsched.cli.output import Format, FormatOption, print_names, print_structured, print_table
from streamsched.cli.resources.paging import PAGE, AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.shell.completion import app_names
from streamsched.cli.shell.signature import wrap_command
from streamsched.cli.table import Column

NamespaceFilter = Annotated[str, typer.Option("--namespace", help="Only those of this namespace.")]
AppFilter = Annotated[
    str, typer.Option("--app", autocompletion=app_names, help="Only those of this app, [namespace.]app.")
]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Query:
    """What a list command asks for.

    Attributes:
        path: of the API.
        filters: query parameters; those that are empty are not sent.
    """

    path: str
    filters: Mapping[str, Any] = field(default_factory=dict[str, Any])


def _item_itself(item: Row) -> Row:
    return item


@dataclass(frozen=True, slots=True)
class Listing:
    """How a resource is listed.

    Attributes:
        member: the member of an answer that has the items.
        columns: of the table. A plain name is a WORD.
        empty: the sentence of an empty list without filters.
        row: what the columns show of an item of the API.
        name: the name of an item, from its row, as other commands take it; empty for an item without one. Default: the
            first column.
        page: items of a table without `--limit`.
        paged: whether the API answers page by page; otherwise it answers with all items at once.
    """

    member: str
    columns: tuple[Column | str, ...]
    empty: str
    row: Callable[[Row], Row] = _item_itself
    name: Callable[[Row], str] | None = None
    page: int = PAGE
    paged: bool = True

    def name_of(self, item: Row) -> str:
        """The name of an item of the API."""
        row, first = self.row(item), self.columns[0]
        return self.name(row) if self.name else str(row[first if isinstance(first, str) else first.name])


def print_items(
    listing: Listing, items: Sequence[Row], output: Format, *, filtered: bool = False, rows: Iterable[Row] | None = None
) -> None:
    """Prints the items of a list: their names, as the API has them, or as a table. `rows` are those of the table, by
    default one for each item.
    """
    if output is Format.NAME:
        print_names(filter(None, map(listing.name_of, items)))
    elif not print_structured(items, output):
        empty = f"no such {listing.member}" if filtered else listing.empty
        shown = map(listing.row, items) if rows is None else rows
        print_table(shown, listing.columns, wide=output.is_wide, empty=empty)


def list_command(listing: Listing) -> Callable[[Callable[..., Query]], Callable[..., None]]:
    """Makes the command that lists a resource from the function that says which items its parameters mean.

    The command has the parameters of the function, `--after` and `--limit` if the API answers page by page, `--output`
    and `--url`, which the function is given if it has a parameter `url`.
    """
    pages = {"after": (AfterOption, ""), "limit": (LimitOption, None)} if listing.paged else {}

    def make(query: Callable[..., Query]) -> Callable[..., None]:
        asks = "url" in query.__annotations__

        def run(
            *arguments: Any,
            after: str = "",
            limit: int | None = None,
            output: Format = Format.TABLE,
            url: str = "",
            **options: Any,
        ) -> None:
            found = query(*arguments, **options, **({"url": url} if asks else {}))
            if listing.paged:
                items, more = fetch_list(
                    found.path,
                    listing.member,
                    url=url,
                    output=output,
                    after=after,
                    limit=limit,
                    params=found.filters,
                    page=listing.page,
                )
            else:
                items, more = ask("GET", found.path, url=url, params=found.filters)[listing.member], ""
            filtered = any(value for name, value in found.filters.items() if name != "limit")
            print_items(listing, items, output, filtered=filtered)
            if not output.is_structured:
                print_more(more)

        options = {**pages, "output": (FormatOption, Format.TABLE), "url": (UrlOption, "")}
        return wrap_command(query, run, options, hidden=frozenset({"url"}))

    return make
