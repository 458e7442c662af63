"""`streamsched run`: starting, listing and killing runs (executions of programs), and their logs."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.program import started_text
from streamsched.cli.following import follow_job, follow_log, run_exit_code
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, full_run, short_name
from streamsched.cli.output import Format, FormatOption, duration, print_answer, state_style
from streamsched.cli.provenance import print_run
from streamsched.cli.rerunning import rerun
from streamsched.cli.resources.listing import AppFilter, Listing, NamespaceFilter, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask, request
from streamsched.cli.shell.completion import program_names, run_names
from streamsched.cli.shell.log_text import LogText
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.run import RunState
from streamsched.ports.clock import SystemClock

_COLUMNS: Final = (
    Column("id", "run", ColumnKind.ID),
    Column("state", style=state_style),
    Column("startedAt", "started", ColumnKind.TIME),
    Column("duration", optional=1),
    Column("program", optional=2),
    Column("reason", kind=ColumnKind.REASON),
)

Run = Annotated[str, typer.Argument(metavar="RUN", autocompletion=run_names, help="Id of the run.")]


def commands() -> typer.Typer:
    """The commands of `streamsched run`."""
    app = new_group("Starts, repeats, lists, shows and kills runs: executions of programs.")
    app.command("start")(start)
    app.command("rerun")(rerun)
    app.command("list")(list_runs)
    app.command("show")(show)
    app.command("logs")(logs)
    app.command("kill")(kill)
    return app


def start(
    program: Annotated[
        str, typer.Argument(metavar="[PROGRAM]", help="Program, [namespace.]app.name; or name a --schedule.")
    ] = "",
    *,
    schedule: Annotated[
        str, typer.Option(help="Schedule, [namespace.]app.name: the job is one of this schedule.")
    ] = "",
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="NAME=VALUE",
            help="An argument of the run; overrides those of schedule and program. Can be repeated.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=VALUE", help="The key of a correlating schedule; repeated for several columns."),
    ] = None,
    reason: ReasonOption = "",
    idempotency_key: Annotated[
        str, typer.Option(help="A repeat with the same key finds the first job. Default: a random key.")
    ] = "",
    now: Annotated[
        bool, typer.Option("--now", help="Start at once, without a job, or refuse when a limit is reached.")
    ] = False,
    at_most: Annotated[
        int | None, typer.Option(min=1, help="With --now: refuse when this many runs of the program are active.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --now: ignore --at-most and the limits of groups and pools.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow the log to the end; exit with the exit code of the run.")
    ] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Submits a schedule or a program: makes a job that waits for its constraints, like any other.

    With --schedule the job is one of the schedule, with its constraints, properties and policies. A program alone waits
    for the limits that its schedules share. `job why` explains what the job waits for. With --wait, the exit code is
    that of the last run; 1 when the job ended without one.
    """
    if bool(program) == bool(schedule):
        raise InvalidError("PROGRAM", "name either a program or a --schedule")
    if now and schedule:
        raise InvalidError("--now", "starts a program without a job, so it is not for a --schedule")
    if (at_most or force) and not now:
        raise InvalidError("--at-most and --force", "are only for --now")
    if not (idempotency_key.isascii() and idempotency_key.isprintable()):
        raise InvalidError("--idempotency-key", "must be printable ASCII")
    body: dict[str, Any] = {"arguments": pairs(arguments or ()), "reason": reason or None}
    if schedule:
        body |= {"key": pairs(key or ())}
    elif key:
        raise InvalidError("--key", "is for a --schedule; a program alone has no key")
    else:
        body |= {"now": now, "atMost": at_most, "force": force or None}
    path = f"/v1/schedules/{full_name(schedule)}/runs" if schedule else f"/v1/programs/{full_name(program)}/runs"
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else None
    found = ask("POST", path, url=url, body=body, headers=headers)
    print_answer(found, output, started_text)
    if wait and "run" in found:
        follow_log(f"/v1/runs/{found['run']}/logs", "0", url)
        raise typer.Exit(run_exit_code(ask("GET", f"/v1/runs/{found['run']}", url=url)))
    if wait:
        raise typer.Exit(follow_job(found["job"], url))


def _row(run: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the list. The duration of an active run is the time until now."""
    now = SystemClock().now().isoformat()
    return {
        **run,
        "id": short_name(run["id"]),
        "program": short_name(run["program"]),
        "duration": duration(run["startedAt"], run["endedAt"] or now),
        "reason": run["reason"] or None,
    }


@list_command(Listing("runs", _COLUMNS, "no runs yet", _row, page=30))
def list_runs(
    *,
    program: Annotated[
        str, typer.Option(autocompletion=program_names, help="Only runs of this program, [namespace.]app.name.")
    ] = "",
    app: AppFilter = "",
    namespace: NamespaceFilter = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in this state, such as RUNNING or FAILED; can be repeated.")
    ] = None,
) -> Query:
    """Lists runs, newest first."""
    states = [each.upper() for each in state or ()]
    filters = {"program": full_name(program), "app": full_app(app), "namespace": namespace, "state": states}
    return Query("/v1/runs", filters)


@request_command
def show(run: Run) -> CommandRequest:
    """Shows a run, what made it, where each argument comes from, and its chain of attempts and reruns."""
    return CommandRequest(path=api_path("runs", full_run(run)), show=print_run)


def logs(
    run: Run,
    *,
    tail: Annotated[int, typer.Option(min=1, max=100_000, help="Number of lines from the end of the log.")] = 1000,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Print new output until the run has ended.")] = False,
    url: UrlOption = "",
) -> None:
    """Prints the last lines of a run's log.

    With --follow, exit code 1: the run did not complete.
    """
    path = f"/v1/runs/{full_run(run)}/logs"
    answer = request("GET", path, url=url, params={"tail": tail})
    shown = LogText(terminal=sys.stdout.isatty())
    typer.echo(shown.part(answer.text) + shown.end(), nl=False)
    if follow:
        state = follow_log(path, answer.headers["streamsched-log-offset"], url)
        if state is not RunState.COMPLETED:
            raise typer.Exit(1)


@request_command
def kill(
    run: Run,
    *,
    reason: ReasonOption = "",
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Kill the process at once, without time to clean up.")
    ] = False,
) -> CommandRequest:
    """Requests the end of a run; `run show` shows when it has ended."""
    return action_request(
        api_path("runs", full_run(run), "kill"),
        lambda found: f"{short_name(found['id'])}: kill requested; its state is {found['state']}",
        reason=reason,
        atOnce=at_once,
    )
