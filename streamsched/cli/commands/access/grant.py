"""`streamsched grant`: what the owner of a namespace lets schedules of another refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.output import console
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import ReasonOption
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path
from streamsched.domain.access.namespace_grant import SharedKind

OwnerArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace that owns it.")]
KindArgument = Annotated[SharedKind, typer.Argument(metavar="KIND", help=f"{', '.join(SharedKind)}.")]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Its name without the namespace (of a program, app.program), or a pattern such as '*'."
    ),
]
GranteeArgument = Annotated[str, typer.Argument(metavar="TO", help="The namespace whose schedules refer to it.")]
_COLUMNS: Final = (
    Column("owner", kind=ColumnKind.ID),
    "kind",
    Column("name", kind=ColumnKind.ID),
    Column("grantee", "to", kind=ColumnKind.ID),
    "state",
    "details",
    Column("by", optional=1),
    Column("at", kind=ColumnKind.TIME),
    Column("reason", kind=ColumnKind.REASON),
)


def commands() -> typer.Typer:
    """The commands of `streamsched grant`."""
    app = new_group("Lets schedules of another namespace wait for events, or use groups and pools, of one.")
    app.command("list")(list_)
    app.command("give")(give)
    app.command("refuse")(refuse)
    app.command("remove")(remove)
    app.command("hand-over")(hand_over)
    return app


@list_command(
    Listing(
        "grants",
        _COLUMNS,
        "the namespace has given no grant and has none",
        name=lambda grant: _name(grant),  # noqa: PLW0108 (defined below)
    )
)
def list_(
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace that has given or has them.")],
) -> Query:
    """Lists the grants that a namespace has given and those that it has. A pending one waits for its owner's decision;
    until then ends of programs arrive without log, error and arguments. With `-o name` each line has the arguments of
    `grant remove`.
    """
    return Query(_path(namespace))


@request_command
def give(
    namespace: OwnerArgument,
    kind: KindArgument,
    name: NameArgument,
    to: GranteeArgument,
    *,
    details: Annotated[
        bool, typer.Option("--details", help="Ends of programs arrive with error, log, run and arguments.")
    ] = False,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Gives a grant, or answers one that is pending."""
    body = {"kind": kind, "name": name, "grantee": to, "details": details, "reason": reason}
    return _decision("PUT", namespace, "granted", body=body)


@request_command
def refuse(
    namespace: OwnerArgument,
    kind: KindArgument,
    name: NameArgument,
    to: GranteeArgument,
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Refuses a use. Schedules that rely on it are paused; they keep what they have accumulated."""
    body = {"kind": kind, "name": name, "grantee": to, "state": "refused", "reason": reason}
    return _decision("PUT", namespace, "refused", body=body)


@request_command
def remove(
    namespace: OwnerArgument,
    kind: KindArgument,
    name: NameArgument,
    to: GranteeArgument,
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Takes a decision back. Schedules that relied on a grant are paused, as by a refusal."""
    params = {"kind": kind, "name": name, "grantee": to, "reason": reason}
    return _decision("DELETE", namespace, "removed", params=params)


@request_command
def hand_over(
    kind: Annotated[SharedKind, typer.Argument(metavar="KIND", help="group or pool.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the group or pool.")],
    namespace: Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace that owns it from now on.")],
) -> CommandRequest:
    """Hands a group or pool over to a namespace. Without this it belongs to the one that declared it first."""
    if kind not in (SharedKind.GROUP, SharedKind.POOL):
        raise typer.BadParameter("KIND is group or pool; other names belong to their namespace")
    return CommandRequest(
        method="PUT",
        path=api_path(f"{kind}s", name, "owner"),
        body={"namespace": namespace},
        show=lambda _: f"{kind} {plain_text(name)} belongs to namespace {plain_text(namespace)}",
    )


def _name(grant: Mapping[str, Any]) -> str:
    """The arguments of `grant remove`."""
    return f"{grant['owner']} {grant['kind']} {grant['name']} {grant['grantee']}"


def _decision(method: str, namespace: str, done: str, **sent: Any) -> CommandRequest:
    return CommandRequest(
        method=method,
        path=_path(namespace),
        show=lambda found: _print(found, done),
        names=lambda found: [_name(found)],
        **sent,
    )


def _print(found: Mapping[str, Any], done: str) -> None:
    what = f"{found['kind']} {found['owner']}.{found['name']} to {found['grantee']}"
    details = " with details" if found["details"] and done == "granted" else ""
    console().print(f"{plain_text(what)}: {done}{details}", markup=False)
    for each in found["suspended"]:
        console().print(f"  paused: {plain_text(each)}", markup=False)


def _path(namespace: str) -> str:
    return api_path("namespaces", namespace, "grants")
