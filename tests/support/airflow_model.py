"""A naive model of how a run of a DAG ends in Airflow, after its documentation and `trigger_rule_dep.py` of 3.1: each
task when all before it have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

End = Literal["success", "failed", "upstream_failed", "skipped"]
RULES = (
    *("all_success", "all_failed", "all_done", "all_skipped", "always", "one_success", "one_failed", "one_done"),
    *("none_failed", "none_skipped", "none_failed_min_one_success"),
)


@dataclass(frozen=True)
class ModelTask:
    """A task: how it ends if it runs; with `follows` the tasks with which a branch goes on; `short`: none or all."""

    name: str
    before: tuple[str, ...]
    rule: str = "all_success"
    end: End = "success"
    follows: tuple[str, ...] | None = None
    short: bool | None = None


def ends(tasks: Sequence[ModelTask]) -> dict[str, End]:
    """The end of each task; the tasks are in topological order."""
    found: dict[str, End] = {}
    skipped: set[str] = set()
    for task in tasks:
        if task.name in skipped:
            found[task.name] = "skipped"
            continue
        state = _by_rule(task.rule, [found[each] for each in task.before])
        found[task.name] = task.end if state is None else state
        if found[task.name] == "success":
            skipped |= _skips(task, tasks)
    return found


def below(name: str, tasks: Sequence[ModelTask]) -> set[str]:
    """All tasks after a task."""
    found: set[str] = set()
    for task in tasks:
        if any(each == name or each in found for each in task.before):
            found.add(task.name)
    return found


def _skips(task: ModelTask, tasks: Sequence[ModelTask]) -> set[str]:
    if task.short is False:
        return below(task.name, tasks)
    if task.follows is None:
        return set()
    going = set(task.follows).union(*(below(each, tasks) for each in task.follows))
    return {each.name for each in tasks if task.name in each.before and each.name not in going}


def _by_rule(rule: str, states: Sequence[End]) -> End | None:
    """The state of a task that does not run; None: it runs."""
    if not states or rule == "always":
        return None
    success, failed = states.count("success"), states.count("failed")
    above, skipped = states.count("upstream_failed"), states.count("skipped")
    match rule:
        case "all_success":
            return "upstream_failed" if failed or above else "skipped" if skipped else None
        case "all_failed":
            return "skipped" if success or skipped else None
        case "all_skipped":
            return "skipped" if success or failed or above else None
        case "one_success":
            return None if success else "skipped" if skipped == len(states) else "upstream_failed"
        case "one_failed":
            return None if failed or above else "skipped"
        case "one_done":  # here a task whose parents failed counts as failed
            return None if failed or success or above else "skipped"
        case "none_failed":
            return "upstream_failed" if failed or above else None
        case "none_skipped":
            return "skipped" if skipped else None
        case "none_failed_min_one_success":
            return "upstream_failed" if failed or above else "skipped" if skipped == len(states) else None
        case _:
            return None
