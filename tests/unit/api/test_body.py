"""What a request body may hold, and how long it may take to arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from streamsched.api import body as bodies
from streamsched.api.bounds.body_room import BodyRoom
from streamsched.api.bounds.request_limits import MOST_IN_A_BODY, ORDINARY, RequestLimit
from streamsched.codec.json.size import values_in
from tests.support.api_routes import api_routes

Receive = Callable[[], Awaitable[dict[str, Any]]]
read_body = asynccontextmanager(bodies.read_body)


def request(body: bytes | Receive, room: BodyRoom, client: str = "10.0.0.1") -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    state = SimpleNamespace(body_room=room)
    scope = {"type": "http", "headers": [], "app": SimpleNamespace(state=state), "client": (client, 1)}
    return Request(scope, receive if isinstance(body, bytes) else body)


def room() -> BodyRoom:
    return BodyRoom(1 << 24)


@pytest.mark.parametrize(
    ("most", "more"),
    [
        pytest.param(b"[" + b"1," * 19_997 + b"1]", b"[" + b"1," * 19_999 + b"1]", id="numbers"),
        pytest.param(b"[" + b"[]," * 9_998 + b"[]]", b"[" + b"[]," * 10_000 + b"[]]", id="lists"),
        pytest.param(b"[" + b"{}," * 9_998 + b"{}]", b"[" + b"{}," * 10_000 + b"{}]", id="objects"),
        pytest.param(b'["' + b"," * 100_000 + b'"]', b'["\\\\",' + b'"",' * 20_000 + b'""]', id="texts"),
        pytest.param(b'["\\",[{' + b'\\",' * 50_000 + b'"]', b'{"a":' * 20_001, id="escapes"),
    ],
)
async def test_a_body_of_too_many_values_is_refused_before_it_is_decoded(most: bytes, more: bytes) -> None:
    async with read_body(request(most, room())) as read:
        assert read == most

    with pytest.raises(HTTPException) as refused:
        async with read_body(request(more, room())):
            pytest.fail("it was read")

    assert refused.value.status_code == 413
    assert refused.value.detail == "the body has more than 20,000 JSON values; send fewer in each request"


def test_no_route_reads_more_values_than_are_decoded_at_a_time() -> None:
    assert max(each.route.limit.values for each in api_routes().served) == MOST_IN_A_BODY
    assert RequestLimit() == ORDINARY


def test_a_text_of_brackets_and_commas_is_one_value() -> None:
    assert values_in(b'["' + b"[{," * 100_000 + b'"]', most=10) == 2


async def test_a_body_that_does_not_go_on_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_WINDOW_S", 0.05)

    async def half_sent() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(HTTPException) as refused:
        async with read_body(request(half_sent, room())):
            pytest.fail("it was read")
    assert refused.value.status_code == 408


async def test_a_body_of_single_bytes_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_WINDOW_S", 0.2)

    async def drops() -> dict[str, Any]:
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b" ", "more_body": True}

    with pytest.raises(HTTPException) as refused:
        async with read_body(request(drops, room())):
            pytest.fail("it was read")
    assert refused.value.status_code == 408


async def test_one_client_leaves_room_for_another() -> None:
    shared = room()
    body = b" " * (1 << 24)
    with shared.place("10.0.0.1") as place:
        place.grow(3 << 23)
        with pytest.raises(HTTPException) as refused:
            async with read_body(request(body, shared)):
                pytest.fail("it was read")
        assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "2"})
        async with read_body(request(body[: 12 << 20], shared, client="10.0.0.2")):
            pass
    async with read_body(request(body, shared)):
        pass


async def test_large_bodies_are_decoded_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = room()
    order: list[str] = []

    async def second() -> None:
        async with shared.hold_values(400_000):
            order.append("second")

    async with shared.hold_values(400_000):
        waiting = asyncio.create_task(second())
        async with shared.hold_values(20_000):
            order.append("small")
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["small", "first", "second"]
