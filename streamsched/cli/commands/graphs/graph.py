"""`streamsched graph`: tasks that depend on each other by job id, and their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from shlex import quote as quoted
from typing import Annotated, Any, Final

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.commands.graphs.drawing import show
from streamsched.cli.commands.graphs.execution import run
from streamsched.cli.commands.graphs.plans import (
    App,
    JobId,
    TaskName,
    app_path,
    ask_graph,
    await_end,
    confirm_size,
    node_path,
    print_made,
    print_plan,
    task_path,
)
from streamsched.cli.commands.graphs.repetition import rerun
from streamsched.cli.confirmation import DryRunOption, YesOption
from streamsched.cli.group import new_group
from streamsched.cli.naming import short_name
from streamsched.cli.output import (
    Format,
    FormatOption,
    colour_state,
    console,
    escape_text,
    print_json,
    print_structured,
)
from streamsched.cli.resources.request import CommandRequest, Table, action_request, request_command
from streamsched.cli.server import ReasonOption, UrlOption
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError

_TASKS: Final = (
    Column("task", kind=ColumnKind.ID),
    Column("job_id", "job id"),
    Column("nodes", kind=ColumnKind.TEXT),
)
#: As `request_command`; what was not found has the command that lists what there is.
graph_command: Final = partial(request_command, ask=ask_graph)


def commands() -> typer.Typer:
    """The commands of `streamsched graph`."""
    app = new_group("Submits, explains and cancels nodes: tasks of a graph at their job ids.")
    for each in (submit, run, status, show, why, rerun, cancel):
        app.command()(each)
    return app


def submit(
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="The task, [namespace.]app.task.")] = "",
    *,
    app_name: Annotated[
        list[str] | None,
        typer.Option("-a", "--app-name", help="As TASK; can be repeated: each with all job ids."),
    ] = None,
    job_id: Annotated[list[str] | None, typer.Option("-j", "--job-id", help="A job id; can be repeated.")] = None,
    value: Annotated[
        list[str] | None, typer.Option("--value", help="COMPONENT=VALUE, or several values joined by commas.")
    ] = None,
    span: Annotated[
        list[str] | None, typer.Option("--range", help="COMPONENT=FIRST..LAST: days or whole numbers, both included.")
    ] = None,
    everything: Annotated[
        list[str] | None, typer.Option("--all", help="A component whose autofill_values are all submitted.")
    ] = None,
    readd: Annotated[
        bool, typer.Option("--readd", help="Run again what has ended; what depends on it waits again.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the job ids of -j; exit code 1 when one has not completed.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Runs job ids of a task, and before them everything they lack. Shows first what would run; more than 1000 nodes
    need --yes.
    """
    if wait and not job_id:
        raise InvalidError("--wait", "waits for the job ids of -j, of which there are none")
    tasks = [each for each in (task, *(app_name or ())) if each]
    if not tasks:
        raise InvalidError("TASK", "is missing: name a task as app.task; `streamsched app list` has the apps")
    values = {each: text.split(",") for each, text in pairs(value or []).items()}
    chosen = {
        **({"jobIds": job_id} if job_id else {}),
        **({"values": values} if values else {}),
        **({"ranges": pairs(span)} if span else {}),
        **({"all": everything} if everything else {}),
        "again": readd,
    }
    bodies = {each: {"task": task_path(each)[1], **chosen} for each in dict.fromkeys(tasks)}
    plans = {
        each: ask_graph("POST", f"/v1/graphs/{task_path(each)[0]}/submit", url=url, params={"dry_run": True}, body=body)
        for each, body in bodies.items()
    }
    for plan in plans.values():
        if output is Format.TABLE:
            print_plan(plan)
        elif dry_run:
            print_json(plan)
    if dry_run:
        return
    confirm_size(plans.values(), yes=yes, output=output)
    for each, body in bodies.items():
        done = ask_graph("POST", f"/v1/graphs/{task_path(each)[0]}/submit", url=url, body=body)
        if not print_structured(done, output):
            print_made(done["jobs"])
    if wait and any(await_end(each, known, url) != "COMPLETED" for each in bodies for known in job_id or ()):
        raise typer.Exit(1)


def _task_row(task: Mapping[str, Any]) -> dict[str, Any]:
    nodes = ", ".join(f"{number} {state}" for state, number in sorted(task["nodes"].items())) or None
    return {**task, "task": task.get("title") or task["name"], "nodes": nodes}


@graph_command
def status(app: App) -> CommandRequest:
    """Shows the tasks of an app, parents before children, with the number of nodes in each state."""
    return CommandRequest(
        path=f"/v1/graphs/{app_path(app)}",
        show=Table(_TASKS, "no tasks", lambda found: map(_task_row, found["tasks"])),
        names=lambda found: [f"{app}.{each.get('title') or each['name']}" for each in found["tasks"]],
    )


@graph_command
def why(task: TaskName, job_id: JobId) -> CommandRequest:
    """Explains the state of a node: what it lacks, by group of parents, and which ancestors, such as failed ones, hold
    it up in the end. A queued node waits or runs as its job does.
    """
    names = [f"{task} {job_id}"]
    return CommandRequest(
        path=node_path(task, job_id), show=lambda found: _print_why(found, task, job_id), names=lambda _: names
    )


def _print_why(found: Mapping[str, Any], task: str, job_id: str) -> None:
    out = console()
    if found["awaits"] is not None:
        out.print(f"[bold]{escape_text(found['awaits'])}[/] has {'not ' if found['state'] is None else ''}arrived")
        if found["job"]:
            out.print(f"  its job: `streamsched job why {short_name(found['job'])}`", markup=False)
        return
    state = "not asked for" if found["state"] is None else colour_state(found["state"])
    out.print(f"[bold]{escape_text(found['task'])} {escape_text(found['jobId'])}[/] is {state}")
    if found["reason"]:
        out.print(f"  {found['reason']}", markup=False)
    if found["job"]:
        out.print(f"  its job: `streamsched job why {short_name(found['job'])}`", markup=False)
    if not found["valid"]:
        out.print("  it has no work to do by valid_if_or", markup=False)
    _print_groups(found)
    _print_roots(found)
    if found["state"] is None:
        out.print(
            f"next: `streamsched graph submit {task} -j {quoted(job_id)}` runs it and all that it lacks", markup=False
        )
    elif found["state"] in {"FAILED", "UPSTREAM_FAILED"}:
        out.print(
            f"next: `streamsched graph rerun {task} {quoted(job_id)}` runs it and what failed above it", markup=False
        )


def _print_groups(found: Mapping[str, Any]) -> None:
    """What a node lacks, by group of parents."""
    out = console()
    if not found["groups"]:
        out.print("  it needs no parents", markup=False)
    for index, group in enumerate(found["groups"]):
        either = "or " if index else ""
        lacks = f"{group['missing']} of {group['parents']} parents are missing" if group["missing"] else "complete"
        out.print(f"  {either}{group['group']}: {lacks}", markup=False)
        for each in group["lacks"]:
            out.print(f"      {_missing_parent_text(each)}", markup=False)
        if group["missing"] > len(group["lacks"]):
            out.print(f"      and {group['missing'] - len(group['lacks'])} more", markup=False)


def _print_roots(found: Mapping[str, Any]) -> None:
    """The ancestors whose own ends hold a node up."""
    out = console()
    if found["roots"]:
        out.print("  held up in the end by:")
        for each in found["roots"]:
            reason = f": {each['reason']}" if each["reason"] else ""
            out.print(f"      {each['task']} {each['jobId']}: {each['state']}{reason}", markup=False)
            if each["job"]:
                out.print(f"        its job: `streamsched job why {short_name(each['job'])}`", markup=False)
        if found["rootsInAll"] > len(found["roots"]) or not found["allRoots"]:
            least = "" if found["allRoots"] else "at least "
            out.print(f"      and {least}{found['rootsInAll'] - len(found['roots'])} more", markup=False)


def _missing_parent_text(parent: Mapping[str, Any]) -> str:
    if parent["awaits"] is not None:
        return f"waits for {parent['awaits']}, not arrived"
    return f"{parent['task']} {parent['jobId']}: {parent['state'] or 'not asked for'}"


@graph_command
def cancel(
    task: TaskName,
    job_id: Annotated[list[str], typer.Option("-j", "--job-id", help="A job id; can be repeated.")],
    *,
    reason: ReasonOption = "",
) -> CommandRequest:
    """Fails nodes that wait, and cancels the jobs of queued ones. Runs go on: end them with `run kill`."""
    app, name = task_path(task)
    return action_request(
        f"/v1/graphs/{app}/cancel",
        _print_cancelled,
        reason=reason,
        names=lambda found: map(short_name, (*found["cancelled"], *found["running"])),
        task=name,
        jobIds=job_id,
    )


def _print_cancelled(found: Mapping[str, Any]) -> None:
    for number, what in (
        (found["failed"], "waited and failed"),
        (len(found["cancelled"]), "queued; the job is to be cancelled"),
        (found["ended"], "had ended before; nothing changed"),
        (found["unknown"], "never asked for; nothing changed"),
    ):
        if number:
            console().print(f"  {number} {what}", markup=False)
    for job in found["running"]:
        console().print(
            f"  runs already: {short_name(job)}; `streamsched run list` has its run, `run kill` ends it", markup=False
        )
