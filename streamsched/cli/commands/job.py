"""`streamsched job`: jobs (satisfied schedules), the explanation of their state, and commands for waiting jobs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_job, full_name, short_name
from streamsched.cli.output import (
    Format,
    FormatOption,
    colour_state,
    console,
    duration,
    escape_text,
    local_times,
    moment,
    state_style,
)
from streamsched.cli.resources.listing import AppFilter, Listing, NamespaceFilter, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, find_url
from streamsched.cli.shell.completion import job_names, schedule_names
from streamsched.cli.table import Column, ColumnKind, plain_text
from streamsched.client.api_call import api_path
from streamsched.ports.clock import SystemClock

_COLUMNS: Final = (
    Column("id", "job", ColumnKind.ID),
    Column("state", style=state_style),
    Column("attempts", optional=2),
    Column("duration", optional=1),
    Column("satisfiedAt", "satisfied", ColumnKind.TIME),
    Column("nextCheckAt", "next check", ColumnKind.TIME),
    Column("missed", kind=ColumnKind.TEXT, optional=3),
    Column("reason", kind=ColumnKind.REASON),
)

Job = Annotated[str, typer.Argument(metavar="JOB", autocompletion=job_names, help="Id of the job.")]


def commands() -> typer.Typer:
    """The commands of `streamsched job`."""
    app = new_group("Lists, explains and controls jobs: satisfied schedules, waiting or launched.")
    app.command("list")(list_jobs)
    app.command("show")(show)
    app.command("why")(why)
    app.command("follow")(follow)
    for each in (force, cancel, hold, release):
        app.command()(each)
    return app


def follow(
    *,
    schedule: Annotated[
        str, typer.Option(autocompletion=schedule_names, help="Only jobs of this schedule, [namespace.]app.name.")
    ] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only jobs of this namespace.")] = "",
    after: Annotated[int | None, typer.Option("--after", help="Begin after the decision with this number.")] = None,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Prints decisions about jobs and runs as they are made, until Ctrl-C: why one was launched, waits or was refused.

    With `-o json` each is a line of JSON, whose `number` `--after` takes.
    """
    import json

    from streamsched.cli.connection.server_url import token_of
    from streamsched.client import Client
    from streamsched.codec.events.native import to_plain
    from streamsched.wire.decisions import DECISION

    where = find_url(url)
    wanted = full_name(schedule) if schedule else None
    with Client(where, token=token_of(where)) as client, suppress(KeyboardInterrupt):
        for each in client.decisions(namespace=namespace or None, schedule=wanted, after=after):
            if output.is_structured:
                typer.echo(json.dumps(to_plain(DECISION.write(each))))
            else:
                line = f"{moment(each.at.isoformat())}  {short_name(each.subject)}  {each.action}  {each.reason}"
                typer.echo(plain_text(line))


def _row(job: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the list. The duration of an active run is the time until now."""
    launched = job["state"] == "LAUNCHED" and job.get("outcome")
    now = SystemClock().now().isoformat()
    return {
        **job,
        "id": short_name(job["id"]),
        "state": job["outcome"] if launched else job["state"],
        "attempts": job.get("attempts") or None,
        "duration": duration(job.get("lastRunStartedAt"), job.get("lastRunEndedAt") or now),
        "reason": (job.get("outcomeReason") if launched else job["reason"]) or None,
    }


@list_command(Listing("jobs", _COLUMNS, "no jobs yet: no schedule has been satisfied", _row, page=30))
def list_jobs(
    *,
    schedule: Annotated[
        str, typer.Option(autocompletion=schedule_names, help="Only jobs of this schedule, [namespace.]app.name.")
    ] = "",
    app: AppFilter = "",
    namespace: NamespaceFilter = "",
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only jobs in this state, such as PENDING_CONSTRAINT, LAUNCHED or FAILED; can be repeated."),
    ] = None,
) -> Query:
    """Lists jobs, newest first. A launched job is shown with the state of its last run."""
    states = [each.upper() for each in state or ()]
    filters = {"schedule": full_name(schedule), "app": full_app(app), "namespace": namespace, "state": states}
    return Query("/v1/jobs", filters)


@request_command
def show(job: Job) -> CommandRequest:
    """Shows a job."""
    return CommandRequest(path=api_path("jobs", full_job(job)))


@request_command
def why(job: Job) -> CommandRequest:
    """Explains the state of a job: its constraints, and the earliest time at which it can start."""
    return CommandRequest(path=api_path("jobs", full_job(job), "why"), show=_print_why)


def _print_why(found: Mapping[str, Any]) -> None:
    out = console()
    out.print(f"[bold]{short_name(found['job'])}[/] is {colour_state(found['state'])}")
    out.print(local_times(found["summary"]), markup=False)
    for line in found["satisfiedBy"]:
        out.print(f"  satisfied by {line}", markup=False)
    if found["since"]:
        out.print(f"  waiting since {moment(found['since'])}", markup=False)
    for clause in found["clauses"]:
        mark = "[green]✓[/]" if clause["holds"] else "[yellow]…[/]"
        out.print(f"  {mark} {escape_text(clause['needs'])}: {escape_text(local_times(clause['text']))}")
        for holder in clause["holders"]:
            out.print(
                f"      {short_name(holder['run'])} is {holder['state']} since {moment(holder['since'])}", markup=False
            )
    if found["earliest"]:
        because = f" ({found['earliestBecause']})" if found["earliestBecause"] else ""
        out.print(f"earliest {moment(found['earliest'])}{because}", markup=False)
    if found["timeout"]:
        out.print(local_times(found["timeout"]), markup=False)
    for line in found["deadlines"]:
        out.print(local_times(line), markup=False)
    for each in found["history"]:
        reason = f": {local_times(each['reason'])}" if each["reason"] else ""
        out.print(f"  {moment(each['at'])}  {each['action']}{reason}", markup=False, style="dim")


@request_command
def force(job: Job, *, reason: ReasonOption = "") -> CommandRequest:
    """Starts a waiting job without its constraints."""
    return _request(job, "force", reason)


@request_command
def cancel(job: Job, *, reason: ReasonOption = "") -> CommandRequest:
    """Ends a waiting job; it starts nothing."""
    return _request(job, "cancel", reason)


@request_command
def hold(job: Job, *, reason: ReasonOption = "") -> CommandRequest:
    """Keeps a job waiting until `job release`."""
    return _request(job, "hold", reason)


@request_command
def release(job: Job, *, reason: ReasonOption = "") -> CommandRequest:
    """Withdraws `force`, `cancel` or `hold`; the job waits for its constraints again."""
    return _request(job, "release", reason)


def _request(job: str, action: str, reason: str) -> CommandRequest:
    said = f"{job}: {action} requested; see `streamsched job why {job}`"
    return action_request(api_path("jobs", full_job(job), action), lambda _: said, reason=reason)
