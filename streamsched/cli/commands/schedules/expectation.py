"""`streamsched expectation`: what must be there by which time, and what was missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, without_default
from streamsched.cli.output import Format, FormatOption, print_record, print_structured, print_table
from streamsched.cli.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.table import Column, ColumnKind

_COLUMNS: Final = (
    Column("id", "expectation", ColumnKind.ID),
    Column("state"),
    Column("subject", "of", kind=ColumnKind.TEXT),
    Column("when", kind=ColumnKind.TEXT, optional=1),
    Column("dueAt", "due", optional=2),
    Column("seenAt", "came last", optional=3),
)
_MISSES: Final = (
    Column("dueAt", "due"),
    Column("key", optional=2),
    Column("cameAt", "came"),
    Column("reason", kind=ColumnKind.TEXT, optional=1),
)


def commands() -> typer.Typer:
    """The commands of `streamsched expectation`."""
    app = new_group("Lists and shows expectations: what must be there by which time.")
    app.command("list")(list_expectations)
    app.command("show")(show)
    return app


def list_expectations(
    *,
    namespace: Annotated[str, typer.Option(help="Only expectations of this namespace.")] = "",
    app: Annotated[str, typer.Option("--app", help="Only expectations of this app, [namespace.]app.")] = "",
    missing: Annotated[bool, typer.Option("--missing", help="Only those of which something is missing.")] = False,
    after: AfterOption = "",
    limit: LimitOption = None,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists expectations with their state: met, missing, learning or stopped."""
    params = {"namespace": namespace, "app": full_app(app), "missing": "true" if missing else ""}
    found, more = fetch_list(
        "/v1/expectations", "expectations", url=url, output=output, after=after, limit=limit, params=params
    )
    if output.is_structured:
        print_structured(found, output)
        return
    filtered = namespace or app or missing
    empty = "no such expectations" if filtered else "no expectations yet: `app.expect(…)` in a definition makes one"
    print_table(map(_row, found), _COLUMNS, wide=output.is_wide, empty=empty)
    print_more(more)


def show(
    name: Annotated[str, typer.Argument(metavar="EXPECTATION", help="Expectation, [namespace.]app.name.")],
    *,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Shows an expectation: when it is due, its usual time, and when it was missed and what came late."""
    found = ask("GET", f"/v1/expectations/{quote(full_name(name), safe='')}", url=url)
    if output.is_structured:
        print_structured(found, output)
        return
    misses, definition = found.pop("misses"), found.pop("definition")
    found.pop("lastMiss")
    record = {"id": found.pop("id"), "of": _subject(definition), **found, "then": definition.get("program")}
    print_record({name: value for name, value in record.items() if value not in (None, "", 0)})
    if misses:
        print_table(misses, _MISSES, wide=output.is_wide, empty="")


def _row(found: Mapping[str, Any]) -> dict[str, Any]:
    return {**found, "subject": _subject(found["definition"])}


def _subject(definition: Mapping[str, Any]) -> str:
    """What it is about, with its key."""
    subject = definition.get("dataset") or definition.get("schedule") or ""
    key = definition.get("partition") or definition.get("key") or ""
    return f"{without_default(subject)} {key}".strip()
