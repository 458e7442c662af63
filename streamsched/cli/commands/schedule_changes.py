"""`streamsched schedule enable|disable|pause|resume|update|delete`: changes of existing schedules."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from streamsched.cli.confirmation import DryRunOption, YesOption, print_change
from streamsched.cli.naming import full_app, full_name, short_name
from streamsched.cli.output import Format, FormatOption, console, escape_text, moment, print_answer
from streamsched.cli.preview import dropped_lines
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.shell.completion import schedule_names
from streamsched.domain.schedules.pause import PauseMode

Schedule = Annotated[
    str, typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedule, [namespace.]app.name.")
]
Schedules = Annotated[
    list[str] | None,
    typer.Argument(metavar="SCHEDULE", autocompletion=schedule_names, help="Schedules, [namespace.]app.name."),
]
AppOption = Annotated[str, typer.Option("--app", help="All schedules of this app, [namespace.]app.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("enable")(enable)
    app.command("disable")(disable)
    app.command("pause")(pause)
    app.command("resume")(enable)
    app.command("update")(update)
    app.command("delete")(delete)


def enable(
    schedules: Schedules = None,
    *,
    app: AppOption = "",
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Enables disabled schedules or resumes paused ones.

    Events emitted afterwards count. A schedule that kept its events during a pause fires at once if they satisfy it.
    """
    for path in _paths(schedules, app):
        found = ask("POST", f"{path}/enable", url=url, body={"reason": reason})
        print_answer(found, output, lambda found: _report(found, "enable"))


def disable(
    schedules: Schedules = None,
    *,
    app: AppOption = "",
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Disables schedules and drops their accumulated events and waiting jobs.

    Waiting jobs end as OBSOLETE; active runs continue. If something would be lost, the command asks for confirmation at
    a terminal; without a terminal it needs --yes (otherwise exit code 7). `schedule pause` keeps events and jobs.
    """
    for path in _paths(schedules, app):
        _change(f"{path}/disable", {"reason": reason}, "disable", yes=yes, dry_run=dry_run, output=output, url=url)


def pause(
    schedules: Schedules = None,
    *,
    app: AppOption = "",
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--drop",
            help="Keep accumulated events and waiting jobs and count new events (default), or drop all.",
            show_default=False,
        ),
    ] = None,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Waiting jobs may start; accumulated events are kept, new ones do not count."),
    ] = False,
    backlog: Annotated[
        bool,
        typer.Option("--backlog", help="New events make jobs; each waits by itself until the schedule is resumed."),
    ] = False,
    until: Annotated[
        str,
        typer.Option(
            help="Resume at this instant, such as 2026-03-01T06:00:00Z, or after a duration such as 2h. Default: when "
            "resumed by a command."
        ),
    ] = "",
    note: Annotated[
        str, typer.Option(help="Text shown with the schedule while it is paused. Default: the reason.")
    ] = "",
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Pauses schedules until they are resumed. Active runs continue.

    By default nothing starts, accumulated events and waiting jobs are kept, and new events count. With --drop they are
    dropped, and new events do not count. With --drain waiting jobs still start. With --backlog new events make jobs,
    which wait. If something would be lost, the command asks for confirmation at a terminal; without a terminal it needs
    --yes (otherwise exit code 7).
    """
    body = {
        **_mode(keep, drain=drain, backlog=backlog),
        "reason": reason,
        "note": note or reason,
        **({"until": until} if until else {}),
    }
    for path in _paths(schedules, app):
        _change(f"{path}/pause", body, "pause", yes=yes, dry_run=dry_run, output=output, url=url)


def update(
    schedule: Schedule,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Definition of the schedule in JSON or YAML; `-` is standard input.")
    ],
    *,
    keep: Annotated[
        bool | None,
        typer.Option(
            "--keep/--reset",
            help="Keep the accumulated events and waiting jobs that fit, or drop them. Default: `onChange` in FILE, "
            "else keep unless the trigger, consumption, late policy or program changed.",
        ),
    ] = None,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Replaces the definition of a schedule. Its state (enabled, paused, disabled) does not change.

    If something would be lost, the command asks for confirmation at a terminal; without a terminal it needs --yes
    (otherwise exit code 7).
    """
    from streamsched.define.loading import read_data

    body, path = read_data(file), f"/v1/schedules/{full_name(schedule)}"
    print_change(
        "PUT",
        path,
        lambda found: _report(found, "update"),
        params={"keep": keep},
        body=body,
        yes=yes,
        dry_run=dry_run,
        output=output,
        url=url,
    )


def delete(
    schedule: Schedule,
    *,
    reason: ReasonOption = "",
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Deletes a schedule with its accumulated events and waiting jobs.

    Waiting jobs end as OBSOLETE; active runs continue. The command asks for confirmation at a terminal; without a
    terminal it needs --yes (otherwise exit code 7).
    """
    name = full_name(schedule)
    print_change(
        "DELETE",
        f"/v1/schedules/{name}",
        lambda _: f"{short_name(name)} is deleted",
        params={"reason": reason},
        answer={"id": name, "action": "deleted"},
        yes=yes,
        dry_run=dry_run,
        output=output,
        url=url,
    )


def state_in_words(found: Mapping[str, Any]) -> str:
    """The state of a schedule; for a paused one with its end, mode and note."""
    pause = found.get("pause")
    if found["enabled"] or not pause:
        return str(found["state"])
    until = f" until {moment(pause['until'])}" if pause["until"] else ""
    note = f": {pause['note']}" if pause["note"] else ""
    return f"paused{until}, {PauseMode(pause['mode']).text}{note}"


def _mode(keep: bool | None, *, drain: bool, backlog: bool) -> dict[str, Any]:
    """The fields of a pause that say its mode."""
    if (keep is not None) + drain + backlog > 1:
        raise typer.BadParameter("give at most one of --keep, --drop, --drain and --backlog")
    if drain or backlog:
        return {"mode": PauseMode.DRAIN.value if drain else PauseMode.BACKLOG.value}
    return {"keep": keep is not False}


def _paths(schedules: list[str] | None, app: str) -> list[str]:
    """The URL paths of the schedules or the app to change."""
    if bool(schedules) == bool(app):
        raise typer.BadParameter("give either SCHEDULE or --app")
    if app:
        return [f"/v1/apps/{full_app(app).replace('.', '/')}"]
    return [f"/v1/schedules/{full_name(each)}" for each in schedules or ()]


def _change(path: str, body: object, verb: str, *, yes: bool, dry_run: bool, output: Format, url: str) -> None:
    def show(found: Mapping[str, Any]) -> None:
        _report(found, verb)

    print_change("POST", path, show, body=body, yes=yes, dry_run=dry_run, output=output, url=url)


def _report(found: Mapping[str, Any], verb: str) -> None:
    """Prints the changed schedules and their losses."""
    out = console()
    if "app" not in found:
        out.print(
            escape_text(f"{short_name(found['id'])} is {state_in_words(found)} (generation {found['generation']})")
        )
        _print_dropped(found)
        return
    for each in found["schedules"]:
        out.print(f"{short_name(each['id'])} is {each['action']} (generation {each['generation']})")
        _print_dropped(each)
    if not found["schedules"]:
        out.print(f"nothing to {verb} in {short_name(found['app'])}", style="dim")


def _print_dropped(found: Mapping[str, Any]) -> None:
    for line in dropped_lines(found.get("dropped") or {}):
        console().print(f"  dropped: {line}", markup=False)
