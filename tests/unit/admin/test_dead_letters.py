"""Dead letters are many where something is wrong: a list of the newest holds no more than it shows."""

from __future__ import annotations

import tracemalloc
from base64 import b64encode
from collections.abc import Mapping
from datetime import timedelta

import orjson
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.admin.dead_letters import dead_letter, dead_letters, letters_page
from streamsched.log.topics import DEAD_LETTER, topic_specs
from streamsched.ports.broker import Outgoing
from streamsched.testing.clock import SettableClock

LARGE = 50_000


class NothingAway:
    async def read_hidden(self, topic: str) -> Mapping[int, int]:
        return {}

    async def hide(self, topic: str, positions: Mapping[int, int]) -> None: ...


def letter(number: int) -> Outgoing:
    body = {
        "topic": "events",
        "partition": 0,
        "offset": number,
        "time_ms": 1000 * (number * 7 % 200),
        "value_b64": b64encode(bytes(LARGE)).decode(),
    }
    return Outgoing(DEAD_LETTER, number % 2, None, orjson.dumps(body))


async def test_the_newest_letters_are_found_without_holding_them_all() -> None:
    broker = MemoryBroker(MemoryLog(SettableClock()))
    await broker.create_topics(topic_specs(2, timedelta(days=7)))
    await broker.append([letter(number) for number in range(200)])
    tracemalloc.start()
    try:
        found = await dead_letters(broker, NothingAway(), limit=3)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [each.at.timestamp() for each in found] == [199.0, 198.0, 197.0]
    assert peak < 30 * LARGE


@pytest.mark.parametrize(
    "body",
    [
        orjson.dumps({"topic": "events", "time_ms": 1_780_000_000_000_000}),
        orjson.dumps({"topic": "events", "time_ms": "noon"}),
        orjson.dumps({"topic": 7, "time_ms": 1, "value_b64": "?"}),
        orjson.dumps([1]),
        b"{",
        b"\xff",
    ],
)
async def test_a_letter_that_is_none_hides_no_other(body: bytes) -> None:
    """One with a time in microseconds made every list of them fail."""
    broker = MemoryBroker(MemoryLog(SettableClock()))
    await broker.create_topics(topic_specs(2, timedelta(days=7)))
    await broker.append([letter(1), Outgoing(DEAD_LETTER, 0, b"k", body), letter(2)])

    page = await letters_page(broker, NothingAway(), limit=2, after="")
    rest = await letters_page(broker, NothingAway(), limit=2, after=page["next"])

    assert len([*page["letters"], *rest["letters"]]) == 3
    assert {each["offset"] for each in [*page["letters"], *rest["letters"]]} >= {1, 2}
    assert (await dead_letter(broker, "0/0")).reason is not None
