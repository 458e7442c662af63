"""How a route is declared, and what its function is called with."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from streamsched.api.access.authorise import authorise
from streamsched.api.problems import PROBLEMS
from streamsched.api.rendering import json_response
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.parameters import Header, Query
from streamsched.api.routing.routes import Body, Routes
from streamsched.api.routing.rules import PUBLIC, VIEW, Unruled
from streamsched.api.routing.table import RouteTable
from streamsched.codec.shape.named_schema import NamedSchema
from streamsched.domain.errors import ConflictError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Shade(StrEnum):
    DARK = "dark"


def of(**more: Any) -> Any:
    return Query(description="x", **more)


async def answer(**values: Any) -> Response:
    return json_response({name: value for name, value in values.items() if value is not None})


async def ask(routes: Routes, method: str, url: str, **more: Any) -> httpx.Response:
    api = Starlette(routes=[RouteTable(routes)], exception_handlers=PROBLEMS)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://x") as client:
        return await client.request(method, url, **more)


def test_a_route_without_a_permission_is_refused() -> None:
    routes = Routes("/v1", "x")
    with pytest.raises(LookupError, match="GET /v1/open does not say which permission"):
        routes.get("/open", "Open", answers="")(answer)  # type: ignore[typeddict-item]
    with pytest.raises(LookupError, match="GET /v1/open"):
        routes.get("/open", "Open", may=None, answers="")(answer)  # type: ignore[typeddict-item]
    assert list(routes) == []
    routes.get("/open", "Open", may=PUBLIC, answers="")(answer)
    routes.get("/mine", "Mine", may=VIEW, answers="")(answer)
    assert [(each.name, each.rule) for each in routes] == [("GET /v1/open", None), ("GET /v1/mine", VIEW)]


async def test_a_route_of_another_application_is_closed_behind_the_door_of_the_api() -> None:
    async def stream() -> Response:
        return json_response({})

    routes = Routes("/v1", "x")
    routes.get("/streams", "Streams", may=Unruled.DOOR, answers="")(stream)
    api = Starlette(routes=[RouteTable(routes, door=authorise)])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=api), base_url="http://x") as client:
        with pytest.raises(AssertionError, match="GET /v1/streams belongs to an application with a door of its own"):
            await client.get("/v1/streams")


def test_a_function_that_would_run_in_a_thread_is_refused() -> None:
    """Two changes of the thread for a look at an attribute, where the slowest decides how long a request takes."""

    def blocking() -> None: ...

    async def depending(value: Annotated[None, Depends(blocking)]) -> Response:
        raise AssertionError(value)

    for function in (blocking, depending):
        routes = Routes("/v1", "x")
        routes.get("/a", "A", may=VIEW, answers="")(function)
        with pytest.raises(TypeError, match=r"blocking must be a coroutine function"):
            RouteTable(routes)


def test_an_argument_of_which_nothing_is_known_is_refused() -> None:
    async def asking(name: str, other: str) -> Response:
        raise AssertionError(name, other)

    routes = Routes("/v1", "x")
    routes.get("/{name}", "A", may=VIEW, answers="")(asking)
    with pytest.raises(TypeError, match="argument 'other' is no part of the path"):
        RouteTable(routes)


def test_two_routes_of_one_method_and_path_and_one_whose_path_begins_with_a_name_are_refused() -> None:
    async def plain() -> Response:
        raise AssertionError

    routes = Routes("/v1", "x")
    for _ in range(2):
        routes.get("/a", "A", may=VIEW, answers="")(plain)
    with pytest.raises(LookupError, match="GET /v1/a is declared twice"):
        RouteTable(routes)
    routes = Routes("/{name}", "x")
    routes.get("/a", "A", may=VIEW, answers="")(plain)
    with pytest.raises(LookupError, match="begin"):
        RouteTable(routes)


@pytest.mark.parametrize(
    ("method", "path", "found"),
    [
        ("GET", "/v1/jobs/a/next", "next"),
        ("POST", "/v1/jobs/a/next", 405),
        ("DELETE", "/v1/jobs/a/next", "other"),
        ("POST", "/v1/jobs/a/b/next", "make"),
        ("POST", "/v1/jobs/next", "make"),
        ("GET", "/v1/jobs/a", 405),
    ],
)
def test_the_first_declared_path_that_matches_decides(method: str, path: str, found: str | int) -> None:
    async def plain() -> Response:
        raise AssertionError

    routes = Routes("/v1", "x")
    routes.get("/jobs/{name}/next", "next", may=VIEW, answers="")(plain)
    routes.post("/jobs/{name:path}", "make", may=VIEW, answers="")(plain)
    routes.delete("/jobs/{job}/next", "other", may=VIEW, answers="")(plain)
    match, scope = RouteTable(routes).matches({"type": "http", "method": method, "path": path})

    assert (scope["served"].route.summary if match is Match.FULL else 405) == found


@pytest.mark.parametrize(
    ("query", "read"),
    [
        ("", {"n": 5, "flag": False}),
        ("n=1&n=%20+7.0", {"n": 7, "flag": False}),
        ("n=1_000", {"n": 1000, "flag": False}),
        ("flag=On&x=.5&text=a&other-name=b", {"n": 5, "flag": True, "x": 0.5, "text": "a", "named": "b"}),
        ("colour=blue&many=red&many=dark", {"n": 5, "flag": False, "colour": "blue", "many": ["red", "dark"]}),
        ("at=2026-03-01T01:00:00%2B01:00", {"n": 5, "flag": False, "at": "2026-03-01T00:00:00Z"}),
        ("n=x", "n: Input should be a valid integer, unable to parse string as an integer"),
        ("n=", "n: Input should be a valid integer, unable to parse string as an integer"),
        ("n=1.5", "n: Input should be a valid integer, unable to parse string as an integer"),
        ("n=%EF%BC%95", "n: Input should be a valid integer, unable to parse string as an integer"),
        ("n=" + "9" * 5000, "n: Unable to parse input string as an integer, exceeded maximum size"),
        ("n=0", "n: Input should be greater than or equal to 1"),
        ("n=1001", "n: Input should be less than or equal to 1000"),
        ("x=nan", "x: Input should be less than or equal to 1"),
        ("x=0x1", "x: Input should be a valid number, unable to parse string as a number"),
        ("x=%EF%BC%95", "x: Input should be a valid number, unable to parse string as a number"),
        ("flag=2", "flag: Input should be a valid boolean, unable to interpret input"),
        ("text=abcd", "text: String should have at most 3 characters"),
        ("colour=green", "colour: Input should be 'red' or 'blue'"),
        ("many=red&many=x", "many.1: Input should be 'red', 'blue', 'dark' or 'plain'"),
        ("at=2026-03-01T00:00:00", "at: must name its offset from UTC, as in 2026-03-01T00:00:00Z"),
        ("at=x", "at: must be an ISO 8601 instant but is 'x'"),
    ],
)
async def test_parameters_are_read_by_their_annotations(query: str, read: Any) -> None:
    routes = Routes("/v1", "x")

    @routes.get("/a", "A", may=VIEW, answers="")
    async def a(
        *,
        n: Annotated[int, of(ge=1, le=1000)] = 5,
        x: Annotated[float | None, of(ge=0, le=1)] = None,
        flag: Annotated[bool, of()] = False,
        text: Annotated[str | None, of(max_length=3)] = None,
        named: Annotated[str | None, of(alias="other-name")] = None,
        colour: Annotated[Colour | None, of()] = None,
        many: Annotated[list[Colour | Shade | Literal["plain"]] | None, of()] = None,
        at: Annotated[datetime | None, of()] = None,
    ) -> Response:
        assert at is None or at.tzinfo is UTC
        return await answer(n=n, x=x, flag=flag, text=text, named=named, colour=colour, many=many, at=at)

    found = await ask(routes, "GET", f"/v1/a?{query}")
    if isinstance(read, str):
        path, _, reason = read.partition(": ")
        expected = {"detail": read, "path": path, "reason": reason, "retriable": False, "status": 400}
        assert found.json().items() >= expected.items()
    else:
        assert found.json() == read


async def test_functions_are_called_once_in_order_and_before_parameters_of_the_route_are_refused() -> None:
    routes, calls = Routes("/v1/things", "x"), list[str]()

    async def first(request: Request, name: str) -> str:
        calls.append(f"first {request.method} {name}")
        if name == "wrong":
            raise ConflictError("first")
        return name

    async def second(one: Annotated[str, Depends(first)], n: Annotated[int, of()] = 1) -> str:
        calls.append("second")
        return f"{one}{n}"

    async def held(one: Annotated[str, Depends(first)]) -> AsyncIterator[str]:
        calls.append("held")
        try:
            yield one
        finally:
            calls.append("left")

    @routes.get("/{name}", "A", may=VIEW, answers="")
    async def a(
        one: Annotated[str, Depends(first)],
        two: Annotated[str, Depends(second)],
        three: Annotated[str, Depends(held)],
        head: Annotated[str, Header(alias="X-Head", description="x")],
        must: Annotated[int, of()],
    ) -> Response:
        calls.append("route")
        return await answer(one=one, two=two, three=three, head=head, must=must)

    found = await ask(routes, "GET", "/v1/things/q?must=3", headers={"x-head": "h"})
    assert found.json() == {"one": "q", "two": "q1", "three": "q", "head": "h", "must": 3}
    assert calls == ["first GET q", "second", "held", "route", "left"]
    for url, detail in (
        ("/v1/things/q", "must: Field required"),
        ("/v1/things/q?must=1", "X-Head: Field required"),
        ("/v1/things/q?n=x", "n: Input should be a valid integer, unable to parse string as an integer"),
        ("/v1/things/wrong?n=x&must=x", "first"),
    ):
        assert (await ask(routes, "GET", url)).json()["detail"] == detail


async def test_the_path_decides_and_other_methods_are_named() -> None:
    routes = Routes("/v1/things", "x")

    async def one(name: str) -> Response:
        return await answer(name=name)

    for method, path in (("get", "/{name}/more"), ("put", "/{name}/more"), ("get", "/{name:path}")):
        getattr(routes, method)(path, "A", may=VIEW, answers="")(one)
    assert (await ask(routes, "GET", "/v1/things/a/more")).json() == {"name": "a"}
    assert (await ask(routes, "GET", "/v1/things/a/b/c")).json() == {"name": "a/b/c"}
    assert (await ask(routes, "GET", "/v1/other")).status_code == 404
    for method, path, allowed in (("POST", "a/more", "GET, PUT"), ("HEAD", "a", "GET"), ("DELETE", "a", "GET")):
        found = await ask(routes, method, f"/v1/things/{path}")
        assert (found.status_code, found.headers["allow"]) == (405, allowed)


def test_a_route_may_write_its_shapes_where_it_stands() -> None:
    routes, nap = Routes("/v1", "x"), NamedSchema("Nap", {"type": "object"})
    routes.get("/nap", "Nap", may=VIEW, answers=nap)(answer)
    routes.put("/nap", "Nap", may=VIEW, body=nap, answers={202: "Other"})(answer)
    routes.order("/nap", "Nap", may=VIEW, answers={204: ""})(answer)
    assert [list(each.shapes) for each in routes] == [[nap], [nap], []]
    assert [each.body for each in routes] == [None, Body(nap), Body("Reason", required=False)]
