"""The tasks of a DAG: what each runs, and after which others."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Final

from streamsched.codec.airflow.literal import LiteralReader, UnreadableError, called
from streamsched.codec.moving.draft import Report, placeholder

_EMPTY: Final = frozenset({"EmptyOperator", "DummyOperator"})
_NOT_TASKS: Final = frozenset({"TaskGroup", "DAG", "Label", "Asset", "Dataset"})


@dataclass
class DagTask:
    """A task in the making; `options` are its readable arguments."""

    name: str
    line: int
    program: dict[str, Any]
    options: Mapping[str, Any]
    after: list[str] = field(default_factory=list[str])


class TaskReader:
    """Finds tasks and their order in the statements of a DAG."""

    def __init__(self, reader: LiteralReader, report: Report, *, variable: str = "") -> None:
        """`variable`: only tasks with `dag=variable`; empty: all."""
        self._reader = reader
        self._variable = variable
        self._report = report
        self._names: dict[str, list[str]] = {}
        self.tasks: dict[str, DagTask] = {}

    def read(self, statements: list[ast.stmt]) -> None:
        """Reads statements, also those inside `with`; loops and conditions are reported."""
        for statement in statements:
            self._statement(statement)

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                self._names[name] = self._made(call)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=items)):
                self._names[name] = [each for item in items for each in self._named(item)]
            case ast.Expr(value=value):
                self._named(value)
            case ast.With(body=body):
                self.read(body)
            case ast.FunctionDef(name=name, lineno=line, decorator_list=[first, *_]) if _is_task(first):
                text = f"task {name} is a Python function; `app.python('module:function')` runs one"
                self._report.cannot(f"line {line}", text)
                self._add(DagTask(name, line, placeholder(f"Python function {name}"), {}))
                self._names[name] = [name]
            case ast.For() | ast.While() | ast.If() | ast.Try():
                kind = type(statement).__name__.lower()
                self._report.cannot(f"line {statement.lineno}", f"what is made in this `{kind}` is not read")
            case _:
                pass

    def _named(self, node: ast.expr) -> list[str]:
        """The tasks that an expression names; an expression that orders tasks is carried out."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name, [])
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [each for item in items for each in self._named(item)]
            case ast.BinOp(left=left, op=ast.RShift(), right=right):
                former, later = self._named(left), self._named(right)
                self._order(former, later)
                return later
            case ast.BinOp(left=left, op=ast.LShift(), right=right):
                later, former = self._named(left), self._named(right)
                self._order(former, later)
                return former
            case ast.Call(func=ast.Attribute(value=owner, attr="set_downstream"), args=[other]):
                self._order(self._named(owner), self._named(other))
            case ast.Call(func=ast.Attribute(value=owner, attr="set_upstream"), args=[other]):
                self._order(self._named(other), self._named(owner))
            case ast.Call(func=ast.Name(id="chain"), args=items):
                groups = [self._named(item) for item in items]
                for former, later in pairwise(groups):
                    self._order(former, later)
            case ast.Call():
                return self._made(node)
            case _:
                pass
        return []

    def _order(self, former: list[str], later: list[str]) -> None:
        for name in later:
            self.tasks[name].after += [each for each in former if each not in self.tasks[name].after]

    def _made(self, call: ast.Call) -> list[str]:
        """The task that a call makes, if it makes one."""
        kind = called(call)
        if isinstance(call.func, ast.Name) and call.func.id in self._names:  # a function with @task
            for argument in (*call.args, *(each.value for each in call.keywords)):
                self._order(self._named(argument), self._names[call.func.id])
            return self._names[call.func.id]
        if self._variable and not any(
            each.arg == "dag" and isinstance(each.value, ast.Name) and each.value.id == self._variable
            for each in call.keywords
        ):
            return []
        options, unread = self._options(call)
        name = options.get("task_id")
        if not isinstance(name, str) or not kind[:1].isupper() or kind in _NOT_TASKS:
            if "task_id" in unread:
                self._report.cannot(f"line {call.lineno}", f"{kind} is left out: {unread['task_id'].text}")
            return []
        program = self._program(kind, name, options, unread, call.lineno)
        return [self._add(DagTask(name, call.lineno, program, options))]

    def _options(self, call: ast.Call) -> tuple[dict[str, Any], dict[str, UnreadableError]]:
        options: dict[str, Any] = {}
        unread: dict[str, UnreadableError] = {}
        for each in call.keywords:
            if each.arg:
                try:
                    options[each.arg] = self._reader.read(each.value)
                except UnreadableError as exc:
                    unread[each.arg] = exc
        return options, unread

    def _program(
        self, kind: str, name: str, options: Mapping[str, Any], unread: Mapping[str, UnreadableError], line: int
    ) -> dict[str, Any]:
        path = f"line {line}"
        needed = {"BashOperator": "bash_command", "SparkSubmitOperator": "application"}.get(kind)
        if kind in _EMPTY:
            return {"type": "bash", "command": "true"}
        if needed is None:
            self._report.cannot(path, f"task {name}: {kind} is not known here")
            return placeholder(f"{kind} {name}")
        value = options.get(needed)
        if not isinstance(value, str) or not value:
            why = unread[needed].text if needed in unread else f"has no {needed}"
            self._report.cannot(path, f"task {name}: {why}")
            return placeholder(f"{kind} {name}")
        if kind == "BashOperator":
            return {"type": "bash", "command": _environment(options) + self._literal(value, name, path)}
        return self._spark(value, name, options, path)

    def _spark(self, main: str, name: str, options: Mapping[str, Any], path: str) -> dict[str, Any]:
        conf, arguments = options.get("conf") or {}, options.get("application_args") or []
        texts = {key: str(value) for key, value in conf.items()} if isinstance(conf, dict) else {}
        for option, setting in _SPARK_CONF.items():
            if options.get(option) is not None:
                texts[setting] = str(options[option])
        for option in ("java_class", "jars", "packages", "py_files", "files", "keytab"):
            if options.get(option):
                self._report.cannot(path, f"task {name}: `{option}` is left out; see `conf` of the program")
        self._report.differs(path, f"task {name}: the master is that of the launcher, not of the connection")
        found = {"type": "spark", "main": self._literal(main, name, path), "conf": texts}
        given = [self._literal(str(each), name, path) for each in arguments] if isinstance(arguments, list) else []
        return {**found, "arguments": given}

    def _literal(self, text: str, name: str, path: str) -> str:
        if "{{" in text or "{%" in text:
            self._report.cannot(
                path, f"task {name}: a template is not filled: use the arguments and variables of a run"
            )
        return text

    def _add(self, task: DagTask) -> str:
        if task.name in self.tasks:
            self._report.cannot(f"line {task.line}", f"task {task.name} is defined twice; the later one is left out")
        else:
            self.tasks[task.name] = task
        return task.name


def unreachable(tasks: Mapping[str, DagTask]) -> set[str]:
    """The tasks that can never start: those in a circle, and those after one. Airflow refuses a DAG with a circle."""
    sorter = TopologicalSorter({name: task.after for name, task in tasks.items()})
    with suppress(CycleError):
        sorter.prepare()
    found = set(tasks)
    while ready := sorter.get_ready():
        found.difference_update(ready)
        sorter.done(*ready)
    return found


#: Options of SparkSubmitOperator, and what they are in Spark's configuration.
_SPARK_CONF: Final = {
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "driver_memory": "spark.driver.memory",
    "num_executors": "spark.executor.instances",
}


def _environment(options: Mapping[str, Any]) -> str:
    env = options.get("env")
    if not isinstance(env, dict):
        return ""
    return "".join(f"export {name}={_quoted(value)}\n" for name, value in _texts(env))


def _texts(env: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in env.items() if isinstance(value, str) and name.isidentifier())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _is_task(decorator: ast.expr) -> bool:
    match decorator:
        case ast.Call(func=function):
            return _is_task(function)
        case ast.Attribute(value=owner):
            return _is_task(owner)
        case ast.Name(id=name):
            return name == "task"
        case _:
            return False
