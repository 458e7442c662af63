"""Calls that make DAGs and tasks, taken apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from streamsched.dialects.airflow.codec.source.literal import called_name

_STEPS: Final = frozenset({"override", "partial", "expand", "expand_kwargs"})
_OPERATOR: Final = re.compile(r"\w*(Operator|Sensor|OperatorAsync|SensorAsync)")
_NOT_TASKS: Final = frozenset({"TaskGroup", "DAG", "Label", "Asset", "Dataset", "Param", "XComArg", "Variable"})
TASK: Final = "task"
GROUP: Final = "task_group"
DAG: Final = "dag"


@dataclass(frozen=True, slots=True)
class MakingCall:
    """A call that may make tasks: `f.override(…).partial(…).expand(…)`, `f(…)` or `BashOperator(…)`.

    Attributes:
        root: what is called in the end.
        steps: the calls, innermost first, each with the name of its method; empty for the call of the root.
    """

    root: ast.expr
    steps: tuple[tuple[str, ast.Call], ...]

    @property
    def name(self) -> str:
        """The last part of the root's name."""
        match self.root:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name
            case _:
                return ""

    def step(self, *names: str) -> ast.Call | None:
        """The call of a method of one of these names; an empty one is the call of the root."""
        return next((call for name, call in self.steps if name in names), None)

    @property
    def makes_operator(self) -> bool:
        """Whether it is made from a class of operators, or of what looks like one because it has a `task_id`."""
        own = self.step("", "partial")
        if own is None or self.name in _NOT_TASKS:
            return False
        has_id = any(each.arg == "task_id" for each in own.keywords)
        return bool(_OPERATOR.fullmatch(self.name)) or (self.name[:1].isupper() and has_id)


def take_apart(call: ast.Call) -> MakingCall:
    """The call with those inside its function."""
    steps: list[tuple[str, ast.Call]] = []
    node: ast.expr = call
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _STEPS:
            steps.append((node.func.attr, node))
            node = node.func.value
        else:
            steps.append(("", node))
            node = node.func
    return MakingCall(node, tuple(reversed(steps)))


@dataclass(frozen=True, slots=True)
class Decorator:
    """`@task`, `@task.bash(…)`, `@task_group`, `@dag(…)`: `base` is the first part, `kind` what follows it."""

    base: str
    kind: str
    call: ast.Call | None


def decorator_of(function: ast.stmt, *bases: str) -> Decorator | None:
    """The first decorator of a function with one of these bases."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    return next(
        (found for each in function.decorator_list if (found := _decorator(each)) and found.base in bases), None
    )


def _decorator(node: ast.expr) -> Decorator | None:
    match node:
        case ast.Call(func=function):
            found = _decorator(function)
            return None if found is None else Decorator(found.base, found.kind, node)
        case ast.Attribute(value=ast.Name(id="task" as base), attr=kind):
            return Decorator(base, kind, None)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return Decorator(name, "", None)
        case _:
            return None


def making_calls(tree: ast.AST) -> Iterator[tuple[ast.Call, str]]:
    """All calls that make a DAG, a group or a task, or that decorate such a function, with the name of what they make.
    Calls of functions with `@task` are among them by the names of these functions.
    """
    functions = {node.name for node in ast.walk(tree) if decorator_of(node, TASK, GROUP)}  # type: ignore[union-attr, arg-type]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for each in node.decorator_list:
                found = _decorator(each)
                if found is not None and found.base in (TASK, GROUP, DAG) and found.call is not None:
                    yield found.call, node.name
        elif isinstance(node, ast.Call):
            making = take_apart(node)
            if (
                making.makes_operator
                or making.name in ("DAG", "TaskGroup")
                or (isinstance(making.root, ast.Name) and making.root.id in functions)
            ):
                yield node, making.name or called_name(node)
