"""Values of options and arguments that need no conversion. Typer converts every value, also texts and defaults, with
pydantic, whose import takes longer than most commands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class QuickCoercion:
    """Passes on a value that has the parameter's type already; has Typer convert any other."""

    def __init__(self, annotation: Any, convert: Callable[[], Any]) -> None:
        """`convert`: returns Typer's conversion of the parameter; imports pydantic."""
        self._annotation = annotation
        self._convert = convert

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command's function."""
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        if not several and isinstance(self._annotation, type) and type(value) is self._annotation:
            return value
        if several and self._annotation == list[str] and all(type(each) is str for each in value):
            return list(value)
        return self._convert().coerce(value, param=param, ctx=ctx)


def quicken(command: Any) -> Any:
    """The same command, or group with all its commands, with quick conversion of its parameters."""
    quicken_own(command)
    for each in getattr(command, "commands", {}).values():
        quicken(each)
    return command


def quicken_own(command: Any) -> None:
    """Gives the parameters of this command, not those of a group's commands, quick conversion."""
    command.get_params = _QuickParameters(command.get_params)


class _QuickParameters:
    """Returns the parameters of a command, with quick conversion; in place of the command's method."""

    def __init__(self, parameters: Callable[[Any], list[Any]]) -> None:
        self._parameters = parameters

    def __call__(self, ctx: Any) -> list[Any]:
        found = self._parameters(ctx)
        for param in found:
            convert = getattr(param, "get_runtime_param", None)
            if convert is not None and not isinstance(convert, _QuickConversion):
                param.get_runtime_param = _QuickConversion(QuickCoercion(param.type_descriptor.annotation, convert))
        return found


class _QuickConversion:
    """Returns the conversion of a parameter; in place of Typer's method."""

    def __init__(self, coercion: QuickCoercion) -> None:
        self._coercion = coercion

    def __call__(self) -> QuickCoercion:
        return self._coercion
