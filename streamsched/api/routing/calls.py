"""What the function of a route is called with: parts of the path, parameters, and what other functions make of the
request.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from starlette.requests import Request
from starlette.responses import Response

from streamsched.api.routing.parameters import Header, Parameter, ParameterError, Query


@dataclass(frozen=True, slots=True)
class Depends:
    """As the annotation of an argument: what a function makes of the request. It is a coroutine function, which is
    called once in a request; or an asynchronous generator, which goes on when the route has made its answer. It has
    arguments as a route.
    """

    function: Callable[..., Any]


@dataclass(slots=True)
class _Step:
    """A function with its arguments: for each the number of an earlier step, the name of a part of the path, a
    parameter, or None: the request.
    """

    function: Callable[..., Any]
    arguments: Sequence[tuple[str, int | str | Parameter | None]]
    entered: bool


#: The result of a function that was not called, because one of its parameters could not be read.
_NOTHING: Final = object()


class Call:
    """Calls the function of a route.

    Attributes:
        functions: that are called before it, each after those on which it depends.
        parameters: of it and of those, its own first, headers last.
    """

    def __init__(self, function: Callable[..., Any], path_names: frozenset[str]) -> None:
        """`path_names`: the parts of the path that have names.

        Raises:
            TypeError: an argument is neither in the path nor annotated, or a function would block the event loop.
        """
        self._path_names = path_names
        self._steps: list[_Step] = []
        self._numbers: dict[Callable[..., Any], int] = {}
        found: dict[tuple[str, str], Parameter] = {}
        self._add(function, found)
        self.functions: Final = frozenset(self._numbers)
        self.parameters: Final = sorted(found.values(), key=_in_header)

    def _add(self, function: Callable[..., Any], found: dict[tuple[str, str], Parameter]) -> int:
        """The number of the step that calls the function."""
        if function in self._numbers:
            return self._numbers[function]
        entered = inspect.isasyncgenfunction(function)
        if not entered and not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} must be a coroutine function: others would run in a thread")
        hints = get_type_hints(function, include_extras=True)
        own: list[tuple[str, int | str | Parameter | None]] = []
        needed: list[tuple[str, Callable[..., Any]]] = []
        for name, argument in inspect.signature(function).parameters.items():
            source = self._source(name, hints[name], ... if argument.default is argument.empty else argument.default)
            if isinstance(source, Depends):
                needed.append((name, source.function))
                continue
            own.append((name, source))
            if isinstance(source, Parameter):
                found.setdefault((source.place, source.name), source)
        steps = [(name, self._add(other, found)) for name, other in needed]
        own.sort(key=lambda each: isinstance(each[1], Parameter) and _in_header(each[1]))
        called = asynccontextmanager(function) if entered else function
        self._steps.append(_Step(called, [*steps, *own], entered))
        self._numbers[function] = len(self._steps) - 1
        return self._numbers[function]

    def _source(self, name: str, hint: Any, default: object) -> Depends | str | Parameter | None:
        if hint is Request:
            return None
        annotation, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        for mark in marks:
            if isinstance(mark, Depends):
                return mark
            if isinstance(mark, Query | Header):
                return Parameter(name, annotation, mark, default)
        if annotation is not str or name not in self._path_names:
            raise TypeError(f"argument '{name}' is no part of the path, and has no annotation that says what it is")
        return name

    async def __call__(self, request: Request) -> Response:
        """Calls the functions in their order, and then the route.

        Raises:
            ParameterError: the first that cannot be read, when nothing else is wrong.
            StreamschedError, HTTPException: of the functions.
        """
        results: list[Any] = []
        wrong: ParameterError | None = None
        async with AsyncExitStack() as stack:
            for step in self._steps:
                given: Mapping[str, Any] | None = None
                try:
                    given = _arguments(step, request, results)
                except ParameterError as exc:
                    wrong = wrong or exc
                if given is None:
                    results.append(_NOTHING)
                elif step.entered:
                    results.append(await stack.enter_async_context(step.function(**given)))
                else:
                    results.append(await step.function(**given))
        if wrong is not None:
            raise wrong
        return results[-1]


def _in_header(parameter: Parameter) -> bool:
    return parameter.place == "header"


def _arguments(step: _Step, request: Request, results: Sequence[Any]) -> Mapping[str, Any] | None:
    """The arguments of a step; None when one of them was not made.

    Raises:
        ParameterError: a parameter cannot be read.
    """
    given: dict[str, Any] = {}
    for name, source in step.arguments:
        match source:
            case int():
                given[name] = results[source]
            case str():
                given[name] = request.path_params[source]
            case None:
                given[name] = request
            case Parameter():
                given[name] = source.value(request)
    return None if any(value is _NOTHING for value in given.values()) else given
