"""A task of a DAG in the making."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamsched.dialects.airflow.codec.source.keywords import Keywords
from streamsched.domain.graph.time_argument import TimeArgument


class TaskSet(NamedTuple):
    """What an expression names: the first and the last of its tasks, and for a list its elements."""

    heads: tuple[str, ...] = ()
    tails: tuple[str, ...] = ()
    items: tuple[TaskSet, ...] = ()

    def join(self, other: TaskSet) -> TaskSet:
        """Both as one list."""
        items = (*(self.items or ((self,) if self.heads else ())), other)
        return TaskSet((*self.heads, *other.heads), (*self.tails, *other.tails), items)


NO_TASKS = TaskSet()


@dataclass
class DagTask:
    """A task as it is read.

    Attributes:
        id: as Airflow names it; `name`: as it is named here.
        kind: its operator, or `@task` with what follows it.
        keywords: of its call, its decorator and `default_args`.
        given: of the call of its function; None for an operator.
        function: with `@task`.
        bound: values of the function's parameters, as far as they are known.
        after: names of the tasks before it, in order.
        doubt: why it is not known whether or how it runs; empty: it is.
    """

    id: str
    name: str
    line: int
    kind: str
    keywords: Keywords
    given: Keywords | None = None
    function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    bound: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: dict[str, None] = field(default_factory=dict[str, None])
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """How a task chooses.

    Attributes:
        short: all go on or none does.
        choices: ids of tasks, for those that the file names.
        fixed: the choice, where it is always the same.
        overrules: with `short`: tasks further below are skipped whatever their trigger rules say.
    """

    short: bool = False
    choices: tuple[tuple[str, ...], ...] = ()
    fixed: tuple[str, ...] | bool | None = None
    overrules: bool = True


@dataclass
class TaskProgram:
    """What a task runs.

    Attributes:
        arguments: arguments made from the time of the run, by name.
        skip_codes: exit codes that skip the task.
        waits_for_person: why it is a placeholder; empty: it is none.
        branch: which of the tasks after it go on; None: all.
    """

    program: dict[str, Any]
    arguments: dict[str, TimeArgument] = field(default_factory=dict[str, TimeArgument])
    skip_codes: tuple[int, ...] = ()
    waits_for_person: str = ""
    branch: Branch | None = None
