"""`streamsched graph rerun`: nodes that have ended run again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from streamsched.cli.commands.graphs.plans import (
    TaskName,
    ask_graph,
    await_end,
    confirm_size,
    print_made,
    print_plan,
    task_path,
)
from streamsched.cli.confirmation import NOT_CONFIRMED, DryRunOption, YesOption
from streamsched.cli.output import Format, FormatOption, console, print_json, print_structured
from streamsched.cli.server import UrlOption


def rerun(
    task: TaskName,
    job_id: Annotated[list[str], typer.Argument(metavar="JOB_ID…", help="Job ids of the task.")],
    *,
    downstream: Annotated[
        bool, typer.Option("--downstream", help="What depends on the nodes runs again after them.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the job ids; exit code 1 when one has not completed.")
    ] = False,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: FormatOption = Format.TABLE,
    url: UrlOption = "",
) -> None:
    """Runs nodes again that have ended, and before them what failed above them.

    What depends on a node has its old results once the node runs again: nodes with descendants that have run need
    --downstream. `streamsched run rerun JOB` repeats the job of a node alone.
    """
    app, name = task_path(task)
    path, body = f"/v1/graphs/{app}/rerun", {"task": name, "jobIds": job_id}
    plan = ask_graph("POST", path, url=url, params={"dry_run": True}, body=body)
    if output is Format.TABLE:
        print_plan(plan)
        _print_downstream(plan)
    elif dry_run:
        print_json(plan)
    if dry_run:
        return
    stale = sum(number for states in plan["downstream"].values() for state, number in states.items() if state in _RAN)
    if stale and not downstream:
        console(stderr=True).print(
            f"error: not run: {stale} nodes that depend on it have run; `--downstream` runs them again too, "
            "`streamsched run rerun JOB` repeats one job alone",
            markup=False,
        )
        raise typer.Exit(NOT_CONFIRMED)
    confirm_size([{**plan, "downstream": {}}], yes=yes, output=output)
    done = ask_graph("POST", path, url=url, body=body)
    if not print_structured(done, output):
        print_made(done["jobs"])
    if wait and any(await_end(task, each, url) != "COMPLETED" for each in job_id):
        raise typer.Exit(1)


_RAN = frozenset({"COMPLETED", "FAILED", "QUEUED"})


def _print_downstream(plan: Mapping[str, Any]) -> None:
    for name, states in plan["downstream"].items():
        counts = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
        console().print(f"  then: {name} ({counts})", markup=False)
