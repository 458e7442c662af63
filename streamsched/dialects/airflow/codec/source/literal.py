"""Values in Python source that can be read without executing it.

Read are literals, names of constants and of variables of loops, f-texts of them, durations, instants, assets, and
timetables. Anything else is `Unreadable`, with its line.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeGuard

#: Deepest nesting of an expression, most expressions that one value may need, and most characters of a text.
_DEEPEST: Final = 50
_MOST: Final = 50_000
_LONGEST: Final = 200_000
_LARGEST: Final = 10**18
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
    """A `datetime` with the name of its zone; empty: none. `at`: on its wall clock; None when it is not read."""

    zone: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Construction:
    """A call of a class that is not read further, such as a timetable."""

    name: str
    positional: tuple[Any, ...]
    named: Mapping[str, Any]


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a value that was read is a list."""
    return isinstance(value, list)


def is_dictionary(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value that was read is a dictionary; all have texts as keys."""
    return isinstance(value, dict)


class LiteralReader:
    """Reads expressions; knows the constants of the module, those that `learn` was given, and what is bound."""

    def __init__(self, module: ast.Module) -> None:
        self._constants: dict[str, ast.expr] = {}
        self._bound: dict[str, Any] = {}
        self._read = 0
        for statement in module.body:
            self.learn(statement)

    def learn(self, statement: ast.stmt) -> None:
        """Takes the constant that a statement defines, if it defines one."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._constants[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self._constants[name] = value
            case _:
                pass

    @property
    def bindings(self) -> Mapping[str, Any]:
        """The values that names are bound to."""
        return self._bound

    @contextmanager
    def bind(self, values: Mapping[str, Any]) -> Generator[None]:
        """Within this context these names have these values."""
        before = self._bound
        self._bound = {**before, **values}
        try:
            yield
        finally:
            self._bound = before

    def literal(self, node: ast.expr) -> ast.expr:
        """The expression that a name of a constant stands for, else the expression."""
        for _ in range(_DEEPEST):
            if not isinstance(node, ast.Name) or node.id in self._bound or node.id not in self._constants:
                break
            node = self._constants[node.id]
        return node

    def read(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression.

        Raises:
            UnreadableError: it can only be known by executing it.
        """
        self._read = self._read + 1 if depth else 0
        if depth > _DEEPEST or self._read > _MOST:
            raise UnreadableError(node, "is too large or nested too deeply to be read")
        match node:
            case ast.Name(id=name) if name in self._bound:
                return self._bound[name]
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self._constants:
                return self.read(self._constants[name], depth + 1)
            case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
                return [self.read(item, depth + 1) for item in items]
            case ast.Dict(keys=keys, values=values):
                return self._mapping(node, keys, values, depth)
            case ast.UnaryOp() | ast.BinOp():
                return self._operation(node, depth)
            case ast.JoinedStr(values=parts):
                return self._text(node, [self._format_part(part, depth) for part in parts])
            case ast.Subscript(value=owner, slice=index):
                return self._element(node, self.read(owner, depth + 1), self.read(index, depth + 1))
            case ast.Call():
                return self._call(node, depth)
            case _:
                pass
        raise UnreadableError(node)

    def _operation(self, node: ast.UnaryOp | ast.BinOp, depth: int) -> Any:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._negative(node, operand, depth)
            case ast.BinOp(left=left, op=operator, right=right):
                return self._join(node, (self.read(left, depth + 1), self.read(right, depth + 1)), operator)
            case _:
                raise UnreadableError(node)

    def _join(self, node: ast.expr, parts: tuple[Any, Any], operator: ast.operator) -> Any:
        """Assets joined by `&` or `|`, or texts joined by `+`."""
        if isinstance(operator, ast.BitAnd | ast.BitOr):
            if all(isinstance(part, AssetName | AssetExpression) for part in parts):
                return AssetExpression(isinstance(operator, ast.BitAnd), parts)
        elif isinstance(operator, ast.Add):
            if all(isinstance(part, str) for part in parts):
                return self._text(node, list(parts))
            if all(isinstance(part, list) for part in parts) and len(parts[0]) + len(parts[1]) <= _MOST:
                return parts[0] + parts[1]
        raise UnreadableError(node)

    def _text(self, node: ast.expr, parts: list[str]) -> str:
        if sum(len(part) for part in parts) > _LONGEST:
            raise UnreadableError(node, "is too long a text")
        return "".join(parts)

    def _format_part(self, part: ast.expr, depth: int) -> str:
        """A part of an f-text."""
        match part:
            case ast.Constant(value=str() as text):
                return text
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                found = self.read(value, depth + 1)
                if isinstance(found, str | int) and (isinstance(found, str) or abs(found) < _LARGEST):
                    return str(found)
            case _:
                pass
        raise UnreadableError(part)

    def _element(self, node: ast.expr, owner: Any, index: Any) -> Any:
        if is_dictionary(owner) and isinstance(index, str) and index in owner:
            found = owner[index]
            if isinstance(found, UnreadableError):
                raise found
            return found
        if is_list(owner) and isinstance(index, int) and -len(owner) <= index < len(owner):
            return owner[index]
        raise UnreadableError(node)

    def _range(self, node: ast.expr, bounds: list[Any]) -> list[int]:
        if len(bounds) <= 3 and all(isinstance(each, int) and abs(each) < _LARGEST for each in bounds):
            with suppress(ValueError):
                found = range(*bounds)
                if len(found) <= _MOST:
                    return list(found)
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
        name = called_name(node)
        if name == "range" and node.args and not node.keywords:
            return self._range(node, [self.read(each, depth + 1) for each in node.args])
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
            return Instant(zone if isinstance(zone, str) else "", _instant(name, positional, named))
        elif name in {"timezone", "ZoneInfo"} and positional:
            return positional[0]
        elif name[:1].isupper():
            return Construction(name, positional, named)
        raise UnreadableError(node)


def called_name(node: ast.Call) -> str:
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


def _instant(name: str, positional: tuple[Any, ...], named: Mapping[str, Any]) -> datetime | None:
    parts = {key: each for key, each in named.items() if key not in ("tz", "tzinfo")}
    try:
        if name == "parse" and len(positional) == 1 and isinstance(positional[0], str):
            return datetime.fromisoformat(positional[0]).replace(tzinfo=None)
        return datetime(*positional, **parts) if name.endswith("datetime") else None  # noqa: DTZ001 - a wall clock
    except (TypeError, ValueError, OverflowError):
        return None


def _timedelta(node: ast.Call, positional: tuple[Any, ...], named: Mapping[str, Any]) -> timedelta:
    if named.keys() <= _UNITS and len(positional) <= 1:
        try:
            return timedelta(*positional, **named)
        except (TypeError, OverflowError, ValueError):
            pass
    raise UnreadableError(node)
