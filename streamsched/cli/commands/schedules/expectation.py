"""`streamsched expectation`: what must be there by which time, and what was missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, short_name, without_default
from streamsched.cli.output import Format, FormatOption, print_record, print_structured, print_table
from streamsched.cli.resources.listing import AppFilter, Listing, NamespaceFilter, Query, list_command
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind

_COLUMNS: Final = (
    Column("id", "expectation", ColumnKind.ID),
    Column("state"),
    Column("subject", "of", kind=ColumnKind.TEXT),
    Column("when", kind=ColumnKind.TEXT, optional=1),
    Column("dueAt", "due", ColumnKind.TIME),
    Column("seenAt", "came last", ColumnKind.TIME),
)
_MISSES: Final = (
    Column("dueAt", "due", ColumnKind.TIME),
    Column("key", optional=2),
    Column("cameAt", "came", ColumnKind.TIME),
    Column("reason", kind=ColumnKind.REASON),
)


def commands() -> typer.Typer:
    """The commands of `streamsched expectation`."""
    app = new_group("Lists and shows expectations: what must be there by which time.")
    app.command("list")(list_expectations)
    app.command("show")(show)
    return app


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found, "id": short_name(found["id"]), "subject": _subject(found["definition"])}


@list_command(Listing("expectations", _COLUMNS, "no expectations yet: `app.expect(…)` in a definition makes one", _row))
def list_expectations(
    *,
    namespace: NamespaceFilter = "",
    app: AppFilter = "",
    missing: Annotated[bool, typer.Option("--missing", help="Only those of which something is missing.")] = False,
) -> Query:
    """Lists expectations with their state: met, missing, learning or stopped."""
    filters = {"namespace": namespace, "app": full_app(app), "missing": "true" if missing else ""}
    return Query("/v1/expectations", filters)


def show(
    name: Annotated[str, typer.Argument(metavar="EXPECTATION", help="Expectation, [namespace.]app.name.")],
    *,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows an expectation: when it is due, its usual time, and when it was missed and what came late."""
    found = ask("GET", f"/v1/expectations/{quote(full_name(name), safe='')}", url=url)
    if print_structured(found, output):
        return
    misses, definition = found.pop("misses"), found.pop("definition")
    found.pop("lastMiss")
    record = {"id": found.pop("id"), "of": _subject(definition), **found, "then": definition.get("program")}
    print_record({name: value for name, value in record.items() if value not in (None, "", 0)})
    if misses:
        print_table(misses, _MISSES, wide=output.is_wide, empty="")


def _subject(definition: Mapping[str, Any]) -> str:
    """What it is about, with its key."""
    subject = definition.get("dataset") or definition.get("schedule") or ""
    key = definition.get("partition") or definition.get("key") or ""
    return f"{without_default(subject)} {key}".strip()
