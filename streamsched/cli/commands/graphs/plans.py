"""What the commands of graphs have in common: names, plans of submissions, confirmation, and waiting for an end."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from streamsched.cli.confirmation import confirm
from streamsched.cli.naming import full_app, full_name, short_name
from streamsched.cli.output import Format, console, print_json
from streamsched.cli.server import ask
from streamsched.cli.shell.completion import app_names
from streamsched.domain.errors import NotFoundError

#: Nodes that a command runs without confirmation.
UNCONFIRMED: Final = 1000
#: Seconds between two looks at a node.
_POLL_S: Final = 0.5

App = Annotated[str, typer.Argument(metavar="APP", autocompletion=app_names, help="The app, [namespace.]app.")]
TaskName = Annotated[str, typer.Argument(metavar="TASK", help="The task, [namespace.]app.task.")]
JobId = Annotated[str, typer.Argument(metavar="JOB_ID", help="The job id, such as 20140101_client1.")]


def app_path(app: str) -> str:
    """The app in a path of the API."""
    return full_app(app).replace(".", "/")


def task_path(task: str) -> tuple[str, str]:
    """The app in a path of the API, and the task's name. A `/` in it is `-`, as `import stolos` writes it."""
    app, _, name = full_name(task).rpartition(".")
    return app.replace(".", "/"), name.replace("/", "-")


def node_path(task: str, job_id: str) -> str:
    """The path of a node in the API."""
    app, name = task_path(task)
    return f"/v1/graphs/{app}/nodes/{quote(name)}/{quote(job_id)}"


def ask_graph(
    method: str, path: str, *, url: str = "", params: Mapping[str, Any] | None = None, body: object = None
) -> Any:
    """As `ask`; what was not found has the command that lists what there is."""
    try:
        return ask(method, path, url=url, params=params, body=body)
    except NotFoundError as exc:
        app = ".".join(path.split("/")[3:5])
        match exc.kind:
            case "task":
                hint = f"`streamsched graph status {short_name(app)}` lists the tasks"
            case "graph of app":
                hint = "`streamsched app list` lists the apps; one with tasks has a graph"
            case _:
                raise
        raise NotFoundError(exc.kind, exc.name, hint) from exc


def await_end(task: str, job_id: str, url: str) -> str:
    """Waits until the node has ended; prints and returns its state."""
    while True:
        found = ask_graph("GET", node_path(task, job_id), url=url)
        if found["state"] not in {None, "WAITING", "QUEUED"} and not _is_stale(task, job_id, found["state"], url):
            because = f": {found['reason']}" if found["reason"] else ""
            console(stderr=True).print(f"{found['task']} {job_id} is {found['state']}{because}", markup=False)
            return str(found["state"])
        time.sleep(_POLL_S)


def _is_stale(task: str, job_id: str, state: str, url: str) -> bool:
    """Whether a blocked node has not counted yet that an ancestor runs again."""
    if not state.startswith("UPSTREAM_"):
        return False
    app, name = task_path(task)
    params = {"format": "json", "task": name, "job_id": job_id, "limit": 500}
    found = ask_graph("GET", f"/v1/graphs/{app}/picture", url=url, params=params)
    states = {each["state"] for each in found["nodes"]}
    return not found["hidden"] and ("QUEUED" in states or not states & {"FAILED", "SKIPPED"})


def print_plan(plan: Mapping[str, Any]) -> None:
    """Prints what a submission would run."""
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
    for each in plan["awaited"]:
        out.print(f"  waits for {each}, not arrived", markup=False)
    if plan["awaitedInAll"] > len(plan["awaited"]):
        out.print(f"  and for {plan['awaitedInAll'] - len(plan['awaited'])} more", markup=False)
    if plan["endedInAll"] > len(plan["ended"]):
        out.print(f"  and {plan['endedInAll'] - len(plan['ended'])} more", markup=False)


def confirm_size(plans: Iterable[Mapping[str, Any]], *, yes: bool, output: Format) -> None:
    """Asks for confirmation of plans of many nodes without `yes`.

    Raises:
        typer.Exit: it was not given (`NOT_CONFIRMED`); nothing was submitted.
    """
    found = list(plans)
    size = sum(sum(plan["created"].values()) + sum(plan["reset"].values()) for plan in found)
    if size <= UNCONFIRMED or yes:
        return
    if output.is_structured:
        for plan in found:
            print_json(plan)
    confirm(
        f"Submit {size} nodes?",
        declined="nothing was submitted",
        refused=f"not submitted: {size} nodes are more than {UNCONFIRMED}; `--yes` runs them, a shorter --range fewer",
        quiet=output.is_structured,
    )


def print_made(jobs: int) -> None:
    """Prints that a submission is stored."""
    noun = "job was" if jobs == 1 else "jobs were"
    console().print(f"submitted; {jobs} {noun} made", markup=False)
