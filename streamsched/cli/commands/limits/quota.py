"""`streamsched quota`: limits that an admin sets on a namespace, with what is in use."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote as quoted

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, print_structured, print_table
from streamsched.cli.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import plain_text
from streamsched.domain.quotas.quota import Quota

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
QuotaArgument = Annotated[
    Quota, typer.Argument(metavar="QUOTA", show_choices=False, help=f"What is limited: {', '.join(Quota)}.")
]
_COLUMNS = ("namespace", "quota", "limit", "used", "in use", "reason")


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
    namespaces, more = fetch_list("/v1/quotas", "namespaces", url=url, output=output, after=after, limit=limit)
    if output.is_structured:
        print_structured(namespaces, output)
        return
    _print([use for each in namespaces for use in each["quotas"]], output, empty="no namespace has a quota")
    print_more(more)


def show(namespace: NamespaceArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows the quotas of a namespace and what is in use."""
    found = ask("GET", _path(namespace), url=url)
    if output.is_structured:
        print_structured(found, output)
        return
    _print(found["quotas"], output, empty=f"namespace {plain_text(namespace)} has no quota")


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
    if output.is_structured:
        print_structured(found, output)
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
    if output.is_structured:
        print_structured(found, output)
    else:
        console().print(f"quota {quota} of namespace {plain_text(namespace)} was removed", markup=False)


def _print(uses: list[dict[str, Any]], output: Format, *, empty: str) -> None:
    rows = [
        {
            **each,
            "used": None if each["used"] is None else _number(each["used"]),
            "in use": None if each["ratio"] is None else f"{each['ratio']:.0%}",
        }
        for each in uses
    ]
    print_table(rows, _COLUMNS, wide=output.is_wide, empty=empty)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def _path(namespace: str, quota: Quota | None = None) -> str:
    path = f"/v1/namespaces/{quoted(namespace, safe='')}/quotas"
    return path if quota is None else f"{path}/{quota}"
