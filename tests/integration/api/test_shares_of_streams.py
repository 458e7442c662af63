"""Streams of a real API: none takes the places of others, and none outlives its token."""

from __future__ import annotations

import asyncio
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.served_api import ServedApi, served_api


@pytest.fixture
def api(database: str) -> Iterator[ServedApi]:
    with served_api(database, pages=True) as served:
        yield served


def token(api: ServedApi, name: str, namespace: str) -> str:
    with api.client() as admin:
        grants = [{"role": "viewer", "namespace": namespace}]
        return admin.post("/v1/tokens", json={"name": name, "grants": grants}).json()["text"]


def cookie(api: ServedApi, text: str) -> str:
    entered = httpx.post(f"{api.url}/ui/login", data={"token": text}, headers={"Origin": api.url})
    found = re.search(r"streamsched_\w+=[^;]+", entered.headers["set-cookie"])
    assert found is not None
    return found[0]


def statuses(api: ServedApi, path: str, header: str, number: int, stack: ExitStack) -> Counter[int]:
    """Opens so many streams, which stay open; the statuses of the answers."""
    found: Counter[int] = Counter()
    at = urlsplit(api.url)
    for _ in range(number):
        connection = stack.enter_context(socket.create_connection((at.hostname, at.port), timeout=30))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {at.netloc}\r\n{header}\r\n\r\n".encode())
        read = b""
        while b"\n\n" not in read and b"{" not in read and b"<" not in read:
            chunk = connection.recv(65536)
            assert chunk
            read += chunk
        found[int(read.split(b" ")[1])] += 1
    return found


def test_one_viewer_leaves_decision_streams_to_the_others(api: ServedApi) -> None:
    bearers = {name: f"Authorization: Bearer {token(api, name, 'sales')}" for name in ("a", "b", "c", "d")}
    path = "/v1/decisions?namespace=sales"
    with ExitStack() as stack:
        assert statuses(api, path, bearers["a"], 25, stack) == {200: 20, 409: 5}
        assert statuses(api, path, bearers["b"], 21, stack) == {200: 20, 409: 1}
        assert statuses(api, path, bearers["c"], 12, stack) == {200: 10, 409: 2}
        assert statuses(api, path, bearers["d"], 1, stack) == {409: 1}
        other = f"Authorization: Bearer {token(api, 'f', 'finance')}"
        assert statuses(api, "/v1/decisions?namespace=finance", other, 20, stack) == {200: 20}
        assert statuses(api, "/v1/decisions", f"Authorization: Bearer {api.token}", 1, stack) == {200: 1}


def test_one_session_leaves_live_pages_to_the_others(api: ServedApi) -> None:
    mine, theirs = (cookie(api, token(api, name, name)) for name in ("sales", "finance"))
    with ExitStack() as stack:
        assert statuses(api, "/ui/live", f"Cookie: {mine}", 103, stack) == {200: 100, 409: 3}
        assert statuses(api, "/ui/live", f"Cookie: {theirs}", 1, stack) == {200: 1}


async def test_a_live_page_ends_within_seconds_when_its_token_is_revoked(api: ServedApi) -> None:
    text = token(api, "short", "sales")
    headers = {"Cookie": cookie(api, text)}
    async with (
        httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client,
        client.stream("GET", "/ui/live") as answer,
    ):
        lines = answer.aiter_lines()
        while await anext(lines) != "event: open":
            pass
        with api.client() as admin:
            assert admin.post("/v1/tokens/short/revoke", json={}).status_code == 200
        async with asyncio.timeout(8):
            assert [line async for line in lines][-1:] in ([""], [])
