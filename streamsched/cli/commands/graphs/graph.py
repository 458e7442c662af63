"""`streamsched graph`: tasks that depend on each other by job id, and their nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.arguments import pairs
from streamsched.cli.confirmation import DryRunOption, YesOption, confirm
from streamsched.cli.group import new_group
from streamsched.cli.naming import full_app, full_name, short
from streamsched.cli.output import Format, FormatOption, coloured, console, escaped, print_json, print_table
from streamsched.cli.server import ReasonOption, UrlOption, ask
from streamsched.cli.table import Column, ColumnKind
from streamsched.domain.errors import InvalidError

#: Nodes that `graph submit` runs without confirmation.
_UNCONFIRMED: Final = 1000
#: Seconds between two looks of `--wait`.
_POLL_S: Final = 0.5

App = Annotated[str, typer.Argument(metavar="APP", help="The app, [namespace.]app.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="The task, [namespace.]app.task.")]
JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The job id, such as 20140101_client1.")]


def commands() -> typer.Typer:
    """The commands of `streamsched graph`."""
    app = new_group("Submits, explains and cancels nodes: tasks of a graph at their job ids.")
    for each in (submit, status, show, why, cancel):
        app.command()(each)
    return app


def submit(
    task: TaskName,
    *,
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
    app, name = _parts(task)
    values = {each: text.split(",") for each, text in pairs(value or []).items()}
    body = {
        "task": name,
        **({"jobIds": job_id} if job_id else {}),
        **({"values": values} if values else {}),
        **({"ranges": pairs(span)} if span else {}),
        **({"all": everything} if everything else {}),
        "again": readd,
    }
    path = f"/v1/graphs/{app}/submit"
    plan = ask("POST", path, url=url, params={"dry_run": True}, body=body)
    size = sum(plan["created"].values()) + sum(plan["reset"].values())
    if output is Format.TABLE:
        _print_plan(plan)
    if dry_run:
        if output is Format.JSON:
            print_json(plan)
        return
    if size > _UNCONFIRMED and not yes:
        if output is Format.JSON:
            print_json(plan)
        confirm(
            f"Run these {size} nodes?",
            declined="nothing was submitted",
            refused=f"nothing was submitted, because {size} nodes are more than {_UNCONFIRMED}; `--yes` submits them",
            quiet=output is Format.JSON,
        )
    done = ask("POST", path, url=url, body=body)
    if output is Format.JSON:
        print_json(done)
    else:
        noun = "job was" if done["jobs"] == 1 else "jobs were"
        console().print(f"submitted; {done['jobs']} {noun} made", markup=False)
    if wait:
        ends = [_await_end(app, name, each, url) for each in job_id or ()]
        if any(state != "COMPLETED" for state in ends):
            raise typer.Exit(1)


def _await_end(app: str, name: str, job_id: str, url: str) -> str:
    """Waits until the node has ended, and prints and returns its state."""
    while True:
        found = ask("GET", f"/v1/graphs/{app}/nodes/{quote(name)}/{quote(job_id)}", url=url)
        if found["state"] not in {None, "WAITING", "QUEUED"}:
            because = f": {found['reason']}" if found["reason"] else ""
            console(stderr=True).print(f"{name} {job_id} is {found['state']}{because}", markup=False)
            return str(found["state"])
        time.sleep(_POLL_S)


def status(app: App, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Shows the tasks of an app, parents before children, with the number of nodes in each state."""
    found = ask("GET", f"/v1/graphs/{_app(app)}", url=url)
    if output is Format.JSON:
        print_json(found)
        return
    rows = [
        {
            "task": each["name"],
            "job_id": each["job_id"],
            "nodes": ", ".join(f"{number} {state}" for state, number in sorted(each["nodes"].items())) or None,
        }
        for each in found["tasks"]
    ]
    columns = (Column("task", kind=ColumnKind.ID), Column("job_id", "job id"), Column("nodes", kind=ColumnKind.TEXT))
    print_table(rows, columns, empty="no tasks")


def show(
    app: App,
    *,
    task: Annotated[str, typer.Option(help="Only nodes of this task.")] = "",
    state: Annotated[str, typer.Option(help="Only nodes in this state, such as WAITING or FAILED.")] = "",
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="Number of nodes.")] = 100,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Lists nodes by task and job id."""
    params = {"limit": limit, **({"task": task} if task else {}), **({"state": state.upper()} if state else {})}
    nodes = ask("GET", f"/v1/graphs/{_app(app)}/nodes", url=url, params=params)["nodes"]
    if output is Format.JSON:
        print_json(nodes)
        return
    rows = [
        {**each, "state": each["runState"] or each["state"], "job": each["job"] and short(each["job"])}
        for each in nodes
    ]
    columns = (
        Column("task", kind=ColumnKind.ID),
        Column("jobId", "job id", ColumnKind.ID),
        "state",
        Column("job", kind=ColumnKind.ID, optional=1),
        Column("reason", kind=ColumnKind.TEXT, optional=2, breakable=True),
    )
    print_table(rows, columns, empty="no such nodes")


def why(task: TaskName, job_id: JobId, *, output: FormatOption = Format.TABLE, url: UrlOption = "") -> None:
    """Explains the state of a node: what it lacks, by group of parents. A queued node waits or runs as its job does."""
    app, name = _parts(task)
    found = ask("GET", f"/v1/graphs/{app}/nodes/{quote(name)}/{quote(job_id)}", url=url)
    if output is Format.JSON:
        print_json(found)
        return
    out = console()
    state = "not asked for" if found["state"] is None else coloured(found["state"])
    out.print(f"[bold]{escaped(name)} {escaped(found['jobId'])}[/] is {state}")
    if found["reason"]:
        out.print(f"  {found['reason']}", markup=False)
    if found["job"]:
        out.print(f"  its job: `streamsched job why {short(found['job'])}`", markup=False)
    if not found["valid"]:
        out.print("  it has no work to do by valid_if_or", markup=False)
    if not found["groups"]:
        out.print("  it needs no parents", markup=False)
    for index, group in enumerate(found["groups"]):
        either = "or " if index else ""
        lacks = f"{group['missing']} of {group['parents']} parents are missing" if group["missing"] else "complete"
        out.print(f"  {either}{group['group']}: {lacks}", markup=False)
        for each in group["lacks"]:
            out.print(f"      {each['task']} {each['jobId']}: {each['state'] or 'not asked for'}", markup=False)


def cancel(
    task: TaskName,
    job_id: Annotated[list[str], typer.Option("-j", "--job-id", help="A job id; can be repeated.")],
    *,
    reason: ReasonOption = "",
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Fails nodes that wait, and cancels the jobs of queued ones. Runs go on: stop them with `run stop`."""
    app, name = _parts(task)
    body = {"task": name, "jobIds": job_id, **({"reason": reason} if reason else {})}
    found = ask("POST", f"/v1/graphs/{app}/cancel", url=url, body=body)
    if output is Format.JSON:
        print_json(found)
        return
    console().print(
        f"waiting nodes have failed; cancellations of jobs requested: {len(found['cancelled'])}", markup=False
    )
    for job in found["running"]:
        console().print(f"  has a run already: {short(job)}", markup=False)


def _print_plan(plan: Mapping[str, Any]) -> None:
    out = console()
    for verb, counts in (("runs", plan["created"]), ("runs again", plan["reset"])):
        for task, number in counts.items():
            out.print(f"  {verb}: {number} of {task}", markup=False)
    if plan["skipped"]:
        out.print(f"  of these {plan['skipped']} have no work to do", markup=False)
    if plan["joined"]:
        out.print(f"  already under way: {plan['joined']}", markup=False)
    for each in plan["ended"]:
        out.print(f"  {each['state']} already: {each['task']} {each['jobId']}", markup=False)
    if plan["endedInAll"] > len(plan["ended"]):
        out.print(f"  and {plan['endedInAll'] - len(plan['ended'])} more", markup=False)


def _app(app: str) -> str:
    return full_app(app).replace(".", "/")


def _parts(task: str) -> tuple[str, str]:
    """The app as a path, and the task's name."""
    app, _, name = full_name(task).rpartition(".")
    return app.replace(".", "/"), name
