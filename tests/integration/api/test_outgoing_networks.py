"""What a namespace's definitions reach on the launcher's machine: nothing, until a setting permits it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from streamsched.api.app import make_api
from streamsched.process.cancellation import cancel
from streamsched.roles.api import api_services
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import Services
from tests.integration.webhooks.webhook_world import receiving
from tests.support.api_routes import api_routes

WORD = "IMDS-SECRET"
#: A name for this machine, which only the launcher resolves.
INSIDE = "inside.example"
NAMES = {INSIDE: "127.0.0.1"}


@asynccontextmanager
async def launcher(services: Services) -> AsyncIterator[None]:
    running = [asyncio.ensure_future(loop()) for name, loop in launcher_loops(services, {}).items() if name != "relay"]
    try:
        yield
    finally:
        await cancel(*running)


def permit(services: Services, networks: str) -> None:
    object.__setattr__(services, "settings", services.settings.replace(outgoing_networks=networks))


async def ended(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found = (await client.get(path)).json()
            if found["state"] in {"COMPLETED", "FAILED", "SUCCEEDED"}:
                return found
            await asyncio.sleep(0.05)


async def by_program(client: httpx.AsyncClient, url: str) -> tuple[str, str]:
    body = {"programs": [{"name": "ask", "type": "http", "url": url.replace("127.0.0.1", INSIDE)}]}
    assert (await client.put("/v1/apps/default/spy", json=body)).status_code == 200
    started = await client.post("/v1/programs/default.spy.ask/runs", json={"now": True})
    found = await ended(client, f"/v1/runs/{started.json()['run']}")
    return found["state"], found["reason"]


async def define_queue(client: httpx.AsyncClient, services: Services, url: str) -> None:
    """A queue that was stored while a setting permitted its URL."""
    body = {"target": {"type": "http", "url": "http://far.example/"}, "retry": {"type": "backoff", "retries": 0}}
    assert (await client.put("/v1/queues/spy", json=body)).status_code == 200
    change = "UPDATE task_queues SET policy = jsonb_set(policy, '{target,url}', to_jsonb($1::text)) WHERE name = 'spy'"
    await services.pool.execute(change, url)


async def by_queue(client: httpx.AsyncClient) -> tuple[str, str]:
    made = (await client.post("/v1/queues/spy/tasks", json={"key": "k"})).json()["tasks"][0]["id"]
    found = await ended(client, f"/v1/tasks/{made}")
    return found["state"], found["reason"]


@pytest.mark.parametrize("permitted", [False, True])
async def test_a_launcher_reaches_its_own_machine_only_when_a_setting_permits_it(
    services: Services, client: httpx.AsyncClient, permitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *a, **m: real(NAMES.get(host, host), *a, **m))
    permit(services, "127.0.0.0/8" if permitted else "")
    async with receiving(lambda _: "200 OK") as far:
        far.body = lambda _: WORD
        await define_queue(client, services, far.url)
        async with launcher(services):
            program, queue = await by_program(client, far.url), await by_queue(client)
    refusal = "not sent: 127.0.0.1 is not a public address; STREAMSCHED_OUTGOING_NETWORKS can permit it"
    if permitted:
        assert (program, queue) == (("COMPLETED", f"HTTP 200: {WORD}"), ("SUCCEEDED", f"HTTP 200: {WORD}"))
    else:
        assert (program, queue) == (("FAILED", refusal), ("FAILED", refusal))
        assert far.got == []


async def test_an_address_in_a_definition_is_refused_where_it_is_written(
    services: Services, client: httpx.AsyncClient
) -> None:
    url, why = "http://0x7f.1:80/x", "127.0.0.1 is not a public address; STREAMSCHED_OUTGOING_NETWORKS can permit it"
    programs = [{"name": "well", "type": "bash", "command": "true"}, {"name": "ask", "type": "http", "url": url}]
    target = {"type": "http", "url": url}
    bodies = {
        ("PUT", "/v1/apps/default/spy", "$.programs[1].url"): {"programs": programs},
        ("PUT", "/v1/queues/spy", "$.target.url"): {"target": target},
        ("POST", "/v1/namespaces/default/webhooks", "$.url"): {"name": "spy", "url": url},
    }
    for (method, path, where), body in bodies.items():
        answer = await client.request(method, path, json=body)
        assert (answer.status_code, answer.json()["path"], answer.json()["detail"]) == (400, where, f"{where}: {why}")

    permit(services, "127.0.0.1")
    transport = httpx.ASGITransport(app=make_api(api_services(services), api_routes()))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as granted:
        for (method, path, _), body in bodies.items():
            assert (await granted.request(method, path, json=body)).is_success
