"""Templates of Airflow's operators as templates here: each known expression becomes an argument of the run.

>>> times = LogicalTimes(start=MomentOfRun(), end=MomentOfRun())
>>> found = Templates(times).read("load {{ ds }} {{ macros.ds_add(ds, -1) }}")
>>> found.text, {name: (each.format, each.back.days) for name, each in found.times.items()}
('load {ds} {time_1}', {'ds': ('%Y-%m-%d', 0), 'time_1': ('%Y-%m-%d', 1)})
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.graph.time_argument import NearTick, TimeArgument

#: The component of the job id that is the time at which a run is due.
DUE: Final = "due"
_TOKEN: Final = re.compile(r"\{\{(.*?)\}\}|\{%.*?%\}|\{#(.*?)#\}", re.DOTALL)
_OPEN: Final = re.compile(r"\{\{|\{%|\{#")
_DAY: Final = "%Y-%m-%d"
_FORMATS: Final = {
    "ds": _DAY,
    "ds_nodash": "%Y%m%d",
    "ts": "%Y-%m-%dT%H:%M:%S+00:00",
    "ts_nodash": "%Y%m%dT%H%M%S",
    "ts_nodash_with_tz": "%Y%m%dT%H%M%S+0000",
}
#: `str` of a time, as pendulum 3 has it.
_PLAIN: Final = "%Y-%m-%d %H:%M:%S+00:00"
_METHODS: Final = {"to_date_string": _DAY, "to_datetime_string": "%Y-%m-%d %H:%M:%S", "to_time_string": "%H:%M:%S"}
_METHODS_OF: Final = {**_METHODS, "isoformat": _FORMATS["ts"], "to_iso8601_string": "%Y-%m-%dT%H:%M:%SZ"}
_ARGUMENT: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_DEEPEST: Final = 20
_MOST: Final = 100


class TemplateError(Exception):
    """A template that is not understood; `template` is its text."""

    def __init__(self, template: str) -> None:
        self.template = template if len(template) <= 60 else f"{template[:59]}…"
        super().__init__(self.template)


@dataclass(frozen=True, slots=True)
class MomentOfRun:
    """A time that follows from the time at which a run is due. `moved`: on the wall clock of UTC."""

    tick: NearTick | None = None
    moved: timedelta = timedelta(0)

    def time_argument(self, form: str) -> TimeArgument:
        """The argument that has this moment in a format of `strftime`.

        Raises:
            InvalidDefinitionError: the format has unknown parts.
        """
        back, ahead = max(-self.moved, timedelta(0)), max(self.moved, timedelta(0))
        return TimeArgument(DUE, form, "UTC", self.tick, back, ahead)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A time as text."""

    moment: MomentOfRun
    form: str


@dataclass(frozen=True, slots=True)
class LogicalTimes:
    """Begin and end of the interval of a run; the begin is its logical date. None: it has no such time here."""

    start: MomentOfRun | None
    end: MomentOfRun | None


@dataclass(slots=True)
class Filled:
    """A text with `{name}` for each template, and the arguments that it needs.

    Attributes:
        times: by argument.
        params: names of parameters, by argument.
        variables: names of Airflow's variables, by argument.
        templated: whether there was a template; braces are doubled then, where the text has such.
    """

    text: str = ""
    times: dict[str, TimeArgument] = field(default_factory=dict[str, TimeArgument])
    params: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    templated: bool = False


def usual_arguments(times: LogicalTimes) -> dict[str, TimeArgument]:
    """The arguments that programs most often need, by the names of Airflow's templates."""
    found: dict[str, TimeArgument] = {}
    if times.start is not None and times.end is not None:
        found = {name: times.start.time_argument(_FORMATS[name]) for name in ("ds", "ds_nodash", "ts")}
        found |= {
            "data_interval_start": times.start.time_argument(_PLAIN),
            "data_interval_end": times.end.time_argument(_PLAIN),
        }
    return found


class Templates:
    """Reads the templates of one task."""

    def __init__(self, times: LogicalTimes, known: Mapping[str, str] | None = None) -> None:
        """`known`: texts by expression, such as that of `dag.dag_id`."""
        self._times = times
        self._known = dict(known or {})
        self.arguments: dict[str, TimeArgument] = {}

    def read(self, text: str, *, doubled: bool = True) -> Filled:
        """The text with placeholders. `doubled`: braces that are text are written twice, in a text with templates.

        Raises:
            TemplateError: a template is not understood.
        """
        filled = Filled(templated=_OPEN.search(text) is not None)
        if not filled.templated:
            filled.text = text
            return filled
        at, parts = 0, list[str]()
        for found in _TOKEN.finditer(text):
            parts.append(self._plain_text(text[at : found.start()], doubled=doubled))
            at = found.end()
            if found[1] is not None:
                parts.append(self._write_expression(found[0], found[1], filled, doubled=doubled))
            elif found[2] is None:
                raise TemplateError(found[0])
        parts.append(self._plain_text(text[at:], doubled=doubled))
        filled.text = "".join(parts)
        return filled

    @staticmethod
    def _plain_text(text: str, *, doubled: bool) -> str:
        if found := _OPEN.search(text):
            raise TemplateError(text[found.start() :])
        return text.replace("{", "{{").replace("}", "}}") if doubled else text

    def _write_expression(self, template: str, inner: str, filled: Filled, *, doubled: bool) -> str:
        try:
            tree = ast.parse(inner.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise TemplateError(template) from None
        match self._value(tree, template, 0):
            case str() as text:
                return self._plain_text(text, doubled=doubled)
            case ("params", str() as name):
                filled.params[f"params.{name}"] = name
                return f"{{params.{name}}}"
            case ("var", str() as name):
                filled.variables[f"var.{name}"] = name
                return f"{{var.{name}}}"
            case _Shown(moment=moment, form=form):
                return f"{{{self._name_argument(tree, template, moment, form, filled)}}}"
            case MomentOfRun() as moment:
                return f"{{{self._name_argument(tree, template, moment, _PLAIN, filled)}}}"
            case _:
                raise TemplateError(template)

    def _name_argument(self, tree: ast.expr, template: str, moment: MomentOfRun, form: str, filled: Filled) -> str:
        try:
            argument = moment.time_argument(form)
        except InvalidDefinitionError:
            raise TemplateError(template) from None
        name = next((known for known, each in self.arguments.items() if each == argument), None)
        if name is None:
            plain = tree.id if isinstance(tree, ast.Name) and _ARGUMENT.fullmatch(tree.id) else ""
            number = 1 + sum(each.startswith("time_") for each in self.arguments)
            name = plain if plain and plain not in self.arguments else f"time_{number}"
            if len(self.arguments) >= _MOST:
                raise TemplateError(template)
            self.arguments[name] = argument
        filled.times[name] = argument
        return name

    def _value(self, node: ast.expr, template: str, depth: int) -> Any:
        """A text, a time, a time as text, or the name of a parameter or variable."""
        if depth > _DEEPEST:
            raise TemplateError(template)
        known = self._known.get(ast.unparse(node)) if isinstance(node, ast.Attribute) else None
        if known is not None:
            return known
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name):
                return self._name(name, template)
            case (
                ast.Attribute(value=ast.Name(id="params"), attr=name)
                | ast.Subscript(value=ast.Name(id="params"), slice=ast.Constant(value=str() as name))
            ) if _ARGUMENT.fullmatch(name):
                return "params", name
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="var"), attr="value"), attr=name) if (
                _ARGUMENT.fullmatch(name)
            ):
                return "var", name
            case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Name(id=form)) if form in _FORMATS:
                return _Shown(self._moment(left, template, depth), _FORMATS[form])
            case ast.BinOp(left=left, op=(ast.Add() | ast.Sub()) as operator, right=right):
                step = self._duration(right, template)
                moment = self._moment(left, template, depth)
                return _move(moment, step if isinstance(operator, ast.Add) else -step, template)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="macros"), attr=name), args=given, keywords=[]):
                return self._macro(name, given, template, depth)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)):
                return self._method(owner, name, node, template, depth)
            case _:
                raise TemplateError(template)

    def _name(self, name: str, template: str) -> Any:
        start, end = self._times.start, self._times.end
        day = timedelta(days=1)
        base, form, moved = {
            **{each: (start, form, timedelta(0)) for each, form in _FORMATS.items()},
            **dict.fromkeys(("logical_date", "execution_date", "data_interval_start"), (start, "", timedelta(0))),
            "data_interval_end": (end, "", timedelta(0)),
            "yesterday_ds": (start, _DAY, -day),
            "yesterday_ds_nodash": (start, "%Y%m%d", -day),
            "tomorrow_ds": (start, _DAY, day),
            "tomorrow_ds_nodash": (start, "%Y%m%d", day),
        }.get(name, (None, "", timedelta(0)))
        if base is None:
            raise TemplateError(template)
        moment = _move(base, moved, template)
        return _Shown(moment, form) if form else moment

    def _moment(self, node: ast.expr, template: str, depth: int) -> MomentOfRun:
        found = self._value(node, template, depth + 1)
        if not isinstance(found, MomentOfRun):
            raise TemplateError(template)
        return found

    def _macro(self, name: str, given: list[ast.expr], template: str, depth: int) -> _Shown:
        """`macros.ds_add(ds, -1)` and `macros.ds_format(ds, "%Y-%m-%d", "%Y")` of a day."""
        of = self._value(given[0], template, depth + 1) if given else None
        if not isinstance(of, _Shown) or of.form != _DAY:
            raise TemplateError(template)
        match name, [_constant(each) for each in given[1:]]:
            case "ds_add", [int() as days]:
                return _Shown(_move(of.moment, _days(days, template), template), _DAY)
            case "ds_format", [str() as read, str() as form] if read == _DAY and not re.search(r"%[HMS]", form):
                return replace(of, form=form)
            case _:
                raise TemplateError(template)

    def _method(self, owner: ast.expr, name: str, call: ast.Call, template: str, depth: int) -> Any:
        moment = self._moment(owner, template, depth)
        if name in _METHODS_OF and not call.args and not call.keywords:
            return _Shown(moment, _METHODS_OF[name])
        if name == "strftime" and len(call.args) == 1 and isinstance(form := _constant(call.args[0]), str):
            return _Shown(moment, form)
        if name in ("add", "subtract") and not call.args:
            step = self._duration(call, template)
            return _move(moment, step if name == "add" else -step, template)
        raise TemplateError(template)

    @staticmethod
    def _duration(node: ast.expr, template: str) -> timedelta:
        """`macros.timedelta(days=1)`, or the keywords of another call."""
        units = {"weeks", "days", "hours", "minutes", "seconds"}
        match node:
            case ast.Call(args=[], keywords=given) if given and all(each.arg in units for each in given):
                values = {each.arg or "": _constant(each.value) for each in given}
            case ast.Call(func=ast.Attribute(attr="timedelta"), args=[days], keywords=[]):
                values = {"days": _constant(days)}
            case _:
                raise TemplateError(template)
        if not all(isinstance(each, int) and abs(each) < 10**6 for each in values.values()):
            raise TemplateError(template)
        return timedelta(**values)


def _constant(node: ast.expr) -> Any:
    """A number or a text; None for anything else."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
            return -value
        case ast.Constant(value=int() | str() as value):
            return value
        case _:
            return None


def _days(days: int, template: str) -> timedelta:
    if abs(days) >= 10**5:
        raise TemplateError(template)
    return timedelta(days=days)


def _move(moment: MomentOfRun, step: timedelta, template: str) -> MomentOfRun:
    try:
        return replace(moment, moved=moment.moved + step)
    except OverflowError:
        raise TemplateError(template) from None
