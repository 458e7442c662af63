"""The routes that an application serves, found by method and path."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, compile_path, request_response
from starlette.routing import Route as StarletteRoute
from starlette.types import Receive, Scope, Send

from streamsched.api.routing.calls import Call
from streamsched.api.routing.routes import Route

_NAME: Final = re.compile(r"\{\w+")
#: Who may come in: called first, before the body is read.
Door = Callable[[Request], Awaitable[None]]


class ServedRoute:
    """A route with what is made of it once.

    Attributes:
        filters: names of its query parameters.
        shape: its path without the names of what varies.
    """

    def __init__(self, route: Route, door: Door | None) -> None:
        self.route: Final = route
        self.shape: Final = _NAME.sub("{", route.path)
        self.pattern, _, converters = compile_path(route.path)
        self.call: Final = Call(route.function, frozenset(converters))
        self.filters: Final = frozenset(each.name for each in self.call.parameters if each.place == "query")
        self._door = door
        self.app: Final = request_response(self._answer)

    async def _answer(self, request: Request) -> Response:
        if self._door is not None:
            await self._door(request)
        return await self.call(request)


class RouteTable(BaseRoute):
    """Finds the route of a request by the first two parts of its path, then in the order of declaration. In the scope
    of the request `served` is the route, and `route_name` its name.

    Attributes:
        served: all routes.
        dialects: of them, those of other products.

    Raises:
        LookupError: two routes have the same method and path, or one begins with a name.
        TypeError: a function cannot be called as a route (`Call`).
    """

    def __init__(self, routes: Iterable[Route], *, door: Door | None = None) -> None:
        self.served: Final[Sequence[ServedRoute]] = [ServedRoute(route, door) for route in routes]
        self.dialects: Final = {each.route.dialect for each in self.served if each.route.dialect}
        self._by_start: defaultdict[str, list[ServedRoute]] = defaultdict(list)
        self._methods: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.served:
            if "{" in _start(each.route.path):
                raise LookupError(f"{each.route.path} must begin with two words, by which routes are found")
            self._by_start[_start(each.route.path)].append(each)
            methods = self._methods[each.route.pattern]
            if each.route.method in methods:
                raise LookupError(f"{each.route.method} {each.route.pattern} is declared twice")
            methods.append(each.route.method)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The route of the method among those of the first declared path that matches; PARTIAL when it has none, so
        what is declared as `…/{name}/next` is never read as a name of `…/{name:path}`. Paths are looked up by their
        first two words.
        """
        if scope["type"] != "http":
            return Match.NONE, {}
        first: ServedRoute | None = None
        for each in self._by_start.get(_start(scope["path"]), ()):
            if (first is None or each.shape == first.shape) and (found := each.pattern.match(scope["path"])):
                if each.route.method == scope["method"]:
                    return Match.FULL, {**_scope_of(each), "path_params": found.groupdict()}
                first = first or each
        return (Match.NONE, {}) if first is None else (Match.PARTIAL, _scope_of(first))

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises:
        HTTPException: 405, the path has no route of this method.
        """
        served: ServedRoute = scope["served"]
        if served.route.method != scope["method"]:
            raise HTTPException(405, headers={"Allow": ", ".join(sorted(self._methods[served.route.pattern]))})
        await served.app(scope, receive, send)


class NamedRoute(StarletteRoute):
    """A route of Starlette's that the measures of requests know by its name."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As Starlette's, and adds `route_name` to the scope."""
        match, child = super().matches(scope)
        return match, {**child, "route_name": self.name} if child else child


def _scope_of(served: ServedRoute) -> dict[str, Any]:
    return {"served": served, "route_name": served.route.name}


def _start(path: str) -> str:
    return "/".join(path.split("/", 3)[1:3])
