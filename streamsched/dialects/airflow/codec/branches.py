"""Branches: which of the tasks after a task go on, as exit codes of its run."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from streamsched.codec.moving.draft import placeholder
from streamsched.dialects.airflow.codec.source.dag_task import Branch, DagTask, TaskProgram
from streamsched.dialects.airflow.codec.source.functions import Function, named_choices, returned_value
from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError, is_list
from streamsched.dialects.airflow.codec.source.order import TaskOrder

_SHORT: Final = frozenset({"ShortCircuitOperator", "@task.short_circuit"})
#: Operators that choose among the tasks after them.
BRANCHES: Final = _SHORT | {"BranchPythonOperator", "@task.branch", "BranchDayOfWeekOperator"}
#: The exit code of a run after which no task goes on, and the first of those after which one does.
_NONE: Final = 10
_FIRST: Final = 11
#: Most tasks among which a branch chooses.
_MOST: Final = 100


def branch_of(
    task: DagTask, program: dict[str, Any], functions: Mapping[str, Function], reader: LiteralReader, *, doubt: str
) -> TaskProgram:
    """The branch of a task, whose program is made when the tasks after it are known."""
    short = task.kind in _SHORT
    function = task.function
    if function is None and "python_callable" in task.keywords:
        node = task.keywords.node("python_callable")
        function = functions.get(node.id) if isinstance(node, ast.Name) else None
    fixed: Any = None
    choices: tuple[tuple[str, ...], ...] = ()
    if function is not None and not doubt:
        try:
            fixed = returned_value(function, reader, task.bound)
            fixed = bool(fixed) if short else _ids(fixed)
        except UnreadableError:
            choices = () if short else named_choices(function, reader)
    overrules = task.keywords.values().get("ignore_downstream_trigger_rules") is not False
    task.keywords.carry("ignore_downstream_trigger_rules", "by which tasks depend on this one")
    return TaskProgram(program, branch=Branch(short, choices, fixed, overrules), waits_for_person=doubt)


def _ids(value: Any) -> tuple[str, ...] | None:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if is_list(value) and all(isinstance(each, str) for each in value) else None


@dataclass(frozen=True, slots=True)
class ChosenBranch:
    """A branch whose following tasks are known.

    Attributes:
        exit_codes: the tasks that go on, by exit code.
        program: exits so, or says how to.
        waits_for_person: why it is a placeholder; empty: it is none.
    """

    exit_codes: dict[int, tuple[str, ...]]
    program: dict[str, Any]
    waits_for_person: str = ""


def choose_branch(
    branch: Branch, task: DagTask, children: Sequence[str], order: TaskOrder, ids: Mapping[str, str]
) -> ChosenBranch:
    """The exit codes of a branch.

    Args:
        children: the tasks directly after it.
        ids: Airflow's ids of tasks, without the number of an element, by name.
    """
    if len(children) > _MOST:
        why = f"{task.id} chooses among {len(children)} tasks, more than {_MOST}"
        return ChosenBranch({}, placeholder(why), why)
    if branch.short:
        return _branch_of_condition(branch, task, children)
    choices = [branch.fixed] if isinstance(branch.fixed, tuple) else [*branch.choices]
    single = [(each,) for each in dict.fromkeys(ids[child] for child in children)]
    if not isinstance(branch.fixed, tuple):
        choices = list(dict.fromkeys([*choices, *single]))
    codes = {_FIRST + number: _going_on(choice, children, order, ids) for number, choice in enumerate(choices[:_MOST])}
    if isinstance(branch.fixed, tuple):
        if branch.fixed and not codes[_FIRST]:
            why = f"{task.id} goes on with {', '.join(branch.fixed)}, which is not after it"
            return ChosenBranch({}, placeholder(why), why)
        return ChosenBranch(codes, _exits(f"exit {_FIRST}", codes))
    codes[_NONE] = ()
    said = ", ".join(f"exit {_FIRST + number} goes on with {' and '.join(each)}" for number, each in enumerate(choices))
    why = f"{task.id} is a branch of Python: {said}, exit {_NONE} with none"
    return ChosenBranch(codes, _exits(placeholder(why)["command"], codes), why)


def _branch_of_condition(branch: Branch, task: DagTask, children: Sequence[str]) -> ChosenBranch:
    codes: dict[int, tuple[str, ...]] = {0: tuple(children), _NONE: ()}
    if isinstance(branch.fixed, bool):
        return ChosenBranch(codes, _exits("exit 0" if branch.fixed else f"exit {_NONE}", codes))
    why = f"{task.id} is a condition of Python: exit 0 goes on, exit {_NONE} skips what is after it"
    return ChosenBranch(codes, _exits(placeholder(why)["command"], codes), why)


def _exits(command: str, codes: Mapping[int, tuple[str, ...]]) -> dict[str, Any]:
    success = [code for code in codes if code]
    return {"type": "bash", "command": command, **({"success_codes": success} if success else {})}


def _going_on(
    choice: Sequence[str], children: Sequence[str], order: TaskOrder, ids: Mapping[str, str]
) -> tuple[str, ...]:
    """The children that are chosen, and those below a chosen one, as Airflow leaves them."""
    wanted = {name for name, task_id in ids.items() if task_id in choice}
    return tuple(child for child in children if child in wanted or any(order.follows(child, name) for name in wanted))
