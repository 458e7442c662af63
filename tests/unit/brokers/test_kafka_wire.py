"""How often a client looks around for leaders, and how often it connects to a node that is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

from streamsched_brokers.kafka.wire import detect_dead_connections


class Client:
    """What is checked of aiokafka's client: a look takes a moment, and one at a time is under way."""

    def __init__(self) -> None:
        self.looks = 0
        self.attempts = 0
        self._conns: dict[object, object] = {}
        self._sync_task: object | None = object()
        self._md_update_fut: asyncio.Future[bool] | None = None

    async def _get_conn(self, _node: int, **_how: object) -> None:
        self.attempts += 1
        await asyncio.sleep(0.01)

    def force_metadata_update(self) -> Any:
        if self._md_update_fut is None:
            self.looks += 1
            self._md_update_fut = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(self._answer)
        return asyncio.shield(self._md_update_fut)

    def _answer(self) -> None:
        assert self._md_update_fut is not None
        self._md_update_fut.set_result(True)
        self._md_update_fut = None


async def test_who_asks_without_a_pause_is_answered_now_and_then() -> None:
    client: Any = Client()
    detect_dead_connections(client)
    loop = asyncio.get_running_loop()
    began, asked = loop.time(), 0
    while loop.time() - began < 0.3 or asked < 6:
        assert await client.force_metadata_update()
        asked += 1

    assert client.looks == asked <= (loop.time() - began) / 0.05 + 1


async def test_those_who_ask_together_share_a_look() -> None:
    client: Any = Client()
    detect_dead_connections(client)
    await client.force_metadata_update()

    assert await asyncio.gather(*(client.force_metadata_update() for _ in range(100))) == [True] * 100
    assert client.looks in (2, 3)  # one more where the machine stood still while they asked


async def test_no_caller_waits_for_a_client_that_was_closed() -> None:
    client: Any = Client()
    detect_dead_connections(client)
    await client.force_metadata_update()
    waiting = client.force_metadata_update()
    client._sync_task = None

    assert await asyncio.wait_for(waiting, 5) is False


async def test_those_who_wait_for_a_node_share_the_failure_and_a_later_one_tries_again() -> None:
    client: Any = Client()
    detect_dead_connections(client)

    assert await asyncio.gather(*(client._get_conn(3, group=0) for _ in range(100))) == [None] * 100
    assert client.attempts == 1
    assert await client._get_conn(3, group=0) is None
    assert client.attempts == 2
