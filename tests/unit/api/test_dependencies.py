"""What FastAPI calls for each request. It calls a function that is no coroutine in a thread: two changes of the thread
for a look at an attribute, where the slowest of the threads decides how long a request takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from streamsched.api.app import make_routes


def test_no_handler_or_dependency_of_a_route_runs_in_a_thread() -> None:
    api = FastAPI(openapi_url=None)
    api.router.routes.extend(make_routes())
    dependants = [route.dependant for route in iter_route_contexts(api.routes)]
    called = {call for dependant in dependants for call in _calls(dependant)}
    assert len(called) > len(dependants)
    assert [call.__qualname__ for call in called if not _is_asynchronous(call)] == []


def _calls(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    """The function of a dependency or route, and those it depends on."""
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from _calls(each)


def _is_asynchronous(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)
