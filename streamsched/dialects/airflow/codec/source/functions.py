"""What can be known of a function of Python without calling it: whether it does nothing, and what it returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from streamsched.dialects.airflow.codec.source.literal import LiteralReader, UnreadableError, is_list

Function = ast.FunctionDef | ast.AsyncFunctionDef


def does_nothing(function: Function) -> bool:
    """Whether the body is a text, `pass`, `…` or `return None`."""
    return all(_is_nothing(each) for each in function.body)


def _is_nothing(statement: ast.stmt) -> bool:
    match statement:
        case ast.Pass() | ast.Expr(value=ast.Constant()):
            return True
        case ast.Return(value=None | ast.Constant(value=None)):
            return True
        case _:
            return False


def returned_value(function: Function, reader: LiteralReader, bound: Mapping[str, Any]) -> Any:
    """What the function always returns: the value of its only statement besides a text.

    Raises:
        UnreadableError: it is known only when the function is called.
    """
    match [each for each in function.body if not _is_nothing(each)]:
        case [ast.Return(value=ast.expr() as value)]:
            with reader.bind({**dict.fromkeys(_parameters(function)), **bound}):
                return reader.read(value)
        case _:
            raise UnreadableError(function, f"what function {function.name} returns is known only when it is called")


def _parameters(function: Function) -> Iterator[str]:
    """Parameters are no constants of the module: where a value is not bound, it is None."""
    own = function.args
    yield from (each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs))


def named_choices(function: Function, reader: LiteralReader) -> tuple[tuple[str, ...], ...]:
    """The texts, and lists of texts, that `return` statements of the function name as literals."""
    found: dict[tuple[str, ...], None] = {}
    for node in _own_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            for each in _alternatives(node.value):
                try:
                    value = reader.read(each)
                except UnreadableError:
                    continue
                names = [value] if isinstance(value, str) else value
                if is_list(names) and names and all(isinstance(name, str) for name in names):
                    found[tuple(names)] = None
    return tuple(found)


def _alternatives(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _alternatives(node.body)
        yield from _alternatives(node.orelse)
    else:
        yield node


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of the body, without those of functions inside."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
