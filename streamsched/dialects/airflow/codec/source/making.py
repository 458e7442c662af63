"""Makes the tasks of a DAG from the calls that make them: one for each element where a list is expanded."""

from __future__ import annotations

import ast
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any, Final

from streamsched.codec.moving.draft import NoteKind, free_name
from streamsched.dialects.airflow.codec.source.calls import GROUP, TASK, MakingCall, decorator_of, take_apart
from streamsched.dialects.airflow.codec.source.dag_task import DagTask
from streamsched.dialects.airflow.codec.source.keywords import DEFAULTS, ImportTable, Keywords
from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError, is_dictionary, is_list

#: Most tasks that are made of a DAG; more are counted and refused.
MOST: Final = 20_000
#: Keywords of a group of tasks that its page shows.
_SHOWN: Final = ("tooltip", "ui_color", "ui_fgcolor", "group_display_name")
_Element = Mapping[str, Any]


class TaskMaker:
    """Makes the tasks of one DAG.

    Attributes:
        tasks: by name, in the order in which they were made.
        visited: calls that were read, by identity.
        app: the name of the app.
    """

    def __init__(self, reader: LiteralReader, table: ImportTable, app: str, defaults: Keywords | None) -> None:
        self._reader = reader
        self._table = table
        self._defaults = [] if defaults is None else [defaults]
        self._decorators: dict[int, Keywords] = {}
        self._of_groups: list[Keywords] = []
        self._prefixes: list[str] = []
        self._open: list[dict[str, None]] = []
        self._ids: dict[str, int] = {}
        self._doubt = ""
        self.tasks: dict[str, DagTask] = {}
        self.visited: set[int] = set()
        self.app = app

    def keywords(self, owner: str) -> Keywords:
        """Those of a new owner."""
        return Keywords(self._table, self._reader, owner, self.app)

    def finish(self) -> None:
        """Refuses the keywords of decorators and of groups that no task takes; called when all programs are read."""
        for each in (*self._decorators.values(), *self._of_groups):
            each.finish("no task takes it: each call gives another")

    @contextmanager
    def doubt(self, why: str) -> Generator[None]:
        """Tasks that are made within this context are placeholders, unless `why` is empty."""
        before = self._doubt
        self._doubt = before or why
        try:
            yield
        finally:
            self._doubt = before

    @contextmanager
    def open_group(
        self, made_by: ast.Call | MakingCall, function: ast.FunctionDef | ast.AsyncFunctionDef | None = None
    ) -> Generator[dict[str, None]]:
        """Tasks that are made within this context are in a group: its id is before theirs. Gives their names."""
        making = take_apart(made_by) if isinstance(made_by, ast.Call) else made_by
        found = self._keywords_of(making, function, GROUP, ("group_id",))
        values = found.values()
        group = values.get("group_id") or (function.name if function is not None else "group")
        if function is not None:
            group = self._number_id(".".join((*self._prefixes, str(group)))).rpartition(".")[2]
        nested = values.get("prefix_group_id") is not False
        found.carry("group_id", f"its tasks are named {group}-…" if nested else "its tasks have their own names")
        found.carry("prefix_group_id", "is in the names of the tasks")
        found.carry(DEFAULTS, "its entries are rows of their own")
        for name in _SHOWN:
            found.change(name, "only Airflow's page reads it")
        own = self.keywords(f"{group}.{DEFAULTS}")
        readable = DEFAULTS not in found or own.add_dictionary(found.node(DEFAULTS), f"{group}.{DEFAULTS}")
        if not readable:
            found.refuse(DEFAULTS, "is known only when the file is executed")
        found.finish("is of a group of tasks, which is only a prefix of names here")
        self._defaults.append(own)
        self._of_groups.append(own)
        self._prefixes += [str(group)] if nested else []
        names: dict[str, None] = {}
        self._open.append(names)
        try:
            yield names
        finally:
            self._open.pop()
            self._prefixes = self._prefixes[:-1] if nested else self._prefixes
            self._defaults.pop()

    def make(self, making: MakingCall, function: ast.FunctionDef | ast.AsyncFunctionDef | None) -> tuple[str, ...]:
        """The names of the tasks that a call makes: none when it has no id that can be read."""
        if function is None:
            keywords = self._keywords_of(making, None, "", ("task_id",))
            given = None
            doubt = self._doubt
            kind = making.name
        else:
            keywords = self._keywords_of(making, function, TASK, ())
            decorator = decorator_of(function, TASK)
            kind = f"@task{f'.{decorator.kind}' if decorator is not None and decorator.kind else ''}"
            given = self._call_of(making, function)
            doubt = self._doubt
        wanted = self._id(making, keywords, function)
        if wanted is None:
            return ()
        elements, expanded, unknown = self._elements(making)
        names: list[str] = []
        for number, element in enumerate(elements):
            task_id = f"{wanted}[{number}]" if expanded else wanted
            name = free_name(f"{wanted}-{number}" if expanded else wanted, self.tasks)
            task = DagTask(
                task_id, name, making.steps[0][1].lineno, kind, keywords, given, function, doubt=doubt or unknown
            )
            if expanded or len(elements) != 1:
                task.keywords, task.given = keywords.copy(), None if given is None else given.copy()
            self._bind(task, element)
            self.tasks[name] = task
            names.append(name)
            for each in self._open:
                each[name] = None
        self._settle_id(keywords, wanted, names, elements=len(elements) if expanded else None)
        return tuple(names)

    def _keywords_of(
        self,
        making: MakingCall,
        function: ast.FunctionDef | ast.AsyncFunctionDef | None,
        base: str,
        positional: tuple[str, ...],
    ) -> Keywords:
        """The keywords of an operator's call, or of a decorator and what overrides it, and those of `default_args`."""
        owner = making.name if function is None else function.name
        own = making.step("", "partial") if function is None else making.step("override")
        if function is None and own is not None:
            task_id = next((each.value for each in own.keywords if each.arg == "task_id"), None)
            if task_id is not None:
                try:
                    owner = str(self._reader.read(task_id))[:60]
                except UnreadableError:
                    owner = making.name
        found = self.keywords(owner)
        for _, step in making.steps:
            self.visited.add(id(step))
        if own is not None:
            found.add_call(own, positional)
        decorator = None if function is None else decorator_of(function, base)
        if function is not None and decorator is not None and decorator.call is not None:
            if id(function) not in self._decorators:
                self.visited.add(id(decorator.call))
                self._decorators[id(function)] = self.keywords(function.name)
                self._decorators[id(function)].add_call(decorator.call, positional)
            found.inherit(self._decorators[id(function)])
        if base != GROUP and making.name != "TaskGroup":
            for each in reversed(self._defaults):
                found.inherit(each)
        found.values()  # what is bound now is not bound later
        return found

    def _call_of(self, making: MakingCall, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Keywords:
        """The arguments of a function with `@task`, by the names of its parameters."""
        found = self.keywords(f"{function.name}()")
        parameters = tuple(each.arg for each in (*function.args.posonlyargs, *function.args.args))
        for name in ("", "partial"):
            if (step := making.step(name)) is not None:
                found.add_call(step, parameters[: len(step.args)])
        found.values()
        return found

    def _id(
        self, making: MakingCall, keywords: Keywords, function: ast.FunctionDef | ast.AsyncFunctionDef | None
    ) -> str | None:
        line = making.steps[0][1].lineno
        try:
            wanted = keywords.value("task_id")
        except UnreadableError as exc:
            self._leave_out(keywords, line, making, exc.text)
            return None
        if function is not None:
            prefixed = ".".join((*self._prefixes, str(wanted or function.name)))
            return self._number_id(prefixed)
        if not isinstance(wanted, str) or not wanted:
            self._leave_out(keywords, line, making, "it has no task_id")
            return None
        prefixed = ".".join((*self._prefixes, wanted))
        if prefixed in self._ids:
            self._leave_out(keywords, line, making, f"task {prefixed} is defined twice, which Airflow refuses")
            return None
        if len(self.tasks) > MOST:
            self._leave_out(keywords, line, making, "there are too many tasks")
            return None
        self._ids[prefixed] = 1
        return prefixed

    def _number_id(self, wanted: str) -> str:
        """The id of a further call of a function, as Airflow numbers them."""
        count = self._ids.get(wanted, 0)
        self._ids[wanted] = count + 1
        return wanted if not count else f"{wanted}__{count}"

    def _leave_out(self, keywords: Keywords, line: int, making: MakingCall, why: str) -> None:
        self._table.note(NoteKind.REFUSED, line, making.name, f"is left out: {why}", app=self.app)
        keywords.finish("the task is left out")

    def _settle_id(self, keywords: Keywords, wanted: str, names: list[str], *, elements: int | None) -> None:
        if elements is not None:
            keywords.change("task_id", f"one task for each of {elements} elements: {wanted}-0 and so on")
        elif names == [wanted]:
            keywords.carry("task_id", f"task {wanted}")
        else:
            keywords.change("task_id", f"task {wanted} is named {', '.join(names)}")

    def _elements(self, making: MakingCall) -> tuple[list[_Element], bool, str]:
        """What is expanded, element by element; whether anything is; and why it is not known what."""
        expanded, listed = making.step("expand"), making.step("expand_kwargs")
        if expanded is None and listed is None:
            return [{}], False, ""
        unknown = "what it is expanded over is known only at run time: give it one task for each element"
        found = self.keywords(f"{making.name}.expand")
        if listed is not None:
            found.add_call(listed, ("expand_kwargs",))
        if expanded is not None:
            found.add_call(expanded)
        try:
            lists = {name: found.value(name) for name in found.names()}
        except UnreadableError:
            lists = dict[str, Any]()
        elements = _rows(lists.get("expand_kwargs")) if listed is not None else _products(lists)
        if elements is None or len(elements) > MOST:
            found.finish(unknown)
            return [{}], False, unknown
        for name in found.names():
            found.carry(name, f"{len(elements)} elements, each a task")
        found.finish(unknown)
        if not elements:
            return [{}], False, "it is expanded over nothing"
        return elements, True, ""

    def _bind(self, task: DagTask, element: _Element) -> None:
        function = task.function
        if function is None:
            for name, value in element.items():
                task.keywords.bind(name, value)
            return
        own = function.args
        names = [each.arg for each in (*own.posonlyargs, *own.args)]
        bound: dict[str, Any] = {}
        for name, default in zip(reversed(names), reversed(own.defaults), strict=False):
            try:
                bound[name] = self._reader.read(default)
            except UnreadableError:
                continue
        task.bound = {
            **self._reader.bindings,
            **bound,
            **({} if task.given is None else task.given.values()),
            **element,
        }


def _is_element(value: object) -> bool:
    return is_dictionary(value) and not any(isinstance(each, UnreadableError) for each in value.values())


def _rows(rows: Any) -> list[_Element] | None:
    """The elements of `expand_kwargs`; None when they are not known."""
    return list(rows) if is_list(rows) and all(_is_element(each) for each in rows) else None


def _products(lists: Mapping[str, Any]) -> list[_Element] | None:
    """The elements of `expand`, the last keyword varying fastest; None when they are not known, or too many."""
    if not lists or not all(isinstance(each, list) for each in lists.values()):
        return None
    if prod(max(len(each), 1) for each in lists.values()) > MOST:
        return None
    return [dict(zip(lists, each, strict=True)) for each in product(*lists.values())]
