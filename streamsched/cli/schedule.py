"""`streamsched schedule`: what starts what, when."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from streamsched.cli.cron import print_forecast
from streamsched.cli.output import (
    Format,
    FormatOption,
    console,
    escaped,
    moment,
    print_json,
    print_table,
    progress_tree,
)
from streamsched.cli.preview import print_preview
from streamsched.cli.server import ReasonOption, UrlOption, ask, full_name

_COLUMNS = ("id", "state", "program", "when", "progress", "waitingJobs", "nextTickAt")

#: Seconds between looks at what comes of a replay.
_LOOK_AGAIN: Final = 0.3

Schedule = Annotated[str, typer.Argument(help="[namespace.]app.name")]
Schedules = Annotated[list[str] | None, typer.Argument(metavar="[SCHEDULE]...", help="[namespace.]app.name")]
AppOption = Annotated[str, typer.Option("--app", help="All schedules of this application: [namespace.]app")]


def commands() -> typer.Typer:
    """The commands of this noun."""
    app = typer.Typer(help="What starts what, when.", no_args_is_help=True)
    app.command("list")(list_schedules)
    app.command("show")(show)
    app.command("why-not")(why_not)
    app.command("history")(history)
    app.command("next")(next_ticks)
    app.command("keys")(keys)
    app.command("enable")(enable)
    app.command("disable")(disable)
    app.command("pause")(pause)
    app.command("resume")(enable)
    app.command("replay")(replay)
    app.command("update")(update)
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
        rows = [{**each, "state": _standing(each), "progress": _short(each)} for each in schedules]
        print_table(rows, _COLUMNS, empty="no schedules yet: `streamsched deploy FILE`")


def next_ticks(
    schedule: Schedule,
    *,
    count: Annotated[int, typer.Option("-n", "--count", min=1, max=1000, help="So many of each time trigger.")] = 10,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """When its clocks tick next; odd days are marked."""
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}/next", url=url, params={"count": count})
    if output is Format.JSON:
        print_json(found)
        return
    if not found["leaves"]:
        console().print("no clock starts it: it waits for events alone", style="dim")
    for leaf in found["leaves"]:
        print_forecast(leaf)
    if not found["enabled"]:
        console().print("it is disabled: nothing ticks until it is enabled", style="yellow")


def show(schedule: Schedule, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """One schedule in words, and how far it has come."""
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}", url=url)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    colour = "green" if found["enabled"] else "yellow"
    out.print(f"[bold]{found['id']}[/] is [{colour}]{escaped(_state(found))}[/] (generation {found['generation']})")
    if found.get("description"):
        out.print(found["description"], markup=False)
    out.print(
        f"starts {found['namespace']}.{found['application']}.{found['program']} when {found['when']}", markup=False
    )
    if found.get("error"):
        _print_error(found)
    if found.get("nextTickAt"):
        out.print(f"next tick {moment(found['nextTickAt'])}")
    if found.get("waitingJobs"):
        out.print(f"{found['waitingJobs']} waiting: `streamsched job list --schedule {found['id']}`")
    if found.get("verdicts"):
        out.print(f"events so far: {', '.join(map(_total, found['verdicts']))}")
    if found.get("openKeys"):
        out.print(f"{_open(found)}, each with a count of its own: `streamsched schedule keys {found['id']}`")
    else:
        out.print(progress_tree(found["progress"]) if found.get("progress") else "nothing has come yet")


def keys(
    schedule: Schedule,
    *,
    after: Annotated[str, typer.Option(help="Keys after this one.")] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000)] = 100,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """The open keys of one that correlates: what each has, and what it waits for."""
    params = {"after": after, "limit": limit}
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}/keys", url=url, params=params)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    if not found["keys"]:
        out.print("no key is open", style="dim")
    for each in found["keys"]:
        out.print(f"[bold]{escaped(each['key'])}[/] open since {moment(each['openedAt'])}")
        out.print(progress_tree(each["progress"]))
    if found.get("next"):
        out.print(f"more: --after {found['next']}", markup=False)


def why_not(
    schedule: Schedule,
    *,
    since: Annotated[str, typer.Option(help="An instant such as 2026-03-01T00:00:00Z; a day before the end.")] = "",
    until: Annotated[str, typer.Option(help="The same; now.")] = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Why it started nothing in a span of time."""
    params = {name: value for name, value in (("since", since), ("until", until)) if value}
    found = ask("GET", f"/v1/schedules/{full_name(schedule)}/why-not", url=url, params=params)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    out.print(f"{found['schedule']}: {found['summary']}", markup=False)
    for line in found["lines"]:
        subject = f"{line['job']} " if line["job"] else ""
        out.print(f"  {moment(line['at'])}  {subject}{line['text']}", markup=False)
    if found["events"]:
        out.print(f"events it was told of, ever: {'; '.join(found['events'])}", markup=False)
    if found["progress"]:
        out.print(progress_tree(found["progress"]))


def enable(schedules: Schedules = None, *, app: AppOption = "", reason: ReasonOption = "", url: UrlOption = "") -> None:
    """From when this returns, every event counts; what a pause kept goes on, and fires at once if it is enough."""
    _change("enable", schedules, app, url, {"reason": reason})


def disable(
    schedules: Schedules = None, *, app: AppOption = "", reason: ReasonOption = "", url: UrlOption = ""
) -> None:
    """Stops listening, for good; waiting jobs end as OBSOLETE, running runs go on."""
    _change("disable", schedules, app, url, {"reason": reason})


def pause(
    schedules: Schedules = None,
    *,
    app: AppOption = "",
    keep: Annotated[
        bool, typer.Option("--keep/--drop", help="Keep what has come, count what comes; or drop both.")
    ] = False,
    until: Annotated[str, typer.Option(help="Resume by itself: 2h, or 2026-03-01T06:00:00Z.")] = "",
    note: Annotated[str, typer.Option(help="Shown with the schedule while it is paused; the reason, if none is.")] = "",
    reason: ReasonOption = "",
    url: UrlOption = "",
) -> None:
    """Starts nothing until it is resumed; running runs go on."""
    body = {"keep": keep, "reason": reason, "note": note or reason, **({"until": until} if until else {})}
    _change("pause", schedules, app, url, body)


def update(
    schedule: Schedule,
    file: Annotated[Path, typer.Argument(help="Its definition, JSON or YAML; `-` reads it from standard input.")],
    *,
    keep: Annotated[
        bool | None, typer.Option("--keep/--reset", help="Go on with what fits, or start anew; else as the file says.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would change, and what be lost.")] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Gives a schedule another definition; it stays enabled, paused or disabled."""
    from streamsched.define.loading import read_data

    params = {"keep": keep, "dry_run": dry_run or None}
    body = read_data(file)
    found = ask("PUT", f"/v1/schedules/{full_name(schedule)}", url=url, params=params, body=body)
    if output is Format.JSON:
        print_json(found)
    elif dry_run:
        print_preview(found)
    else:
        console().print(f"{found['id']} is {_state(found)} (generation {found['generation']})")


def replay(
    schedule: Schedule,
    *,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for what comes of it.")] = 30.0,
    url: UrlOption = "",
) -> None:
    """Folds again what waits of a schedule in error, as after an upgrade. Exit code 1: it is still in error."""
    name, out = full_name(schedule), console()
    before = ask("POST", f"/v1/schedules/{name}/replay", url=url)["error"]
    out.print(f"{name}: {before['parked']} signals are replayed")
    deadline = time.monotonic() + wait
    while True:
        found = ask("GET", f"/v1/schedules/{name}", url=url)
        error = found["error"]
        if error is None:
            out.print(f"{name} is well again", style="green")
            return
        if error["attempts"] > before["attempts"]:
            _print_error(found)
            raise typer.Exit(1)
        if time.monotonic() >= deadline:
            out.print(f"not done within {wait:g} s: {error['parked']} still wait; `streamsched schedule show {name}`")
            raise typer.Exit(1)
        time.sleep(_LOOK_AGAIN)


def history(
    schedule: Schedule,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000)] = 30,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """What was done to it, newest first, and why, as far as it was said; also after it was deleted."""
    lines = ask("GET", f"/v1/schedules/{full_name(schedule)}/history", url=url, params={"limit": limit})["history"]
    if output is Format.JSON:
        print_json(lines)
    else:
        rows = [{**each, "generation": (each["detail"] or {}).get("generation")} for each in lines]
        print_table(rows, ("at", "action", "generation", "reason"), empty="nothing was ever done to it")


def delete(schedule: Schedule, *, reason: ReasonOption = "", url: UrlOption = "") -> None:
    """Forgets the schedule; waiting jobs end as OBSOLETE, running runs go on."""
    ask("DELETE", f"/v1/schedules/{full_name(schedule)}", url=url, params={"reason": reason or None})
    console().print(f"{full_name(schedule)} is deleted")


def _change(verb: str, schedules: list[str] | None, app: str, url: str, body: object = None) -> None:
    if bool(schedules) == bool(app):
        raise typer.BadParameter("name schedules, or an application by --app")
    out = console()
    if app:
        changed = ask("POST", f"/v1/apps/{_app_path(app)}/{'pause' if verb == 'disable' else verb}", url=url, body=body)
        for each in changed["schedules"]:
            out.print(f"{each['id']} is {each['action']} (generation {each['generation']})")
        if not changed["schedules"]:
            out.print(f"nothing to {verb} in {changed['app']}", style="dim")
    for schedule in schedules or ():
        found = ask("POST", f"/v1/schedules/{full_name(schedule)}/{verb}", url=url, body=body)
        out.print(f"{found['id']} is {_state(found)} (generation {found['generation']})")


def _print_error(found: dict[str, Any]) -> None:
    error, out = found["error"], console()
    out.print(f"in error since {error['signal']}, at {moment(error['at'])}: {error['why']}", style="red", markup=False)
    tried = f", replayed in vain {error['attempts']} times" if error["attempts"] else ""
    out.print(f"{error['parked']} signals wait{tried}: `streamsched schedule replay {found['id']}`", markup=False)


def _app_path(app: str) -> str:
    namespace, dot, name = app.partition(".")
    return f"{namespace}/{name}" if dot else f"default/{namespace}"


def _state(found: dict[str, Any]) -> str:
    """Enabled, disabled, or paused: how and until when."""
    pause = found.get("pause")
    if found["enabled"] or not pause:
        return "enabled" if found["enabled"] else "disabled"
    until = f" until {moment(pause['until'])}" if pause["until"] else ""
    note = f": {pause['note']}" if pause["note"] else ""
    return f"paused{until}, {'keeping what comes' if pause['keep'] else 'dropping what comes'}{note}"


def _standing(found: dict[str, Any]) -> str:
    """In one word, for the list; an error before anything else."""
    if found.get("error"):
        return f"error, {found['error']['parked']} wait"
    return "enabled" if found["enabled"] else "paused" if found.get("pause") else "disabled"


def _short(schedule: dict[str, Any]) -> str:
    """How far a schedule has come: the counts of its leaves, or how many keys are open where it correlates."""
    if schedule.get("openKeys"):
        return _open(schedule)
    return _counts(schedule["progress"]) if schedule.get("progress") else "-"


def _open(schedule: dict[str, Any]) -> str:
    """`1 key is open`."""
    return "1 key is open" if schedule["openKeys"] == 1 else f"{schedule['openKeys']} keys are open"


def _counts(progress: dict[str, Any]) -> str:
    """A leaf's own count, or the counts of the leaves below: `7 of 7, 3 of 7`."""
    children = progress.get("children") or []
    if not children:
        return f"{progress['have']} of {progress['need']}"
    return ", ".join(_counts(child) for child in children)


def _total(total: dict[str, Any]) -> str:
    """`12 counted`, `3 late (drop)`."""
    late = f" ({total['late']})" if total["late"] and total["verdict"] == "late" else ""
    accepted = " though late" if total["late"] and total["verdict"] != "late" else ""
    return f"{total['total']} {total['verdict']}{late}{accepted}"
