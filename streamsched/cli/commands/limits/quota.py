"""`streamsched quota`: limits that an admin sets on a namespace, with what is in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote as quoted

import typer

from streamsched.cli.group import new_group
from streamsched.cli.lists.listing import Listing, print_items
from streamsched.cli.lists.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.output import Format, FormatOption, console, print_structured, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.domain.quotas.limited import Quota

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
QuotaArgument = Annotated[
    Quota, typer.Argument(metavar="QUOTA", show_choices=False, help=f"What is limited: {', '.join(Quota)}.")
]
_COLUMNS: Final = (
    Column("namespace", kind=ColumnKind.ID),
    "quota",
    "limit",
    "used",
    "in use",
    Column("reason", kind=ColumnKind.REASON),
)
_NAMESPACES: Final = Listing("namespaces", _COLUMNS, "no namespace has a quota")


def commands() -> typer.Typer:
    """The commands of `streamsched quota`."""
    app = new_group("Sets quotas: limits of a namespace, and shows what is in use.")
    app.command("list")(list_quotas)
    app.command("show")(show)
    app.command("set")(set_)
    app.command("unset")(unset)
    return app


def list_quotas(
    *, after: AfterOption = "", limit: LimitOption = None, output: FormatOption = Format.TABLE, url: UrlOption = ""
) -> None:
    """Lists the quotas of all namespaces that have some."""
    found, more = fetch_list("/v1/quotas", _NAMESPACES.member, url=url, output=output, after=after, limit=limit)
    print_items(_NAMESPACES, found, output, rows=(_row(use) for each in found for use in each["quotas"]))
    if not output.is_structured:
        print_more(more)


def show(namespace: NamespaceArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows the quotas of a namespace and what is in use."""
    found = ask("GET", _path(namespace), url=url)
    if print_structured(found, output):
        return
    empty = f"namespace {plain_text(namespace)} has no quota"
    print_table(map(_row, found["quotas"]), _COLUMNS, wide=output.is_wide, empty=empty)


def set_(
    namespace: NamespaceArgument,
    quota: QuotaArgument,
    limit: Annotated[int, typer.Argument(min=0, metavar="LIMIT", help="The most that the namespace may use.")],
    *,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets a quota of a namespace. What exists stays, also when it is more than the limit."""
    found = ask("PUT", _path(namespace, quota), url=url, body={"limit": limit, "reason": reason})
    if print_structured(found, output):
        return
    used = "" if found["used"] is None else f", {_number(found['used'])} in use"
    console().print(f"quota {quota} of namespace {plain_text(namespace)}: {found['limit']}{used}", markup=False)


def unset(
    namespace: NamespaceArgument,
    quota: QuotaArgument,
    *,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Removes a quota of a namespace."""
    found = ask("DELETE", _path(namespace, quota), url=url, params={"reason": reason})
    if not print_structured(found, output):
        console().print(f"quota {quota} of namespace {plain_text(namespace)} was removed", markup=False)


def _row(use: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **use,
        "used": None if use["used"] is None else _number(use["used"]),
        "in use": None if use["ratio"] is None else f"{use['ratio']:.0%}",
    }


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def _path(namespace: str, quota: Quota | None = None) -> str:
    path = f"/v1/namespaces/{quoted(namespace, safe='')}/quotas"
    return path if quota is None else f"{path}/{quota}"
