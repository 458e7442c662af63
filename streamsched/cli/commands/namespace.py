"""`streamsched namespace`: preferences of a namespace, which are arguments of every run of its programs."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.group import new_group
from streamsched.cli.output import Format, FormatOption, console, moment, print_structured
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import plain_text
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


def show(namespace: NamespaceArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows the preferences of a namespace, and when and why they last changed."""
    _print(ask("GET", _path(namespace), url=url), output)


def set_(
    namespace: NamespaceArgument,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="NAME=VALUE", help="Preferences to set.")] = None,
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Remove all other preferences.")] = False,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Sets preferences of a namespace; the others stay.

    They override the arguments of programs. Key columns, properties of the schedule and arguments given to `run start`
    override them. Jobs that become runs afterwards have them; runs that exist keep their arguments.
    """
    given = pairs(arguments or ())
    if not given and not replace:
        raise InvalidError("NAME=VALUE", "give at least one, or --replace to remove all")
    body = {"arguments": given, "reason": reason}
    _print(ask("PUT" if replace else "PATCH", _path(namespace), url=url, body=body), output)


def delete(
    namespace: NamespaceArgument,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Preferences to remove. Default: all.")
    ] = None,
    *,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Removes preferences of a namespace: those named, or all. One that does not exist is no error."""
    if names:
        body: dict[str, Any] = {"arguments": dict.fromkeys(names), "reason": reason}
        _print(ask("PATCH", _path(namespace), url=url, body=body), output)
    else:
        _print(ask("PUT", _path(namespace), url=url, body={"arguments": {}, "reason": reason}), output)


def _path(namespace: str) -> str:
    return f"/v1/namespaces/{quote(namespace, safe='')}/preferences"


def _print(found: dict[str, Any], output: Format) -> None:
    if print_structured(found, output):
        return
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
