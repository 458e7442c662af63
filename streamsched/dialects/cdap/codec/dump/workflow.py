"""A workflow of CDAP as tasks of a graph: forks are branches that are joined, conditions are placeholders that choose.

The schedule of the workflow starts its program, which completes the node of the time at which it is due; each action is
a task after that. A task that no process runs joins branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from streamsched.codec.moving.draft import free_name, placeholder
from streamsched.dialects.cdap.codec.dump.answers import text_of
from streamsched.domain.graph.job_template import INSTANT
from streamsched.domain.graph.task import MOST_TASKS
from streamsched.domain.json_value import Json, member_path

#: The component of job ids: when the workflow was due.
_DUE: Final = "workflow_due"
_JOB: Final = {"job_id": f"{{{_DUE}}}", "components": {_DUE: "time"}}
#: Forks and conditions within each other.
_DEEPEST: Final = 100
#: Exit codes of a condition.
_IF: Final = 11
_ELSE: Final = 12
_COMPLETE: Final = "complete"
_EITHER: Final = ("complete", "skipped")


class WorkflowError(Exception):
    """A workflow that is no graph; the text says why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class WorkflowAction:
    """A node that runs a program. `type`: SPARK, MAPREDUCE, CUSTOM_ACTION or another one, in upper case."""

    id: str
    type: str
    program: str
    path: str


@dataclass(frozen=True, slots=True)
class WorkflowFork:
    """Branches that run at a time, each a list of nodes; what follows waits for all."""

    branches: tuple[tuple[WorkflowNode, ...], ...]


@dataclass(frozen=True, slots=True)
class WorkflowCondition:
    """Java code that chooses one of two lists of nodes."""

    id: str
    if_branch: tuple[WorkflowNode, ...]
    else_branch: tuple[WorkflowNode, ...]
    path: str


WorkflowNode = WorkflowAction | WorkflowFork | WorkflowCondition


def nodes_of(answer: Json, path: str) -> tuple[WorkflowNode, ...]:
    """The nodes of a specification.

    Raises:
        WorkflowError: they are not understood, too many, or too deep.
    """
    found = _nodes(answer, path, 0)
    if sum(1 for _ in _flatten(found)) > MOST_TASKS // 4:
        raise WorkflowError(path, f"has more than {MOST_TASKS // 4} nodes")
    return found


def actions_of(nodes: Sequence[WorkflowNode]) -> list[WorkflowAction]:
    """All actions, in order."""
    return [each for each in _flatten(nodes) if isinstance(each, WorkflowAction)]


def _flatten(nodes: Sequence[WorkflowNode]) -> Iterator[WorkflowAction | WorkflowCondition]:
    for node in nodes:
        match node:
            case WorkflowFork():
                for branch in node.branches:
                    yield from _flatten(branch)
            case WorkflowCondition():
                yield node
                yield from _flatten(node.if_branch)
                yield from _flatten(node.else_branch)
            case WorkflowAction():
                yield node


def _nodes(answer: Json, path: str, depth: int) -> tuple[WorkflowNode, ...]:
    if depth > _DEEPEST:
        raise WorkflowError(path[:300], f"has forks and conditions more than {_DEEPEST} deep")
    if not isinstance(answer, list):
        raise WorkflowError(path, "is no list of nodes")
    return tuple(_node(each, member_path(path, index), depth) for index, each in enumerate(answer))


def _node(found: Json, path: str, depth: int) -> WorkflowNode:
    if not isinstance(found, dict):
        raise WorkflowError(path, "is no object")
    node, kind = text_of(found, "nodeId"), text_of(found, "nodeType").upper()
    match kind:
        case "ACTION":
            program = found.get("program")
            given = program if isinstance(program, dict) else {}
            name = text_of(given, "programName")
            return WorkflowAction(node or name or "action", text_of(given, "programType").upper(), name, path)
        case "FORK":
            branches = found.get("branches")
            if not isinstance(branches, list):
                raise WorkflowError(member_path(path, "branches"), "is no list")
            where = member_path(path, "branches")
            return WorkflowFork(
                tuple(_nodes(each, member_path(where, index), depth + 1) for index, each in enumerate(branches))
            )
        case "CONDITION":
            either = (found.get("ifBranch") or [], found.get("elseBranch") or [])
            first, second = (
                _nodes(each, member_path(path, name), depth + 1)
                for each, name in zip(either, ("ifBranch", "elseBranch"), strict=True)
            )
            return WorkflowCondition(node or "condition", first, second, path)
        case _:
            raise WorkflowError(
                member_path(path, "nodeType"), f"must be ACTION, FORK or CONDITION but is {kind[:60]!r}"
            )


@dataclass
class WorkflowTasks:
    """The tasks of a workflow.

    Args:
        app: its name.
        name: of the program that the schedules start.
        taken: names that tasks cannot have; those of its tasks are added.
        run: the name of the program that an action runs.
        add: adds a program like one of the wanted name, and returns its name.
        schedule: fields of the schedule of each task, such as `properties`.

    Attributes:
        tasks: by name, with the one that the program completes.
        placeholders: what the placeholders among them are, each with its path.
    """

    app: str
    name: str
    taken: set[str]
    run: Callable[[WorkflowAction], str]
    add: Callable[[str, Mapping[str, Any]], str]
    schedule: Mapping[str, Any]
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    placeholders: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    _join: str = ""

    def build(self, nodes: Sequence[WorkflowNode], *, awaited: bool) -> tuple[str, str]:
        """Makes the tasks.

        Args:
            awaited: whether something waits for the end of the workflow.

        Returns:
            The programs whose completion says that the workflow completed, and that it failed; empty unless awaited.
        """
        self.tasks[self.name] = {**_JOB, "arrives": f"workflow {self.name} {{key}}"}
        last = self._chain(nodes, [self.name])
        if not awaited:
            return "", ""
        # A failed node fails all after it, so the last one says how all went.
        completed = self._announcement("completed", {"task": last})
        failed = self._announcement("failed", {"task": [completed], "ends": ["failed"]})
        return self.tasks[completed]["program"], self.tasks[failed]["program"]

    def _chain(self, nodes: Sequence[WorkflowNode], after: list[str]) -> list[str]:
        for node in nodes:
            match node:
                case WorkflowAction():
                    after = [self._task(node.id, self.run(node), {"task": after})]
                case WorkflowFork():
                    if len(after) > 1:
                        after = [self._join_task({"task": after})]
                    ends = [end for branch in node.branches for end in self._chain(branch, after)]
                    after = list(dict.fromkeys(ends)) or after
                case WorkflowCondition():
                    after = [self._condition(node, after)]
        return after

    def _condition(self, node: WorkflowCondition, after: list[str]) -> str:
        what = f"condition {node.id} of workflow {self.name}"
        said = f"exit {_IF} goes on with its if-branch, exit {_ELSE} with its else-branch"
        program = {**placeholder(f"{what}: {said}"), "success_codes": [_IF, _ELSE]}
        name = self._task(node.id, self.add(f"{self.name}-{node.id}", program), {"task": after})
        self.placeholders.append((node.path, f"{what} is Java code, here a placeholder that fails: {said}"))
        either = [self._branch(branch, name) for branch in (node.if_branch, node.else_branch)]
        inner = list(dict.fromkeys(end for _, ends in either for end in ends if end != name))
        needs = [{"task": [name], "ends": [_COMPLETE]}, *([{"task": inner, "ends": list(_EITHER)}] if inner else [])]
        join = self._join_task({free_name("branches", {*self.taken, self.name}): needs})
        codes = (str(_IF), str(_ELSE))
        self.tasks[name]["exit_codes"] = {
            code: [*firsts, join] for code, (firsts, _) in zip(codes, either, strict=True)
        }
        return join

    def _branch(self, nodes: Sequence[WorkflowNode], parent: str) -> tuple[list[str], list[str]]:
        """The tasks of a branch that depend on the parent, and its last ones."""
        before = len(self.tasks)
        ends = self._chain(nodes, [parent])
        made = list(self.tasks)[before:]
        return [each for each in made if parent in self.tasks[each]["depends_on"].get("task", ())], ends

    def _task(self, wanted: str, program: str, depends_on: Mapping[str, Any]) -> str:
        name = free_name(f"{self.name}-{wanted}", self.taken)
        self.taken.add(name)
        schedule = {"schedule": dict(self.schedule)} if self.schedule else {}
        self.tasks[name] = {**_JOB, "program": program, "depends_on": dict(depends_on), **schedule}
        return name

    def _join_task(self, depends_on: Mapping[str, Any]) -> str:
        """A task that no process runs, after others."""
        if not self._join:
            self._join = self.add(f"{self.name}-join", self._event("joined"))
        return self._bare_task("join", self._join, depends_on)

    def _announcement(self, end: str, depends_on: Mapping[str, Any]) -> str:
        program = self.add(f"{self.name}-{end}", self._event(end))
        return self._bare_task(end, program, depends_on)

    def _event(self, end: str) -> dict[str, Any]:
        return {"type": "publish", "event": f"{self.app}-{self.name}-{end}"}

    def _bare_task(self, wanted: str, program: str, depends_on: Mapping[str, Any]) -> str:
        name = self._task(wanted, program, depends_on)
        self.tasks[name].pop("schedule", None)
        return name


def arrival_program() -> dict[str, Any]:
    """The program of a workflow's schedules: it completes the node of the time at which it is due."""
    return {
        "type": "publish",
        "node": f"{{{_DUE}}}",
        "delimiter": "_",
        "components": {_DUE: "time"},
        "format": {_DUE: INSTANT},
    }
