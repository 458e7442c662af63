"""Values in Python source that can be read without executing it.

Read are literals, names of module constants, durations, instants, assets, and timetables. Anything else is
`Unreadable`, with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

#: Deepest nesting of an expression.
_DEEPEST: Final = 50
_UNITS: Final = frozenset({"weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"})
_ASSETS: Final = frozenset({"Asset", "Dataset", "AssetAlias", "DatasetAlias"})


class UnreadableError(Exception):
    """An expression whose value is known only when it is executed."""

    def __init__(self, node: ast.AST, text: str = "") -> None:
        self.line = getattr(node, "lineno", 0)
        self.text = text or f"`{source_of(node)}` is known only when the file is executed"
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class AssetName:
    """An asset by its name or URI."""

    name: str


@dataclass(frozen=True, slots=True)
class AssetExpression:
    """Assets joined by `&` (`every`) or `|`."""

    every: bool
    parts: tuple[AssetName | AssetExpression, ...]


@dataclass(frozen=True, slots=True)
class Instant:
    """A `datetime` with the name of its zone; empty: none. Only the zone is read."""

    zone: str


@dataclass(frozen=True, slots=True)
class Construction:
    """A call of a class that is not read further, such as a timetable."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


class LiteralReader:
    """Reads expressions; knows the constants of the module."""

    def __init__(self, module: ast.Module) -> None:
        self._constants: dict[str, ast.expr] = {}
        for statement in module.body:
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
                if isinstance(target, ast.Name):
                    self._constants[target.id] = statement.value
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
                self._constants[statement.target.id] = statement.value

    def read(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression.

        Raises:
            UnreadableError: it can only be known by executing it.
        """
        if depth > _DEEPEST:
            raise UnreadableError(node, "is nested too deeply")
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self._constants:
                return self.read(self._constants[name], depth + 1)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.read(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values):
                return self._mapping(node, keys, values, depth)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._negative(node, operand, depth)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._joined(node, (self.read(left, depth + 1), self.read(right, depth + 1)), operator)
            case ast.JoinedStr(values=[ast.Constant(value=str() as text)]):
                return text
            case ast.Call():
                return self._call(node, depth)
            case _:
                pass
        raise UnreadableError(node)

    def _joined(self, node: ast.expr, parts: tuple[Any, Any], operator: ast.operator) -> Any:
        """Assets joined by `&` or `|`, or texts joined by `+`."""
        if isinstance(operator, ast.BitAnd | ast.BitOr):
            if all(isinstance(part, AssetName | AssetExpression) for part in parts):
                return AssetExpression(isinstance(operator, ast.BitAnd), parts)
        elif isinstance(operator, ast.Add) and all(isinstance(part, str) for part in parts):
            return parts[0] + parts[1]
        raise UnreadableError(node)

    def _mapping(
        self, node: ast.expr, keys: Sequence[ast.expr | None], values: Sequence[ast.expr], depth: int
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in zip(keys, values, strict=True):
            name = None if key is None else self.read(key, depth + 1)
            if not isinstance(name, str):
                raise UnreadableError(node)
            try:
                found[name] = self.read(value, depth + 1)
            except UnreadableError as exc:
                found[name] = exc  # raised by whatever needs this member
        return found

    def _negative(self, node: ast.expr, operand: ast.expr, depth: int) -> Any:
        value = self.read(operand, depth + 1)
        if isinstance(value, int | float):
            return -value
        raise UnreadableError(node)

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = called(node)
        named = {each.arg: self.read(each.value, depth + 1) for each in node.keywords if each.arg}
        positional = tuple(self.read(each, depth + 1) for each in node.args)
        if name in _ASSETS:
            first = named.get("name") or named.get("uri") or (positional[0] if positional else "")
            if isinstance(first, str) and first:
                return AssetName(first)
        elif name in {"timedelta", "duration"}:
            return _timedelta(node, positional, named)
        elif name in {"datetime", "datetime.datetime", "pendulum.datetime", "today", "parse", "days_ago"}:
            zone = named.get("tz") or named.get("tzinfo") or ""
            return Instant(zone if isinstance(zone, str) else "")
        elif name in {"timezone", "ZoneInfo"} and positional:
            return positional[0]
        elif name[:1].isupper():
            return Construction(name, positional, named)
        raise UnreadableError(node)


def called(node: ast.Call) -> str:
    """The last part of the name that a call calls; with the part before it for `datetime`."""
    match node.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=owner), attr="datetime"):
            return f"{owner}.datetime"
        case ast.Attribute(attr=name):
            return name
        case _:
            return ""


def source_of(node: ast.AST) -> str:
    """The beginning of an expression, as source."""
    try:
        text = ast.unparse(node)
    except (RecursionError, ValueError):
        return "…"
    return text if len(text) <= 60 else f"{text[:59]}…"


def _timedelta(node: ast.Call, positional: tuple[Any, ...], named: Mapping[str, Any]) -> timedelta:
    if named.keys() <= _UNITS and len(positional) <= 1:
        try:
            return timedelta(*positional, **named)
        except (TypeError, OverflowError, ValueError):
            pass
    raise UnreadableError(node)
