"""`streamsched app`: listing, showing and deleting apps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.confirmation import DryRunOption, YesOption, print_change
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, short_name, without_default
from streamsched.cli.output import Format, FormatOption, console, moment, print_structured
from streamsched.cli.resources.listing import Listing, NamespaceFilter, Query, list_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.shell.completion import app_names
from streamsched.cli.table import Column, ColumnKind

#: Most programs and schedules that `show` lists, of each.
_SHOWN: Final = 100

AppArgument = Annotated[str, typer.Argument(metavar="APP", autocompletion=app_names, help="App, [namespace.]app.")]


def commands() -> typer.Typer:
    """The commands of `streamsched app`."""
    app = new_group("Lists, shows and deletes apps: programs and schedules that are deployed together.")
    app.command("list")(list_apps)
    app.command("show")(show)
    app.command("delete")(delete)
    return app


def _row(app: Mapping[str, Any]) -> dict[str, Any]:
    return {**app, "id": short_name(app["id"]), "schedules": _schedules(app["schedules"])}


@list_command(
    Listing(
        "apps",
        (
            Column("id", "app", ColumnKind.ID),
            "programs",
            "schedules",
            Column("deployedAt", "deployed", ColumnKind.TIME),
            Column("deployedFrom", "from", optional=1),
        ),
        "no apps yet: `streamsched deploy FILE`",
        _row,
    )
)
def list_apps(*, namespace: NamespaceFilter = "") -> Query:
    """Lists apps with the number of their programs and schedules, ordered by id."""
    return Query("/v1/apps", {"namespace": namespace})


def show(app: AppArgument, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows an app with its programs and schedules."""
    ref = full_app(app)
    found = ask("GET", _path(ref), url=url)
    query = {"app": ref, "limit": _SHOWN}
    programs = ask("GET", "/v1/programs", url=url, params=query)
    schedules = ask("GET", "/v1/schedules", url=url, params=query)
    if print_structured({**found, "programs": programs["programs"], "schedules": schedules["schedules"]}, output):
        return
    out = console()
    where = f" from {found['deployedFrom']}" if found["deployedFrom"] else ""
    out.print(
        f"{short_name(ref)}: {found['programs']} programs, {_schedules(found['schedules'], 'schedules')}", markup=False
    )
    out.print(f"deployed {moment(found['deployedAt'])}{where}", markup=False)
    for each in programs["programs"]:
        out.print(f"  program  {short_name(each['id'])} ({each['type']})", markup=False)
    for each in schedules["schedules"]:
        out.print(
            f"  schedule {short_name(each['id'])} is {each['state']}: starts {short_name(each['program'])} when"
            f" {without_default(each['when'])}",
            markup=False,
        )
    for kind, page in (("program", programs), ("schedule", schedules)):
        if page.get("next"):
            out.print(f"  more: `streamsched {kind} list --app {short_name(ref)}`", markup=False)


def delete(
    app: AppArgument,
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deletes an app: all its programs and schedules.

    Schedules of other apps of the namespace that wait for one of its programs lose that part of their trigger; those
    whose trigger cannot hold without it are deleted. Those of other namespaces stay and say so. Waiting jobs end,
    active runs continue, and the history stays. The command shows what would be lost and asks for confirmation at a
    terminal; without a terminal it needs --yes (otherwise exit code 7).
    """

    def show(changed: Mapping[str, Any]) -> str:
        return (
            f"{short_name(full_app(app))} is deleted: {len(changed['programs'])} programs; "
            f"{len(changed['schedules'])} schedules deleted or updated; {len(changed['endedJobs'])} waiting jobs ended"
        )

    params = {"reason": reason}
    print_change("DELETE", _path(full_app(app)), show, params=params, yes=yes, dry_run=dry_run, output=output, url=url)


def _path(ref: str) -> str:
    return "/v1/apps/" + ref.replace(".", "/")


def _schedules(counts: Mapping[str, Any], noun: str = "") -> str:
    """`5`, or `5 (2 paused)`: how many, and those that are not enabled."""
    others = ", ".join(f"{counts[state]} {state}" for state in ("paused", "disabled") if counts.get(state))
    return f"{counts['total']} {noun}".strip() + (f" ({others})" if others else "")
