"""A graph: tasks whose job ids depend on each other. Edges are computed from the definitions and never stored.

>>> from streamsched.domain.graph.job_template import JobTemplate
>>> from streamsched.domain.graph.task import DependencyGroup, Entry
>>> clean = TaskTemplate("clean", JobTemplate.parse("{date}_{client}"))
>>> needs = DependencyGroup("default", (Entry(("clean",), {"client": ("a", "b")}),))
>>> report = TaskTemplate("report", JobTemplate.parse("{date}"), (needs,))
>>> graph = Graph([clean, report])
>>> [str(each) for each in graph.parents(NodeId("report", "20140101"))[0].parents]
['clean 20140101_a', 'clean 20140101_b']
>>> [str(child) for child, group in graph.children(NodeId("clean", "20140101_b"))]
['report 20140101']
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from graphlib import CycleError, TopologicalSorter
from typing import NamedTuple

from streamsched.domain.errors import InvalidDefinitionError, NotFoundError
from streamsched.domain.graph.compilation import GroupRelations, compile_groups
from streamsched.domain.graph.reaction import Reactions
from streamsched.domain.graph.relation import PairRelation, Relation
from streamsched.domain.graph.task import (
    MOST_TASKS,
    MOST_VALUES,
    FunctionPair,
    NodeId,
    TaskTemplate,
    Validity,
    check_task,
    functions_of,
    validities_of,
)
from streamsched.domain.json_value import member_path
from streamsched.domain.limits import check_most

__all__ = ["Children", "Graph", "NodeId", "ParentGroup"]


class ParentGroup(NamedTuple):
    """The parents of a node by one group that applies to it.

    Attributes:
        group: its index among the groups of the task.
        parents: each once; at least one.
    """

    group: int
    name: str
    parents: tuple[NodeId, ...]


class Children(NamedTuple):
    """The children of a node that could be computed.

    Attributes:
        found: each with the index of a group, as `Graph.children` gives them.
        failed: of the tasks whose pair of functions failed, the reason.
    """

    found: tuple[tuple[NodeId, int], ...]
    failed: Mapping[str, InvalidDefinitionError]


class Graph:
    """The tasks of one app, checked and compiled on creation."""

    def __init__(
        self,
        tasks: Sequence[TaskTemplate],
        *,
        functions: Mapping[str, FunctionPair] | None = None,
        validities: Mapping[str, Validity] | None = None,
        path: str = "$.tasks",
    ) -> None:
        """
        Args:
            functions: pairs of functions by the name that entries use.
            validities: functions of `valid_if_or` by name.
            path: of the tasks, for errors.

        Raises:
            InvalidDefinitionError: a task contradicts itself or another, or tasks depend on each other in a circle.
        """
        check_most(len(tasks), MOST_TASKS, path, "tasks")
        self._validities = dict(validities or {})
        self._tasks: dict[str, TaskTemplate] = {}
        for task in tasks:
            if task.name in self._tasks:
                raise InvalidDefinitionError(member_path(path, task.name), "is defined twice")
            self._tasks[task.name] = task
        self._groups: dict[str, tuple[GroupRelations, ...]] = {}
        self._below: dict[str, list[tuple[str, int, Relation | PairRelation]]] = {name: [] for name in self._tasks}
        for task in tasks:
            where = member_path(path, task.name)
            check_task(task, self._tasks, where)
            name = None if task.valid_if is None else task.valid_if.function
            if name is not None and name not in self._validities:
                raise InvalidDefinitionError(f"{where}.valid_if_or._func", f"there is no function '{name}'")
            groups = compile_groups(task, self._tasks, functions or {}, f"{where}.depends_on")
            self._groups[task.name] = groups
            for index, group in enumerate(groups):
                for parent, relation in group.relations:
                    self._below[parent].append((task.name, index, relation))
        for task in tasks:
            _check_codes(task, {child for child, _, _ in self._below[task.name]}, member_path(path, task.name))
        self.reactions = Reactions(tasks)
        self.order = self._sort_tasks(path)

    @property
    def tasks(self) -> Mapping[str, TaskTemplate]:
        """The tasks by name."""
        return self._tasks

    def task(self, name: str) -> TaskTemplate:
        """The task of that name.

        Raises:
            NotFoundError: there is no such task.
        """
        try:
            return self._tasks[name]
        except KeyError:
            raise NotFoundError("task", name) from None

    def check(self, node: NodeId, path: str = "$") -> None:
        """Raises:
        NotFoundError: there is no such task.
        InvalidError: the job id does not fit the task's template.
        """
        self.task(node.task).template.parts(node.job_id, path)

    def canonical(self, node: NodeId, path: str = "$") -> NodeId:
        """The node that people mean by this one: validators may convert the values of its job id. May block.

        Raises:
            NotFoundError: there is no such task.
            InvalidError: the job id does not fit the task's template.
        """
        return NodeId(node.task, self.task(node.task).template.canonical(node.job_id, path))

    def parents(self, node: NodeId) -> tuple[ParentGroup, ...]:
        """The parents by group, of the groups that apply to the job id. None: the node needs no parents.

        Raises:
            NotFoundError: there is no such task.
            InvalidError: the job id does not fit the task's template.
            InvalidDefinitionError: a pair of functions failed.
        """
        parts = self.task(node.task).template.parts(node.job_id)
        found: list[ParentGroup] = []
        for index, group in enumerate(self._groups[node.task]):
            if not group.applies(parts):
                continue
            parents: dict[NodeId, None] = {}
            for task, relation in group.relations:
                ids = relation.parents(node.job_id) if isinstance(relation, PairRelation) else relation.parents(parts)
                parents.update((NodeId(task, each), None) for each in ids)
            check_most(len(parents), MOST_VALUES, f"{node}: {group.name}", "parents of one job id")
            if parents:
                found.append(ParentGroup(index, group.name, tuple(parents)))
        return tuple(found)

    def children(self, node: NodeId) -> tuple[tuple[NodeId, int], ...]:
        """The children, each with the index of a group of its task in which the node is a parent; a child with several
        such groups occurs once for each.

        Raises:
            NotFoundError: there is no such task.
            InvalidError: the job id does not fit the task's template.
            InvalidDefinitionError: a pair of functions failed.
        """
        found = self.computable_children(node)
        for error in found.failed.values():
            raise error
        return found.found

    def computable_children(self, node: NodeId) -> Children:
        """As `children`; the children on which a pair of functions fails are missing, and others are not.

        Raises:
            NotFoundError: there is no such task.
            InvalidError: the job id does not fit the task's template.
        """
        parts = self.task(node.task).template.parts(node.job_id)
        found: dict[tuple[NodeId, int], None] = {}
        failed: dict[str, InvalidDefinitionError] = {}
        for child, index, relation in self._below[node.task]:
            group, template = self._groups[child][index], self._tasks[child].template
            ids: Iterable[str]
            if isinstance(relation, PairRelation):
                ids, failure = relation.computable_children(node.job_id)
                if failure is not None:
                    failed[child] = failure
            else:
                ids = relation.children(parts)
            if group.is_mixed:
                ids = (each for each in ids if group.applies(template.parts(each)))
            found.update(((NodeId(child, each), index), None) for each in ids)
        return Children(tuple(found), failed)

    def is_valid(self, node: NodeId) -> bool:
        """Whether the node has work to do by its task's `valid_if_or`.

        Raises:
            InvalidDefinitionError: its function failed.
        """
        task = self.task(node.task)
        if task.valid_if is None:
            return True
        values = dict(zip(task.template.components, task.template.parts(node.job_id), strict=True))
        if any(values[name] in listed for name, listed in task.valid_if.values.items()):
            return True
        if task.valid_if.function is None:
            return False
        return _ask_validity(self._validities[task.valid_if.function], task, values)

    def _sort_tasks(self, path: str) -> tuple[str, ...]:
        """The names of the tasks, parents before children.

        Raises:
            InvalidDefinitionError: there is a circle; the reason names its tasks.
        """
        above = {
            name: tuple(dict.fromkeys(parent for group in groups for parent, _ in group.relations))
            for name, groups in self._groups.items()
        }
        try:
            return tuple(TopologicalSorter(above).static_order())
        except CycleError as exc:
            circle: Sequence[str] = exc.args[1]
            where = f"{member_path(path, circle[-1])}.depends_on"
            raise InvalidDefinitionError(where, f"is a circle: {' needs '.join(reversed(circle))}") from None


def _check_codes(task: TaskTemplate, children: Set[str], path: str) -> None:
    for code, going_on in task.exit_codes.items():
        for number, child in enumerate(going_on or ()):
            if child not in children:
                raise InvalidDefinitionError(
                    f"{member_path(f'{path}.exit_codes', str(code))}[{number}]",
                    f"'{child}' does not depend on the task",
                )


def check_graph(tasks: Sequence[TaskTemplate]) -> None:
    """Checks the tasks without their functions, which need not be installed here.

    Raises:
        InvalidDefinitionError: as `Graph`.
    """
    pair = FunctionPair(lambda _: (), lambda _: ())
    Graph(
        tasks,
        functions={name: pair for name, _ in functions_of(tasks)},
        validities={name: lambda _, __: True for name, _ in validities_of(tasks)},
    )


def _ask_validity(function: Validity, task: TaskTemplate, values: Mapping[str, str]) -> bool:
    try:
        return bool(function(task.display_name, values))
    except Exception as exc:
        where = f"{member_path('$.tasks', task.name)}.valid_if_or._func"
        raise InvalidDefinitionError(where, f"failed: {type(exc).__name__}: {exc}") from exc
