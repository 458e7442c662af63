"""`streamsched quota`: limits that an admin sets on a namespace, with what is in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption
from streamsched.cli.resources.listing import Listing, print_items
from streamsched.cli.resources.paging import AfterOption, LimitOption, fetch_list, print_more
from streamsched.cli.resources.request import CommandRequest, Table, request_command
from streamsched.cli.server import ReasonOption, UrlOption
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path
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


@request_command
def show(namespace: NamespaceArgument) -> CommandRequest:
    """Shows the quotas of a namespace and what is in use."""
    empty = f"namespace {plain_text(namespace)} has no quota"
    return CommandRequest(
        path=_path(namespace),
        show=Table(_COLUMNS, empty, lambda found: map(_row, found["quotas"])),
        names=lambda found: [each["quota"] for each in found["quotas"]],
    )


@request_command
def set_(
    namespace: NamespaceArgument,
    quota: QuotaArgument,
    limit: Annotated[int, typer.Argument(min=0, metavar="LIMIT", help="The most that the namespace may use.")],
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Sets a quota of a namespace. What exists stays, also when it is more than the limit."""

    def show(found: Mapping[str, Any]) -> str:
        used = "" if found["used"] is None else f", {_number(found['used'])} in use"
        return f"quota {quota} of namespace {plain_text(namespace)}: {found['limit']}{used}"

    body = {"limit": limit, "reason": reason}
    return CommandRequest(method="PUT", path=_path(namespace, quota), body=body, show=show, names=lambda _: [quota])


@request_command
def unset(
    namespace: NamespaceArgument,
    quota: QuotaArgument,
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Removes a quota of a namespace."""
    return CommandRequest(
        method="DELETE",
        path=_path(namespace, quota),
        params={"reason": reason},
        show=lambda _: f"quota {quota} of namespace {plain_text(namespace)} was removed",
        names=lambda _: [quota],
    )


def _row(use: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **use,
        "used": None if use["used"] is None else _number(use["used"]),
        "in use": None if use["ratio"] is None else f"{use['ratio']:.0%}",
    }


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def _path(namespace: str, *quota: Quota) -> str:
    return api_path("namespaces", namespace, "quotas", *quota)
