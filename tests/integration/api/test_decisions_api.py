"""The stream of decisions over a real connection: who may follow it, and that it goes on, ends and is limited."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import httpx
import pytest

from streamsched.client import AsyncClient, Client, Decision
from streamsched.domain.errors import ForbiddenError, UnauthenticatedError, UnavailableError
from tests.support.served_api import ServedApi, served_api


@pytest.fixture
def api(database: str) -> Iterator[ServedApi]:
    with served_api(database) as served:
        yield served


async def write(api: ServedApi, *lines: tuple[str, str]) -> None:
    """Lines of the history: (subject, action)."""
    connection = await asyncpg.connect(api.database)
    now = datetime.now(UTC)
    rows = [(now, action.partition(".")[0], subject, action, f"why {n}") for n, (subject, action) in enumerate(lines)]
    columns = ("at", "subject_kind", "subject", "action", "reason")
    await connection.copy_records_to_table("decisions", records=rows, columns=columns)
    await connection.close()


def token(api: ServedApi, **grant: Any) -> tuple[str, str]:
    """Id and text of a new token."""
    with api.client() as admin:
        made = admin.post("/v1/tokens", json={"name": f"t{id(grant)}", "grants": [grant]}).json()
        return made["id"], made["text"]


async def read(client: AsyncClient, number: int, **asked: Any) -> list[Decision]:
    found: list[Decision] = []
    async with asyncio.timeout(60):
        async for each in client.decisions(**asked):
            found.append(each)
            if len(found) == number:
                break
    return found


async def test_decisions_of_a_namespace_go_on_after_the_last_one(api: ServedApi) -> None:
    _, viewer = token(api, role="viewer", namespace="sales")
    lines = [(f"{namespace}.a.b.1.{n}", "job.waits") for n in range(300) for namespace in ("sales", "ops")]
    await write(api, *lines)
    async with AsyncClient(api.url, token=viewer) as client:
        first = await read(client, 120, namespace="sales", after=0)
        rest = await read(client, 180, namespace="sales", after=first[-1].number)
        with pytest.raises(ForbiddenError):
            await read(client, 1, namespace="ops")
        own = await read(client, 2, after=0)  # of the only namespace that its token may view
    assert [each.subject for each in own] == ["sales.a.b.1.0", "sales.a.b.1.1"]
    assert [each.subject for each in first + rest] == [f"sales.a.b.1.{n}" for n in range(300)]
    assert (first[0].action, first[0].state, first[0].reason) == ("job.waits", "PENDING_CONSTRAINT", "why 0")


async def test_a_revoked_token_ends_the_stream_within_a_second(api: ServedApi) -> None:
    name, text = token(api, role="viewer")
    headers = {"Authorization": f"Bearer {text}"}
    async with (
        httpx.AsyncClient(base_url=api.url, headers=headers, timeout=30) as client,
        client.stream("GET", "/v1/decisions") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        while await anext(lines) != "event: open":
            pass
        assert "streamsched_decision_clients 1.0" in (await client.get("/metrics")).text
        await asyncio.to_thread(_revoke, api, name)
        began = asyncio.get_running_loop().time()
        rest = [line async for line in lines]
        took_s = asyncio.get_running_loop().time() - began
    assert "event: end" in rest
    assert took_s < 2.0, "half a second for the verdict and less than another for the look, on a busy machine"
    with api.client() as admin:
        assert "streamsched_decision_clients 0.0" in admin.get("/metrics").text
    async with AsyncClient(api.url, token=text) as following:
        with pytest.raises(UnauthenticatedError):
            await read(following, 1)


def _revoke(api: ServedApi, name: str) -> None:
    with api.client() as admin:
        assert admin.post(f"/v1/tokens/{name}/revoke", json={}).status_code == 200


def test_the_server_ends_streams_when_it_stops(database: str) -> None:
    with served_api(database) as api:
        opened = threading.Event()
        ended: list[str] = []

        def follow() -> None:
            with api.client() as client, client.stream("GET", "/v1/decisions") as answer:
                for line in answer.iter_lines():
                    if line == "event: open":
                        opened.set()
                ended.append("whole")

        thread = threading.Thread(target=follow)
        thread.start()
        assert opened.wait(30)
    thread.join(30)
    assert ended == ["whole"], "the response ends in order, and is not cut off"


def test_the_blocking_client_gives_up_when_the_server_stays_away(database: str) -> None:
    with served_api(database) as api:
        asyncio.run(write(api, ("sales.a.b.1.1", "job.waits")))
        url, text = api.url, api.token
        client = Client(url, token=text, pauses=(0.0, 0.0))
        decisions = client.decisions(after=0)
        assert next(decisions).subject == "sales.a.b.1.1"
    with pytest.raises(UnavailableError):
        next(decisions)
    client.close()


async def test_what_is_wrong_is_refused(api: ServedApi) -> None:
    with api.client() as client:
        for asked, headers in (({"after": "x"}, {}), ({}, {"Last-Event-ID": "-1"}), ({"schedule": "a"}, {})):
            assert client.get("/v1/decisions", params=asked, headers=headers).status_code == 400


def test_the_command_prints_decisions(api: ServedApi) -> None:
    asyncio.run(write(api, ("default.a.b.1.1", "job.waits"), ("default.a.b.1.1", "job.admitted")))
    begin = [sys.executable, "-u", "-c", "from streamsched.cli.main import main; main()"]
    command = [*begin, "job", "follow", "--url", api.url, "--after", "0"]
    environ = {**os.environ, "STREAMSCHED_TOKEN": api.token}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ, text=True) as running:
        assert running.stdout is not None
        shown = [running.stdout.readline() for _ in range(2)]
        running.terminate()
    assert [line.split("  ")[1:] for line in shown] == [
        ["a.b.1.1", "job.waits", "why 0\n"],
        ["a.b.1.1", "job.admitted", "why 1\n"],
    ]
