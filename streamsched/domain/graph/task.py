"""Tasks of a graph as their owner defines them: job-id templates, and dependencies between templates.

`depends_on` is groups of entries. One complete group lets a job id run (OR); a group is complete when all parents of
all its entries are (AND).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.job_template import RESERVED, JobTemplate
from streamsched.domain.graph.node import ParentOutcome
from streamsched.domain.graph.time_argument import TimeArgument
from streamsched.domain.jobs.failure import LARGEST_EXIT_CODE
from streamsched.domain.json_value import member_path
from streamsched.domain.limits import LONGEST_NAME, abridge, check_most

#: The name of the group of a `depends_on` that names no groups.
DEFAULT_GROUP: Final = "default"
#: Most values of one list, and most parents or children that one entry gives a job id.
MOST_VALUES: Final = 100_000
#: Most tasks of a graph, and most groups or entries of a task.
MOST_TASKS: Final = 10_000
MOST_GROUPS: Final = 100

#: Most arguments of a task.
MOST_ARGUMENTS: Final = 100

#: In the text of an arrival, the values of the job id.
KEY: Final = "{key}"

_ARGUMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}", re.ASCII)

#: Whether a job id of the task has work to do, from the values of its components.
Validity = Callable[[str, Mapping[str, str]], bool]


class All(Enum):
    """In place of a list of values: all `autofill_values` of the parent's component."""

    ALL = "all"


ALL: Final = All.ALL
Values = tuple[str, ...] | All


class NodeId(NamedTuple):
    """A task at one job id, within one app."""

    task: str
    job_id: str

    def __str__(self) -> str:
        return f"{self.task} {self.job_id}"


@dataclass(frozen=True, slots=True)
class FunctionPair:
    """Two functions on job ids that are each other's inverse: `parents` of a child's, `children` of a parent's."""

    parents: Callable[[str], Iterable[str]]
    children: Callable[[str], Iterable[str]]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a group.

    Attributes:
        tasks: the parents' tasks.
        values: lists of values by component. Of a component of the child: the values with which the entry applies to a
            job id. Of a component of the parent: all of them are parents. A component of both that is not listed has
            the same value on both sides.
        job_ids: job ids of the parents, instead of those that the values give; None: those.
        function: the name of a pair of functions that gives the parents, instead of values.
        ends: the ends of the parents that count as wanted; None: success, and only it creates a child.
    """

    tasks: tuple[str, ...]
    values: Mapping[str, Values] = field(default_factory=dict[str, Values])
    job_ids: tuple[str, ...] | None = None
    function: str | None = None
    ends: tuple[ParentOutcome, ...] | None = None


@dataclass(frozen=True, slots=True)
class DependencyGroup:
    """Entries that a job id needs together."""

    name: str
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class ValidIf:
    """Which job ids have work to do: one of the listed values of any component, or those that the function accepts.
    Others are skipped.
    """

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    function: str | None = None


@dataclass(frozen=True, slots=True)
class TaskTemplate:
    """A task of a graph.

    Attributes:
        groups: alternatives, in the order in which they are defined; none for a task without parents.
        autofill: the values that a component has. They are the children's values that a parent's job id does not give,
            and a job id with another value has no parents. An empty list restricts nothing.
        arguments: arguments of its runs that are made from times of the job id, by name.
        exit_codes: what an exit code of a run that completed means: the tasks among the children that go on, while the
            others are skipped; None: the node itself is skipped. Where one names tasks, a code that is not listed
            fails the node.
        arrives: of a task whose nodes events or the clock complete, and that runs nothing: what completes a node, with
            `{key}` for the values of its job id; empty for a task that runs.
        title: the name that its runs and functions get, where it is not the task's: names have no `/`.
    """

    name: str
    template: JobTemplate
    groups: tuple[DependencyGroup, ...] = ()
    autofill: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    valid_if: ValidIf | None = None
    arrives: str = ""
    arguments: Mapping[str, TimeArgument] = field(default_factory=dict[str, TimeArgument])
    exit_codes: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict[int, tuple[str, ...] | None])
    title: str = ""

    @property
    def display_name(self) -> str:
        """The name that its runs and functions get."""
        return self.title or self.name

    def awaited_text(self, job_id: str) -> str:
        """What completes the node of an arrival, such as `partition date=20140101 of sales`.

        Raises:
            InvalidError: the job id does not fit the template.
        """
        values = zip(self.template.components, self.template.parts(job_id), strict=True)
        return self.arrives.replace(KEY, ", ".join(f"{name}={value}" for name, value in values))


def functions_of(tasks: Iterable[TaskTemplate], path: str = "$.tasks") -> Iterator[tuple[str, str]]:
    """The names of pairs of functions that the tasks use, with the path of each use."""
    for task in tasks:
        for group in task.groups:
            for entry in group.entries:
                if entry.function is not None:
                    yield entry.function, f"{member_path(path, task.name)}.depends_on.function"


def validities_of(tasks: Iterable[TaskTemplate], path: str = "$.tasks") -> Iterator[tuple[str, str]]:
    """The names of functions of `valid_if_or` that the tasks use, with the path of each use."""
    for task in tasks:
        if task.valid_if is not None and task.valid_if.function is not None:
            yield task.valid_if.function, f"{member_path(path, task.name)}.valid_if_or._func"


def validations_of(tasks: Iterable[TaskTemplate], path: str = "$.tasks") -> Iterator[tuple[str, str]]:
    """The names of validators of components that the tasks use, with the path of each use."""
    for task in tasks:
        if task.template.validations:
            yield task.template.validations, f"{member_path(path, task.name)}.validations"


def check_task(task: TaskTemplate, known: Mapping[str, TaskTemplate], path: str) -> None:
    """Checks what concerns the task alone: names of groups, lists of values, and components that exist.

    Raises:
        InvalidDefinitionError: the path is within the task at `path`.
    """
    if len(task.title) > LONGEST_NAME or (task.title and not task.title.isprintable()):
        raise InvalidDefinitionError(f"{path}.title", f"must be at most {LONGEST_NAME} printable characters")
    check_most(len(task.groups), MOST_GROUPS, f"{path}.depends_on", "groups")
    names = [group.name for group in task.groups]
    for group in task.groups:
        if names.count(group.name) > 1:
            raise InvalidDefinitionError(member_path(f"{path}.depends_on", group.name), "is defined twice")
        if group.name in known:
            raise InvalidDefinitionError(
                member_path(f"{path}.depends_on", group.name), "has the name of a task; name the group otherwise"
            )
    if task.arrives and (
        task.groups or task.autofill or task.valid_if is not None or task.arguments or task.exit_codes
    ):
        raise InvalidDefinitionError(path, "is completed by events or the clock, so it depends on no task")
    for name, values in task.autofill.items():
        _check_listed(task, name, values, member_path(f"{path}.autofill_values", name))
    _check_arguments(task, f"{path}.arguments")
    _check_exit_codes(task, f"{path}.exit_codes")
    if task.valid_if is not None:
        for name, values in task.valid_if.values.items():
            _check_listed(task, name, values, member_path(f"{path}.valid_if_or", name))
        if not any(task.valid_if.values.values()) and task.valid_if.function is None:
            raise InvalidDefinitionError(f"{path}.valid_if_or", "names no value, so every job id would be skipped")


def _check_arguments(task: TaskTemplate, path: str) -> None:
    check_most(len(task.arguments), MOST_ARGUMENTS, path, "arguments")
    for name, argument in task.arguments.items():
        if not _ARGUMENT.fullmatch(name) or name in RESERVED or name in task.template.components:
            raise InvalidDefinitionError(
                member_path(path, name), "must be a name of letters, digits and _ . - that no part of the job id has"
            )
        argument.check(task.template, member_path(path, name))


def _check_exit_codes(task: TaskTemplate, path: str) -> None:
    check_most(len(task.exit_codes), LARGEST_EXIT_CODE + 1, path, "exit codes")
    for code, children in task.exit_codes.items():
        if not 0 <= code <= LARGEST_EXIT_CODE:
            raise InvalidDefinitionError(member_path(path, str(code)), f"must be from 0 to {LARGEST_EXIT_CODE}")
        check_values(children or (), member_path(path, str(code)))


def _check_listed(task: TaskTemplate, name: str, values: tuple[str, ...], path: str) -> None:
    if name not in task.template.components:
        raise InvalidDefinitionError(path, f"is no component of the template {task.template}")
    check_values(values, path)
    check_fit(task.template, name, values, path)


def check_values(values: tuple[str, ...], path: str) -> None:
    """Raises:
    InvalidDefinitionError: there are too many values, or one twice.
    """
    check_most(len(values), MOST_VALUES, path, "values")
    if len(set(values)) < len(values):
        seen: set[str] = set()
        twice = next(each for each in values if each in seen or seen.add(each))  # type: ignore[func-returns-value]
        raise InvalidDefinitionError(path, f"names {abridge(twice)} twice")


def check_fit(template: JobTemplate, name: str, values: Iterable[str], path: str) -> None:
    """Raises:
    InvalidDefinitionError: the component cannot have one of the values.
    """
    index = template.components.index(name)
    for number, value in enumerate(values):
        if (problem := template.problem(index, value)) is not None:
            raise InvalidDefinitionError(f"{path}[{number}]", f"cannot be a value there: {problem}")
