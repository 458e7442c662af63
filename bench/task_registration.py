"""Registration of tasks for `bench.tasks`: over the HTTP API, without it, and many at a time."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import aiohttp
import orjson

from bench.installation import Installation
from bench.task_processes import QUEUE, product_process
from compose.ports import free_port
from streamsched.domain.tasks.queue import QueuePolicy, Target, WorkerTarget
from streamsched.domain.tasks.task import TaskRequest
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry

DATA: Final = orjson.dumps({"customer": "c-1234567", "template": "welcome", "text": "x" * 100})
#: Tasks in a lane.
IN_A_LANE: Final = 5


async def set_queue(site: Installation, target: Target) -> None:
    await QueueStore(site.pool).set(QUEUE, QueuePolicy(target=target), "bench", now=datetime.now(UTC))


async def fill(site: Installation, count: int, due: Callable[[int], datetime], in_a_lane: int = IN_A_LANE) -> float:
    """Registers that many tasks, 1000 a request; returns tasks per second."""
    registry, began = TaskRegistry(site.pool), time.perf_counter()
    for start in range(0, count, 1000):
        many = [
            TaskRequest(key=f"k{n:09}", lane=f"lane-{n // in_a_lane}", due_at=due(n), data=DATA)
            for n in range(start, min(start + 1000, count))
        ]
        await registry.register(QUEUE, many, now=datetime.now(UTC))
    return count / (time.perf_counter() - began)


class Paced(NamedTuple):
    """Registrations per second, and the quantiles of their duration in milliseconds."""

    per_s: float
    p50_ms: float
    p99_ms: float


async def pace(count: int, clients: int, send: Callable[[int], Awaitable[None]]) -> Paced:
    """`clients` at a time, each sends the next when its former one is answered."""
    took: list[float] = []
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            began = time.perf_counter()
            await send(number)
            took.append(time.perf_counter() - began)

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    per_s = count / (time.perf_counter() - began)
    cut = statistics.quantiles(took, n=100)
    return Paced(per_s, 1000 * cut[49], 1000 * cut[98])


async def register_directly(site: Installation, count: int, clients: int) -> Paced:
    await set_queue(site, WorkerTarget())
    registry, due = TaskRegistry(site.pool), datetime.now(UTC) + timedelta(days=1)

    async def send(number: int) -> None:
        request = TaskRequest(key=f"k{number}", lane=f"lane-{number // IN_A_LANE}", due_at=due, data=DATA)
        await registry.register(QUEUE, [request], now=datetime.now(UTC))

    return await pace(count, clients, send)


async def register_over_http(site: Installation, count: int, clients: int) -> Paced:
    await set_queue(site, WorkerTarget())
    due = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    port = free_port()
    api = f"http://127.0.0.1:{port}"
    with product_process(site.url, "api", api_port=port, api_access="open"):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
            await answers(client, f"{api}/health/ready")

            async def send(number: int) -> None:
                task = {"key": f"k{number}", "lane": f"lane-{number // IN_A_LANE}", "due": due, "text": DATA.decode()}
                async with client.post(f"{api}/v1/queues/{QUEUE}/tasks", json=task) as response:
                    await response.read()
                    if response.status != 202:
                        raise SystemExit(f"refused: {response.status} {await response.text()}")

            return await pace(count, clients, send)


async def answers(client: aiohttp.ClientSession, url: str) -> None:
    """Waits for a 200 response."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with client.get(url) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.05)
