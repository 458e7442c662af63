"""The statements of a DAG: which tasks they make, and in which order."""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

from streamsched.codec.moving.draft import NoteKind
from streamsched.dialects.airflow.codec.source.calls import GROUP, TASK, MakingCall, decorator_of, take_apart
from streamsched.dialects.airflow.codec.source.dag_task import NO_TASKS, DagTask, TaskSet
from streamsched.dialects.airflow.codec.source.keywords import ImportTable
from streamsched.dialects.airflow.codec.source.literal import (
    LiteralReader,
    UnreadableError,
    called_name,
    is_dictionary,
    is_list,
    source_of,
)
from streamsched.dialects.airflow.codec.source.making import TaskMaker
from streamsched.dialects.airflow.codec.source.task_names import TaskNames

#: Most turns of all loops of a DAG together, and deepest nesting of expressions and statements.
_MOST_TURNS: Final = 20_000
_DEEPEST: Final = 100


class StatementReader:
    """Reads the statements of one DAG.

    Args:
        call: that makes the DAG, in a `with` or an assignment of the module; None: all statements are of the DAG.
        variable: by which tasks outside of the `with` name it.
    """

    def __init__(
        self,
        reader: LiteralReader,
        table: ImportTable,
        maker: TaskMaker,
        *,
        call: ast.Call | None = None,
        variable: str = "",
    ) -> None:
        self._call = call
        self._reader = reader
        self._table = table
        self._maker = maker
        self._variable = variable
        self._owning = call is None
        self._names = TaskNames(reader)
        self._functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        self._turns = 0
        self._depth = 0

    @property
    def tasks(self) -> Mapping[str, DagTask]:
        """The tasks by name."""
        return self._maker.tasks

    def learn(self, statements: Iterable[ast.stmt]) -> None:
        """Takes the functions with `@task` and `@task_group` among statements, so that later ones may call them."""
        for each in statements:
            if decorator_of(each, TASK, GROUP) is not None:
                assert isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                self._functions[each.name] = each

    def read(self, statements: Sequence[ast.stmt]) -> None:
        """Reads statements in order."""
        self.learn(statements)
        for statement in statements:
            with self._descend(statement):
                self._statement(statement)

    @contextmanager
    def _descend(self, node: ast.stmt | ast.expr) -> Generator[None]:
        self._depth += 1
        try:
            if self._depth > _DEEPEST:
                raise UnreadableError(node, "is nested too deeply to be read")
            yield
        finally:
            self._depth -= 1

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                self._reader.learn(statement)
                self._read_assignment(targets, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._reader.learn(statement)
                self._read_assignment([target], value)
            case ast.Expr(value=value) | ast.Return(value=ast.expr() as value) | ast.AugAssign(value=value):
                self._tasks_of(value)
            case ast.With(items=items, body=body):
                self._read_with(items, body)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                self._loop(statement, target, over, body)
            case ast.If() | ast.Try() | ast.While() | ast.For() | ast.Match() | ast.AsyncFor():
                self._doubtful(
                    statement, f"it is made in a `{type(statement).__name__.lower()}` that is not carried out"
                )
            case _:
                pass

    def _doubtful(self, statement: ast.stmt, why: str) -> None:
        """Reads what a statement may execute; each task in it is a placeholder."""
        inner = [each for name in ("body", "orelse", "finalbody") for each in getattr(statement, name, ())]
        inner += [each for handler in getattr(statement, "handlers", ()) for each in handler.body]
        inner += [each for case in getattr(statement, "cases", ()) for each in case.body]
        before = set(self.tasks)
        with self._maker.doubt(f"{why} (line {statement.lineno})"):
            self.read(inner)
        if before != set(self.tasks):
            self._note(
                statement.lineno, "", f"what is made in this `{type(statement).__name__.lower()}` is a placeholder"
            )

    def _loop(self, statement: ast.For, target: ast.expr, over: ast.expr, body: list[ast.stmt]) -> None:
        names = self._targets(target)
        items = self._tasks_of(over).items if isinstance(over, ast.Name | ast.List | ast.Tuple) else ()
        if items and len(names) == 1:
            for each in items:
                self._names.put(names[0], each, listed=True)
                self.read(body)
            return
        turns = self._values_of(over)
        if turns is None or not names or self._turns + len(turns) > _MOST_TURNS:
            self._doubtful(statement, f"`{source_of(over)}` of a `for` is known only when the file is executed")
            return
        self._turns += len(turns)
        for each in turns:
            bound = {names[0]: each} if len(names) == 1 else dict(zip(names, each, strict=False))
            with self._reader.bind(bound):
                self.read(body)

    @staticmethod
    def _targets(target: ast.expr) -> list[str]:
        match target:
            case ast.Name(id=name):
                return [name]
            case ast.Tuple(elts=parts) if all(isinstance(each, ast.Name) for each in parts):
                return [each.id for each in parts if isinstance(each, ast.Name)]
            case _:
                return []

    def _values_of(self, over: ast.expr) -> list[Any] | None:
        """The elements of a list that can be read."""
        try:
            match over:
                case ast.Call(func=ast.Name(id="enumerate"), args=[inner], keywords=[]):
                    found = self._reader.read(inner)
                    return [list(each) for each in enumerate(found)] if is_list(found) else None
                case ast.Call(func=ast.Attribute(value=owner, attr="items"), args=[], keywords=[]):
                    found = self._reader.read(owner)
                    return [list(each) for each in found.items()] if is_dictionary(found) else None
                case _:
                    found = self._reader.read(over)
                    return list(found) if is_list(found) or is_dictionary(found) else None
        except UnreadableError:
            return None

    def _read_with(self, items: list[ast.withitem], body: list[ast.stmt]) -> None:
        for item in items:
            match item.context_expr:
                case ast.Call() as call if called_name(call) == "TaskGroup":
                    variable = item.optional_vars.id if isinstance(item.optional_vars, ast.Name) else ""
                    with self._maker.open_group(call) as names:
                        self.read(body)
                    if variable:
                        self._names.put(variable, self._group(names), listed=True)
                    return
                case ast.Name(id=name) if name == self._variable and not self._owning:
                    self._read_own(body)
                    return
                case ast.Call() as call if call is self._call:
                    self._read_own(body)
                    return
                case ast.Call() as call if called_name(call) == "DAG":
                    return
                case ast.Name() if not self._owning:
                    return
                case _:
                    pass
        self.read(body)

    def _read_own(self, body: list[ast.stmt]) -> None:
        self._owning = True
        self.read(body)
        self._owning = False

    def _group(self, names: Iterable[str]) -> TaskSet:
        """The first and the last tasks among these, by the order so far."""
        known = dict.fromkeys(names)
        before = {each for name in known for each in self.tasks[name].after if each in known}
        heads = tuple(name for name in known if not any(each in known for each in self.tasks[name].after))
        return TaskSet(heads, tuple(name for name in known if name not in before))

    def _read_assignment(self, targets: list[ast.expr], value: ast.expr) -> None:
        names = self._names
        for target in targets:
            match target, value:
                case ast.Name(id=name), ast.Dict(keys=keys, values=values):
                    for key, each in zip(keys, values, strict=True):
                        names.put_member(name, key, self._tasks_of(each))
                case ast.Name(id=name), _:
                    names.put(name, self._tasks_of(value), listed=isinstance(value, ast.List))
                case ast.Subscript(value=ast.Name(id=name), slice=key), _:
                    names.put_member(name, key, self._tasks_of(value))
                case ((ast.Tuple(elts=parts) | ast.List(elts=parts)), _):
                    names.put_each(parts, self._tasks_of(value).items)
                case _:
                    self._tasks_of(value)

    def _tasks_of(self, node: ast.expr) -> TaskSet:
        """The tasks that an expression names; those that it makes are made, and their order is taken."""
        with self._descend(node):
            match node:
                case ast.Name(id=name):
                    return self._names.get(name)
                case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                    found = NO_TASKS
                    for item in items:
                        found = found.join(self._tasks_of(item))
                    return found
                case ast.BinOp(op=ast.RShift() | ast.LShift()):
                    return self._read_chain(node)
                case ast.ListComp(elt=element, generators=[ast.comprehension(target=target, iter=over, ifs=[])]):
                    return self._read_comprehension(element, target, over)
                case ast.Subscript(value=ast.Name(id=name), slice=key) if self._names.has_members(name):
                    return self._names.member(name, key)
                case ast.Attribute(value=owner) | ast.Subscript(value=owner) | ast.Starred(value=owner):
                    return self._tasks_of(owner)
                case ast.Call():
                    return self._read_call(node)
                case _:
                    return NO_TASKS

    def _read_comprehension(self, element: ast.expr, target: ast.expr, over: ast.expr) -> TaskSet:
        names, turns = self._targets(target), self._values_of(over)
        if turns is None or not names or self._turns + len(turns) > _MOST_TURNS:
            with self._maker.doubt(f"`{source_of(over)}` is known only when the file is executed"):
                return self._tasks_of(element)
        self._turns += len(turns)
        found = NO_TASKS
        for each in turns:
            bound = {names[0]: each} if len(names) == 1 else dict(zip(names, each, strict=False))
            with self._reader.bind(bound):
                found = found.join(self._tasks_of(element))
        return found

    def _read_chain(self, node: ast.BinOp) -> TaskSet:
        """`a >> b << c`, however long."""
        operands: list[tuple[ast.operator | None, ast.expr]] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.RShift | ast.LShift):
            operands.append((left.op, left.right))
            left = left.left
        found = self._read_operand(left)
        for operator, right in reversed(operands):
            if isinstance(right, ast.Call) and called_name(right) == "Label":
                continue
            other = self._read_operand(right)
            former, later = (found, other) if isinstance(operator, ast.RShift) else (other, found)
            self._order(former, later, node)
            found = other
        return found or NO_TASKS

    def _read_operand(self, node: ast.expr) -> TaskSet | None:
        """The tasks of an operand; None when it is not known whether it has any."""
        found = self._tasks_of(node)
        empty = isinstance(node, ast.List | ast.Tuple) and not node.elts
        if found.heads or empty or (isinstance(node, ast.Name) and node.id in self._names):
            return found
        return None

    def _order(self, former: TaskSet | None, later: TaskSet | None, node: ast.expr) -> None:
        if former is None and later is None and not self._owning:
            return  # of another DAG
        if former is None or later is None:
            known = later or former or NO_TASKS
            names = known.heads if former is None else ()
            self._note(node.lineno, "", f"the order that `{source_of(node)}` gives is not known")
            for name in names:
                self.tasks[name].doubt = f"what it waits for is not known: `{source_of(node)}` (line {node.lineno})"
            return
        for name in later.heads:
            self.tasks[name].after |= dict.fromkeys(former.tails)

    def _read_call(self, call: ast.Call) -> TaskSet:
        match call.func, call.args:
            case ast.Attribute(value=owner, attr="set_downstream"), [other, *_]:
                self._order(self._read_operand(owner), self._read_operand(other), call)
                return NO_TASKS
            case ast.Attribute(value=owner, attr="set_upstream"), [other, *_]:
                self._order(self._read_operand(other), self._read_operand(owner), call)
                return NO_TASKS
            case ast.Attribute(value=owner, attr="as_setup" | "as_teardown"), _:
                found = self._tasks_of(owner)
                for name in found.heads:
                    self.tasks[name].doubt = "it is a setup or a teardown, which are no tasks of their own kind here"
                return found
            case ast.Attribute(value=ast.Name(id=name), attr="append"), [other]:
                self._names.put(name, self._names.get(name).join(self._tasks_of(other)))
                return NO_TASKS
            case ((ast.Name(id="chain" | "chain_linear") | ast.Attribute(attr="chain" | "chain_linear")), items):
                self._chain(items, call, crossed=called_name(call) == "chain_linear")
                return NO_TASKS
            case ((ast.Name(id="cross_downstream") | ast.Attribute(attr="cross_downstream")), [former, later]):
                self._order(self._read_operand(former), self._read_operand(later), call)
                return NO_TASKS
            case _:
                return self._read_making(call)

    def _chain(self, items: list[ast.expr], call: ast.Call, *, crossed: bool) -> None:
        """Two lists one after the other are joined pair by pair, unless `crossed`."""
        found = [
            self._read_operand(item)
            for item in items
            if not (isinstance(item, ast.Call) and called_name(item) == "Label")
        ]
        for former, later in pairwise(found):
            pairs = [(former, later)]
            if former is not None and later is not None and former.items and later.items and not crossed:
                pairs = list(zip(former.items, later.items, strict=False))
            for each, other in pairs:
                self._order(each, other, call)

    def _read_making(self, call: ast.Call) -> TaskSet:
        making = take_apart(call)
        function = self._functions.get(making.root.id) if isinstance(making.root, ast.Name) else None
        given = [each for _, step in making.steps for each in (*step.args, *(k.value for k in step.keywords))]
        if function is not None and decorator_of(function, GROUP) is not None:
            return self._called_group(function, making, given)
        if function is None and not making.makes_operator:
            for each in (*call.args, *(keyword.value for keyword in call.keywords)):
                self._tasks_inside(each)  # such as `list(map(…))` with tasks inside
            return NO_TASKS
        if function is None and not self._owning and not self._names_dag(making):
            return NO_TASKS
        before = [tail for each in given for tail in self._tasks_inside(each).tails]
        names = self._maker.make(making, function)
        for name in names:
            self.tasks[name].after |= dict.fromkeys(before)
        return TaskSet(names, names)

    def _tasks_inside(self, node: ast.expr) -> TaskSet:
        """The tasks whose results an argument takes."""
        found = self._tasks_of(node)
        if found.heads or isinstance(node, ast.Call | ast.Name | ast.Constant):
            return found
        for each in ast.iter_child_nodes(node):
            if isinstance(each, ast.expr):
                found = found.join(self._tasks_inside(each))
        return found

    def _called_group(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef, making: MakingCall, given: Sequence[ast.expr]
    ) -> TaskSet:
        """The tasks of a function with `@task_group`, made anew by each call."""
        kept = self._names.snapshot()
        before = [tail for each in given for tail in self._tasks_inside(each).tails]
        own = making.step("")
        if own is not None:
            parameters = [each.arg for each in function.args.args]
            pairs = [*zip(parameters, own.args, strict=False), *((k.arg or "", k.value) for k in own.keywords)]
            for name, each in pairs:
                if (found := self._tasks_of(each)).heads:
                    self._names.put(name, found)
        doubt = "" if own is not None else "the group is expanded, and its elements are not carried"
        with self._maker.open_group(making, function) as names, self._maker.doubt(doubt):
            self.read(function.body)
        self._names.restore(kept)
        found = self._group(names)
        for name in found.heads:
            self.tasks[name].after |= {each: None for each in before if each not in names}
        return found

    def _names_dag(self, making: MakingCall) -> bool:
        own = making.step("", "partial")
        return own is not None and any(
            each.arg == "dag" and isinstance(each.value, ast.Name) and each.value.id == self._variable
            for each in own.keywords
        )

    def _note(self, line: int, subject: str, text: str) -> None:
        self._table.note(NoteKind.REFUSED, line, subject, text, app=self._maker.app)
