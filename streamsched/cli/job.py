"""`streamsched job`: satisfied schedules, waiting or launched, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from streamsched.cli.output import Format, FormatOption, cell, console, escaped, moment, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask, full_name

_COLUMNS = ("id", "state", "satisfiedAt", "nextCheckAt", "runs", "missed", "reason")

Job = Annotated[str, typer.Argument(help="Id of a job.")]


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="Satisfied schedules, waiting or launched.", no_args_is_help=True)
    app.command("list")(list_jobs)
    app.command("show")(show)
    app.command("why")(why)
    for each in (force, cancel, hold, release):
        app.command()(each)
    return app


def list_jobs(
    *,
    schedule: Annotated[str, typer.Option(help="Only of this schedule.")] = "",
    state: Annotated[list[str] | None, typer.Option(help="Only in this state; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 30,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """The newest jobs first."""
    states = [each.upper() for each in state or ()]
    params = {"schedule": full_name(schedule), "state": states, "limit": limit}
    jobs = ask("GET", "/v1/jobs", url=url, params=params)["jobs"]
    if output is Format.JSON:
        print_json(jobs)
    else:
        print_table(jobs, _COLUMNS, empty="no jobs yet: no schedule was satisfied")


def show(job: Job, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """One job."""
    found = ask("GET", f"/v1/jobs/{job}", url=url)
    if output is Format.JSON:
        print_json(found)
    else:
        rows = [{"what": name, "value": value} for name, value in found.items() if value not in (None, [], "")]
        print_table(rows, ("what", "value"), empty="")


def why(job: Job, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Why a job is where it is, and the earliest time that can change it."""
    found = ask("GET", f"/v1/jobs/{job}/why", url=url)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    out.print(f"[bold]{found['job']}[/] is {cell(found['state'])}")
    out.print(found["summary"], markup=False)
    for line in found["satisfiedBy"]:
        out.print(f"  satisfied by {line}", markup=False)
    if found["since"]:
        out.print(f"  waits since {moment(found['since'])}", markup=False)
    for clause in found["clauses"]:
        mark = "[green]✓[/]" if clause["holds"] else "[yellow]…[/]"
        out.print(f"  {mark} {escaped(clause['needs'])}: {escaped(clause['text'])}")
        for holder in clause["holders"]:
            out.print(f"      {holder['run']} is {holder['state']} since {moment(holder['since'])}", markup=False)
    if found["earliest"]:
        because = f" ({found['earliestBecause']})" if found["earliestBecause"] else ""
        out.print(f"earliest {moment(found['earliest'])}{because}", markup=False)
    if found["timeout"]:
        out.print(found["timeout"], markup=False)
    for line in found["deadlines"]:
        out.print(line, markup=False)
    for each in found["history"]:
        reason = f": {each['reason']}" if each["reason"] else ""
        out.print(f"  {moment(each['at'])}  {each['action']}{reason}", markup=False, style="dim")


def force(job: Job, *, reason: ReasonOption = "", url: UrlOption = "") -> None:
    """Runs a waiting job without its constraints."""
    _tell(job, "force", reason, url)


def cancel(job: Job, *, reason: ReasonOption = "", url: UrlOption = "") -> None:
    """Ends a waiting job."""
    _tell(job, "cancel", reason, url)


def hold(job: Job, *, reason: ReasonOption = "", url: UrlOption = "") -> None:
    """Keeps a waiting job back until it is released."""
    _tell(job, "hold", reason, url)


def release(job: Job, *, reason: ReasonOption = "", url: UrlOption = "") -> None:
    """Takes back what a waiting job was told."""
    _tell(job, "release", reason, url)


def _tell(job: str, order: str, reason: str, url: str) -> None:
    ask("POST", f"/v1/jobs/{job}/{order}", url=url, body={"reason": reason} if reason else {})
    console().print(f"{job}: {order} is on its way: `streamsched job why {job}`", markup=False)
