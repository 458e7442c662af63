"""`streamsched namespace`: preferences of a namespace, which are arguments of every run of its programs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.group import new_group
from streamsched.cli.output import console, moment
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import ReasonOption
from streamsched.cli.table import plain_text
from streamsched.client.api_call import api_path
from streamsched.domain.errors import InvalidError

NamespaceArgument = Annotated[str, typer.Argument(metavar="NAMESPACE", help="Name of the namespace.")]


def commands() -> typer.Typer:
    """The commands of `streamsched namespace`."""
    app = new_group("Sets what holds for all programs of a namespace.")
    preferences = new_group("Sets preferences: arguments of every run of a namespace's programs.")
    preferences.command("show")(show)
    preferences.command("set")(set_)
    preferences.command("delete")(delete)
    app.add_typer(preferences, name="preferences")
    return app


@request_command
def show(namespace: NamespaceArgument) -> CommandRequest:
    """Shows the preferences of a namespace, and when and why they last changed."""
    return _request("GET", namespace)


@request_command
def set_(
    namespace: NamespaceArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Preferences to set.")] = None,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Remove all other preferences.")] = False,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Sets preferences of a namespace; the others stay.

    They override the arguments of programs. Key columns, properties of the schedule and arguments given to `run start`
    override them. Jobs that become runs afterwards have them; runs that exist keep their arguments.
    """
    given = pairs(arguments or ())
    if not given and not replace:
        raise InvalidError("NAME=VALUE", "give at least one, or --replace to remove all")
    return _request("PUT" if replace else "PATCH", namespace, {"arguments": given, "reason": reason})


@request_command
def delete(
    namespace: NamespaceArgument,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Preferences to remove. Default: all.")
    ] = None,
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Removes preferences of a namespace: those named, or all. One that does not exist is no error."""
    body = {"arguments": dict.fromkeys(names or ()), "reason": reason}
    return _request("PATCH" if names else "PUT", namespace, body)


def _request(method: str, namespace: str, body: object = None) -> CommandRequest:
    path = api_path("namespaces", namespace, "preferences")
    return CommandRequest(method=method, path=path, body=body, show=_print, names=lambda found: found["arguments"])


def _print(found: dict[str, Any]) -> None:
    out = console()
    for name, value in found["arguments"].items():
        out.print(f"{plain_text(name)}={plain_text(value)}", markup=False, highlight=False, soft_wrap=True)
    if not found["arguments"]:
        out.print(f"namespace {found['namespace']} has no preferences", style="dim")
    if found["changedAt"] is not None:
        because = f": {plain_text(found['reason'])}" if found["reason"] else ""
        out.print(f"last changed {moment(found['changedAt'])}{because}", markup=False, soft_wrap=True)
    if not found["deployed"]:
        out.print(f"no app was ever deployed to namespace {found['namespace']}", markup=False)
