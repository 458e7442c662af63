"""`streamsched task`: tasks of queues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import typer

from streamsched.cli.commands.tasks.queue import QueueName
from streamsched.cli.group import new_group
from streamsched.cli.output import (
    Format,
    FormatOption,
    colour_state,
    console,
    local_times,
    moment,
    print_record,
    print_structured,
)
from streamsched.cli.resources.listing import Listing, Query, list_command
from streamsched.cli.resources.request import CommandRequest, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.client.api_call import api_path

Task = Annotated[str, typer.Argument(metavar="TASK", help="Id of the task, printed by `task add` and `task list`.")]


def commands() -> typer.Typer:
    """The commands of `streamsched task`."""
    app = new_group("Adds tasks to queues, and shows, ends and moves them.")
    for name, command in (
        ("add", add),
        ("list", list_tasks),
        ("show", show),
        ("why", why),
        ("cancel", cancel),
        ("drop", drop),
        ("run", run),
        ("move", move),
    ):
        app.command(name)(command)
    return app


def add(
    queue: QueueName,
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="Names the task in its lane; a repeat with the same key is one task.")
    ],
    *,
    lane: Annotated[str, typer.Option(help="Tasks of one lane go one after another. Default: a lane of its own.")] = "",
    due: Annotated[str, typer.Option(help="Earliest start, such as 2026-03-01T06:00:00Z. Default: now.")] = "",
    after: Annotated[str, typer.Option("--after", help="Earliest start, this long from now, such as 10m.")] = "",
    data: Annotated[str, typer.Option(metavar="JSON", help="What is delivered, as JSON.")] = "",
    text: Annotated[str, typer.Option(help="What is delivered, as text.")] = "",
    every: Annotated[str, typer.Option(help="Deliver again at this interval, such as 1h.")] = "",
    cron: Annotated[str, typer.Option(help="Deliver again by a cron expression of five fields.")] = "",
    zone: Annotated[str, typer.Option(help="IANA zone of the cron expression. Default: UTC.")] = "",
    repeats: Annotated[int | None, typer.Option(min=1, help="Number of deliveries. Default: no limit.")] = None,
    misfire: Annotated[str, typer.Option(help="Deliveries over a minute late: all, one (the newest) or skip.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a task that was started, too.")] = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Adds a task to a queue. Until it is started, another one with the same lane and key replaces it."""
    if every and cron:
        raise typer.BadParameter("give one of --every and --cron")
    body: dict[str, Any] = {"key": key, "lane": lane, "due": due, "after": after, "text": text}
    body = {name: value for name, value in body.items() if value}
    if data:
        try:
            body["data"] = json.loads(data)
        except ValueError as exc:
            raise typer.BadParameter(f"--data is not JSON: {exc}; use --text for a text") from exc
    if every or cron:
        rhythm = {"type": "EVERY", "interval": every} if every else {"type": "TIME", "cronExpression": cron}
        if zone:
            rhythm["timeZone"] = zone
        recurrence = {"rhythm": rhythm, "repeats": repeats, "misfire": misfire or None}
        body["recurrence"] = {name: value for name, value in recurrence.items() if value is not None}
    elif repeats or misfire or zone:
        raise typer.BadParameter("--repeats, --misfire and --zone need --every or --cron")
    if overwrite:
        body["onExisting"] = "overwrite"
    (found,) = ask("POST", f"/v1/queues/{quote(queue, safe='')}/tasks", url=url, body=body)["tasks"]
    if print_structured(found, output):
        return
    note = {
        "made": "",
        "replaced": ": replaced the one that was not started",
        "started": ": nothing was stored, it was started already",
        "ended": ": nothing was stored, it has ended already",
    }[found["verdict"]]
    console().print(f"{found['id']}{note}", markup=False)


def _row(task: Mapping[str, Any]) -> dict[str, Any]:
    times = {"at": task["endedAt"] or task["nextAt"], "failures": task["failures"] or None}
    return {**task, **times, "reason": task["reason"] or None}


@list_command(
    Listing(
        "tasks",
        (
            Column("id", kind=ColumnKind.ID),
            Column("lane", kind=ColumnKind.TEXT, breakable=True),
            Column("key", kind=ColumnKind.TEXT, breakable=True),
            "state",
            Column("at", "next or ended", ColumnKind.TIME),
            Column("failures", optional=1),
            Column("reason", kind=ColumnKind.REASON),
        ),
        "no such tasks",
        _row,
    )
)
def list_tasks(
    queue: QueueName,
    *,
    lane: Annotated[str, typer.Option(help="Only tasks of this lane.")] = "",
    ended: Annotated[bool, typer.Option("--ended", help="Ended tasks, newest first.")] = False,
) -> Query:
    """Lists the tasks of a queue that have not ended, by due time, or those that have."""
    return Query(f"/v1/queues/{quote(queue, safe='')}/tasks", {"lane": lane, "ended": "true" if ended else ""})


@request_command
def show(task: Task) -> CommandRequest:
    """Shows a task with its latest attempts."""
    return CommandRequest(path=api_path("tasks", task), show=_print)


@request_command
def why(task: Task) -> CommandRequest:
    """Explains why a task waits, and until when."""
    return CommandRequest(path=api_path("tasks", task, "why"), show=_print_why)


def _print_why(found: Mapping[str, Any]) -> None:
    console().print(f"[bold]{found['id']}[/] is {colour_state(found['state'])}")
    print_reasons(found["reasons"])
    if found["endedAt"]:
        reason = f": {found['reason']}" if found["reason"] else ""
        console().print(f"  ended {moment(found['endedAt'])}{reason}", markup=False)


@request_command
def cancel(task: Task, *, reason: ReasonOption = "") -> CommandRequest:
    """Ends a task that was not started."""
    return _request(task, "cancel", reason)


@request_command
def drop(task: Task, *, reason: ReasonOption = "") -> CommandRequest:
    """Ends a task in any state, such as one that holds up its lane."""
    return _request(task, "drop", reason)


@request_command
def run(task: Task, *, reason: ReasonOption = "") -> CommandRequest:
    """Makes a task due now; it still waits for those before it in its lane."""
    return _request(task, "run", reason)


@request_command
def move(
    task: Task,
    *,
    due: Annotated[str, typer.Option(help="New due time, such as 2026-03-01T06:00:00Z.")] = "",
    after: Annotated[str, typer.Option("--after", help="New due time, this long from now, such as 10m.")] = "",
    reason: ReasonOption = "",
) -> CommandRequest:
    """Gives a task another due time."""
    if bool(due) == bool(after):
        raise typer.BadParameter("give either --due or --after")
    return _request(task, "move", reason, **({"due": due} if due else {"after": after}))


def print_reasons(reasons: list[dict[str, Any]]) -> None:
    """Prints reasons for waiting."""
    for each in reasons:
        console().print(f"  {local_times(each['text'])}", markup=False)


def _request(task: str, action: str, reason: str, **body: Any) -> CommandRequest:
    def show(found: Mapping[str, Any]) -> None:
        until = f", next {moment(found['nextAt'])}" if found["nextAt"] else ""
        console().print(f"{found['id']} is {colour_state(found['state'])}{until}")

    return action_request(api_path("tasks", task, action), show, reason=reason, **body)


def _print(found: Mapping[str, Any]) -> None:
    shown = {name: value for name, value in found.items() if name not in ("attempts", "ends", "recurrence", "retry")}
    for name in ("recurrence", "retry"):
        if found[name] is not None:
            shown[name] = json.dumps(found[name])
    print_record(shown)
    for each in found["attempts"]:
        line = f"  attempt {each['attempt']} {each['result']} {moment(each['endedAt'])}: {each['reason']}"
        console().print(line.removesuffix(": "), markup=False)
