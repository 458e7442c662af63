"""`streamsched run`: runs (executions of programs), their logs, and killing them."""

from __future__ import annotations

import codecs
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, full_run, short
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    duration,
    print_json,
    print_record,
    print_table,
    state_style,
)
from streamsched.cli.paging import AfterOption, print_more
from streamsched.cli.server import ReasonOption, UrlOption, ask, request
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.jobs.run import RunState
from streamsched.ports.clock import SystemClock

_COLUMNS: Final = (
    Column("id", "run", ColumnKind.ID),
    Column("state", style=state_style),
    Column("startedAt", "started", optional=3),
    Column("duration", optional=1),
    Column("program", kind=ColumnKind.ID, optional=4),
    Column("reason", kind=ColumnKind.TEXT, optional=2, breakable=True),
)

#: Seconds between requests for a log that is followed.
_POLL_INTERVAL: Final = 0.5

Run = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]


def commands() -> typer.Typer:
    """The commands of `streamsched run`."""
    app = new_group("Lists, shows and kills runs: executions of programs.")
    app.command("list")(list_runs)
    app.command("show")(show)
    app.command("logs")(logs)
    app.command("kill")(kill)
    return app


def list_runs(
    *,
    program: Annotated[str, typer.Option(help="Only runs of this program, [namespace.]app.name.")] = "",
    app: Annotated[str, typer.Option("--app", help="Only runs of this app, [namespace.]app.")] = "",
    state: Annotated[
        list[str] | None, typer.Option(help="Only runs in this state, such as RUNNING or FAILED; can be repeated.")
    ] = None,
    after: AfterOption = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of runs.")] = 30,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists runs, newest first."""
    states = [each.upper() for each in state or ()]
    params = {"program": full_name(program), "app": full_app(app), "state": states, "after": after, "limit": limit}
    found = ask("GET", "/v1/runs", url=url, params=params)
    runs = found["runs"]
    if output is Format.JSON:
        print_json(runs)
    else:
        print_table(map(_row, runs), _COLUMNS, empty="no such runs" if program or app or state else "no runs yet")
        print_more(found.get("next", ""))


def _row(run: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the list. The duration of an active run is the time until now."""
    now = SystemClock().now().isoformat()
    return {
        **run,
        "id": short(run["id"]),
        "program": short(run["program"]),
        "duration": duration(run["startedAt"], run["endedAt"] or now),
        "reason": run["reason"] or None,
    }


def show(run: Run, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows a run."""
    found = ask("GET", f"/v1/runs/{full_run(run)}", url=url)
    if output is Format.JSON:
        print_json(found)
    else:
        print_record(found)


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
    typer.echo(answer.text, nl=False)
    if follow:
        state = _follow(path, answer.headers["Streamsched-Log-Offset"], url)
        if state is not RunState.COMPLETED:
            raise typer.Exit(1)


def _follow(path: str, offset: str, url: str) -> RunState:
    """Prints the log from `offset` on until the run has ended; returns the run's last state."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    while True:
        answer = request("GET", path, url=url, params={"offset": offset})
        typer.echo(decoder.decode(answer.content), nl=False)
        state, offset = RunState(answer.headers["Streamsched-Run-State"]), answer.headers["Streamsched-Log-Offset"]
        if answer.content:
            continue
        if state.terminal:
            typer.echo(decoder.decode(b"", final=True), nl=False)
            return state
        time.sleep(_POLL_INTERVAL)


def kill(
    run: Run,
    *,
    reason: ReasonOption = "",
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Kill the process at once, without time to clean up.")
    ] = False,
    url: UrlOption = "",
) -> None:
    """Requests the end of a run; `run show` shows when it has ended."""
    body = {"atOnce": at_once, **({"reason": reason} if reason else {})}
    found = ask("POST", f"/v1/runs/{full_run(run)}/kill", url=url, body=body)
    console().print(f"{short(found['id'])}: kill requested; its state is {found['state']}")
