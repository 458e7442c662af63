"""`streamsched schedule`: schedules, their progress, ticks and history."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from streamsched.cli.commands import schedule_changes
from streamsched.cli.commands.cron import print_forecast, print_since_last_run
from streamsched.cli.commands.schedule_changes import state_in_words
from streamsched.cli.commands.schedules import versions
from streamsched.cli.commands.schedules.open_keys import joins_runs, keys, print_losses, print_some_keys
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, short_name, without_default
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    escape_text,
    local_times,
    moment,
    print_structured,
    print_table,
    progress_tree,
)
from streamsched.cli.resources.listing import AppFilter, Listing, NamespaceFilter, Query, list_command
from streamsched.cli.resources.request import CommandRequest, request_command
from streamsched.cli.server import UrlOption, ask
from streamsched.cli.shell.completion import schedule_names
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path
from streamsched.domain.time.duration import parse_duration
from streamsched.ports.clock import SystemClock

_COLUMNS: Final = (
    Column("id", "schedule", ColumnKind.ID),
    Column("state"),
    Column("progress", kind=ColumnKind.TEXT),
    Column("waitingJobs", "waiting", optional=1),
    Column("nextTickAt", "next tick", ColumnKind.TIME),
    Column("program", optional=3),
    Column("when", kind=ColumnKind.TEXT, optional=2),
)
_TICKS: Final = (
    Column("at", "fires at", ColumnKind.TIME),
    Column("schedule", kind=ColumnKind.ID),
    Column("state", optional=1),
    Column("program", "starts", optional=3),
    Column("when", kind=ColumnKind.TEXT, optional=2),
)
#: Most ticks of all schedules in one response of the API.
_MOST_TICKS: Final = 200

#: Seconds between requests for the result of a replay.
_POLL_INTERVAL: Final = 0.3

Schedule = Annotated[
    str, typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name.")
]


class State(StrEnum):
    """States by which schedules can be filtered."""

    ENABLED = "enabled"
    PAUSED = "paused"
    DISABLED = "disabled"
    ERROR = "error"


def commands() -> typer.Typer:
    """The commands of `streamsched schedule`."""
    app = new_group("Lists, explains and changes schedules.")
    app.command("list")(list_schedules)
    app.command("show")(show)
    app.command("why-not")(why_not)
    app.command("history")(history)
    app.command("next")(next_ticks)
    app.command("keys")(keys)
    app.command("replay")(replay)
    versions.register(app)
    schedule_changes.register(app)
    return app


def _row(schedule: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the list. An error is shown instead of the state."""
    error = schedule.get("error")
    return {
        **schedule,
        "id": short_name(schedule["id"]),
        "state": f"error, {error['parked']} parked" if error else schedule["state"],
        "progress": _progress_line(schedule),
        "when": without_default(schedule["when"]),
    }


@list_command(Listing("schedules", _COLUMNS, "no schedules yet: `streamsched deploy FILE`", _row))
def list_schedules(
    *,
    namespace: NamespaceFilter = "",
    app: AppFilter = "",
    state: Annotated[
        list[State] | None, typer.Option(help="Only schedules in this state; can be repeated.", case_sensitive=False)
    ] = None,
) -> Query:
    """Lists schedules with their state and progress, ordered by id."""
    states = [each.value for each in state or ()]
    return Query("/v1/schedules", {"namespace": namespace, "app": full_app(app), "state": states})


def next_ticks(
    schedule: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE",
            autocompletion=schedule_names,
            help="Schedule, [namespace.]app.name. Default: all schedules.",
        ),
    ] = "",
    *,
    namespace: NamespaceFilter = "",
    app: AppFilter = "",
    within: Annotated[str, typer.Option(help="Without SCHEDULE: only ticks within this time, such as 12h.")] = "",
    count: Annotated[
        int,
        typer.Option(
            "-n", "--count", min=1, max=1000, help="Number of ticks: of each time trigger, or without SCHEDULE of all."
        ),
    ] = 10,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists the next ticks of a schedule, or of all schedules.

    For one schedule, ticks are shown in the zone of the trigger and in UTC, with notes on days that daylight saving or
    a calendar changes. Without SCHEDULE at most 200 ticks are listed, in local time.
    """
    if not schedule:
        params = {"namespace": namespace, "app": full_app(app), "limit": min(count, _MOST_TICKS)}
        _print_all_ticks(params, within, output, url)
        return
    if namespace or app or within:
        raise typer.BadParameter("--namespace, --app and --within need the ticks of all schedules; omit SCHEDULE")
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}/next", url=url, params={"count": count})
    if print_structured(found, output):
        return
    if not found["leaves"] and not found["sinceLastRun"]:
        console().print("the schedule has no time trigger", style="dim")
    for leaf in found["leaves"]:
        print_forecast(leaf)
    for leaf in found["sinceLastRun"]:
        print_since_last_run(leaf)
    if not found["enabled"]:
        console().print(f"the schedule is {found['state']} and starts nothing until it is enabled", style="yellow")


def _print_all_ticks(params: Mapping[str, Any], within: str, output: Format, url: str) -> None:
    until = SystemClock().now() + parse_duration(within, "--within") if within else None
    ends = {"until": until.isoformat().replace("+00:00", "Z")} if until else {}
    ticks = ask("GET", "/v1/ticks", url=url, params={**params, **ends})["ticks"]
    if print_structured(ticks, output):
        return
    rows = [
        {
            **each,
            "schedule": short_name(each["schedule"]),
            "program": short_name(each["program"]),
            "at": each["firesAt"],
        }
        for each in ticks
    ]
    print_table(
        rows, _TICKS, wide=output.is_wide, empty=f"no schedule ticks within {within}" if within else "no schedule ticks"
    )


def show(schedule: Schedule, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows a schedule: state, trigger, next tick, waiting jobs, verdicts and progress."""
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}", url=url)
    if print_structured(found, output):
        return
    out, name = console(), short_name(found["id"])
    colour = "green" if found["enabled"] else "yellow"
    out.print(
        f"[bold]{name}[/] is [{colour}]{escape_text(state_in_words(found))}[/] (generation {found['generation']})"
    )
    if found.get("description"):
        out.print(escape_text(found["description"]))
    program = short_name(f"{found['namespace']}.{found['application']}.{found['program']}")
    out.print(escape_text(f"starts {program} when {without_default(found['when'])}"))
    if found.get("error"):
        _print_error(found)
    for each in found.get("removed", ()):
        out.print(without_default(each["text"]), style="yellow", markup=False)
    if found.get("nextTickAt"):
        out.print(f"next tick {moment(found['nextTickAt'])}")
    if found.get("waitingJobs"):
        out.print(f"{found['waitingJobs']} waiting: `streamsched job list --schedule {name}`")
    if found.get("verdicts"):
        out.print(f"events so far: {', '.join(map(_total, found['verdicts']))}")
    print_losses(found)
    if found.get("openKeys"):
        out.print(f"{_open_keys_text(found)}, each with its own progress: `streamsched schedule keys {name}`")
        if joins_runs(found["trigger"]):
            print_some_keys(found["id"], url)
    else:
        out.print(progress_tree(found["progress"]) if found.get("progress") else "no events yet")


@request_command
def why_not(
    schedule: Schedule,
    *,
    since: Annotated[
        str,
        typer.Option(
            help="Start: an instant such as 2026-03-01T00:00:00Z, or a duration before now such as 2h. Default: 1 day "
            "before the end."
        ),
    ] = "",
    until: Annotated[str, typer.Option(help="End, in the same format. Default: now.")] = "",
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of changes and jobs, the newest.")
    ] = 100,
) -> CommandRequest:
    """Explains why a schedule did not start its program between two instants."""
    params = {"limit": limit, "since": since, "until": until}
    path = api_path("schedules", full_name(schedule), "why-not")
    return CommandRequest(path=path, params=params, show=lambda found: _print_why_not(found, limit))


def _print_why_not(found: Mapping[str, Any], limit: int) -> None:
    out = console()
    out.print(f"{short_name(found['schedule'])}: {local_times(found['summary'])}", markup=False)
    if len(found["lines"]) == limit:
        out.print(f"  … earlier lines: --until {found['lines'][0]['at']}", markup=False)
    for line in found["lines"]:
        subject = f"{short_name(line['job'])} " if line["job"] else ""
        out.print(f"  {moment(line['at'])}  {subject}{local_times(line['text'])}", markup=False)
    if found["events"]:
        out.print(f"events so far: {'; '.join(found['events'])}", markup=False)
    if found["progress"]:
        out.print(progress_tree(found["progress"]))


def replay(
    schedule: Schedule,
    *,
    wait: Annotated[float, typer.Option(min=0, help="Longest time to wait for the result, in seconds.")] = 30.0,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Folds the parked signals of a schedule in error again, for example after an upgrade.

    Exit code 1: the schedule is still in error, or the replay did not finish in time.
    """
    name, out = full_name(schedule), console()
    shown = short_name(name)
    before = ask("POST", f"/v1/schedules/{name}/replay", url=url)["error"]
    if not output.is_structured:
        out.print(f"{shown}: replaying {before['parked']} signals")
    deadline = time.monotonic() + wait
    found = ask("GET", f"/v1/schedules/{name}", url=url)
    while (error := found["error"]) and error["attempts"] <= before["attempts"] and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        found = ask("GET", f"/v1/schedules/{name}", url=url)
    if print_structured(found, output):
        pass
    elif not error:
        out.print(f"{shown} is no longer in error", style="green")
    elif error["attempts"] > before["attempts"]:
        _print_error(found)
    else:
        out.print(
            f"not finished within {wait:g} s: {error['parked']} signals are parked; see "
            f"`streamsched schedule show {shown}`"
        )
    if error:
        raise typer.Exit(1)


@list_command(
    Listing(
        "history",
        (Column("at", kind=ColumnKind.TIME), "action", "generation", Column("reason", kind=ColumnKind.REASON)),
        "no changes",
        lambda change: {**change, "generation": (change["detail"] or {}).get("generation")},
        name=lambda change: f"{change['at']} {change['action']}",
        paged=False,
    )
)
def history(
    schedule: Schedule,
    *,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of changes.")] = 30,
) -> Query:
    """Lists the changes of a schedule with their reasons, newest first. Also works for a deleted schedule."""
    return Query(api_path("schedules", full_name(schedule), "history"), {"limit": limit})


def _print_error(found: dict[str, Any]) -> None:
    error, out = found["error"], console()
    out.print(f"in error since {error['signal']}, at {moment(error['at'])}: {error['why']}", style="red", markup=False)
    attempts = f", {error['attempts']} replays failed" if error["attempts"] else ""
    out.print(
        f"{error['parked']} signals are parked{attempts}: `streamsched schedule replay {short_name(found['id'])}`",
        markup=False,
    )


def _progress_line(schedule: Mapping[str, Any]) -> str:
    """The progress of a schedule in one line: the removed programs it waits for, the number of open keys, or the counts
    of its simple triggers.
    """
    if schedule.get("removed"):
        return "; ".join(without_default(each["text"]) for each in schedule["removed"])
    if schedule.get("openKeys"):
        return _open_keys_text(schedule)
    return _counts(schedule["progress"]) if schedule.get("progress") else "-"


def _open_keys_text(schedule: Mapping[str, Any]) -> str:
    """`1 key is open`."""
    return "1 key is open" if schedule["openKeys"] == 1 else f"{schedule['openKeys']} keys are open"


def _counts(progress: dict[str, Any]) -> str:
    """The counts of the simple triggers in a trigger: `7 of 7, 3 of 7`."""
    children = progress.get("children") or []
    if not children:
        return f"{progress['have']} of {progress['need']}"
    return ", ".join(_counts(child) for child in children)


def _total(total: dict[str, Any]) -> str:
    """`12 counted`, `3 late (drop)`."""
    late = f" ({total['late']})" if total["late"] and total["verdict"] == "late" else ""
    accepted = " though late" if total["late"] and total["verdict"] != "late" else ""
    return f"{total['total']} {total['verdict']}{late}{accepted}"
