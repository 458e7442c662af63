"""`streamsched schedule`: what starts what, when."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from streamsched.cli.output import Format, FormatOption, console, moment, print_json, print_table, progress_tree
from streamsched.cli.server import UrlOption, ask, full_name

_COLUMNS = ("id", "enabled", "program", "when", "progress", "waitingJobs", "nextTickAt")

Schedule = Annotated[str, typer.Argument(help="[namespace.]app.name")]


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="What starts what, when.", no_args_is_help=True)
    app.command("list")(list_schedules)
    app.command("show")(show)
    app.command("enable")(enable)
    app.command("disable")(disable)
    app.command("delete")(delete)
    return app


def list_schedules(
    *,
    namespace: Annotated[str, typer.Option(help="Only of this namespace.")] = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """All schedules, with how far each has come."""
    schedules = ask("GET", "/v1/schedules", url=url, params={"namespace": namespace})["schedules"]
    if output is Format.JSON:
        print_json(schedules)
    else:
        rows = [{**each, "progress": _short(each.get("progress"))} for each in schedules]
        print_table(rows, _COLUMNS, empty="no schedules yet: `streamsched deploy FILE`")


def show(schedule: Schedule, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """One schedule in words, and how far it has come."""
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}", url=url)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    state = "[green]enabled[/]" if found["enabled"] else "[yellow]disabled[/]"
    out.print(f"[bold]{found['id']}[/] is {state} (generation {found['generation']})")
    if found.get("description"):
        out.print(found["description"], markup=False)
    out.print(
        f"starts {found['namespace']}.{found['application']}.{found['program']} when {found['when']}", markup=False
    )
    if found.get("nextTickAt"):
        out.print(f"next tick {moment(found['nextTickAt'])}")
    if found.get("waitingJobs"):
        out.print(f"{found['waitingJobs']} waiting: `streamsched job list --schedule {found['id']}`")
    out.print(progress_tree(found["progress"]) if found.get("progress") else "nothing has come yet")


def enable(schedule: Schedule, *, url: UrlOption = "") -> None:
    """From when this returns, every event counts."""
    _change("enable", schedule, url)


def disable(schedule: Schedule, *, url: UrlOption = "") -> None:
    """Stops listening; waiting jobs end as OBSOLETE, running runs go on."""
    _change("disable", schedule, url)


def delete(schedule: Schedule, *, url: UrlOption = "") -> None:
    """Forgets the schedule; waiting jobs end as OBSOLETE, running runs go on."""
    ask("DELETE", f"/v1/schedules/{full_name(schedule)}", url=url)
    console().print(f"{full_name(schedule)} is deleted")


def _change(verb: str, schedule: str, url: str) -> None:
    found = ask("POST", f"/v1/schedules/{full_name(schedule)}/{verb}", url=url)
    console().print(
        f"{found['id']} is {'enabled' if found['enabled'] else 'disabled'} (generation {found['generation']})"
    )


def _short(progress: dict[str, Any] | None) -> str:
    """A leaf's own count, or the counts of the leaves below: `7 of 7, 3 of 7`."""
    if not progress:
        return "-"
    children = progress.get("children") or []
    if not children:
        return f"{progress['have']} of {progress['need']}"
    return ", ".join(_short(child) for child in children)
