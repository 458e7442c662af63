"""A partition is read to the end it had, and no further; one that stops before it is no shorter log."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryReader

from streamsched.domain.errors import NotFoundError, UnavailableError
from streamsched.log.records import newest, records
from streamsched.ports.broker import Chunk, Outgoing, TopicPartition, TopicSpec

AT = TopicPartition("topic", 0)


@pytest.fixture
async def broker() -> MemoryBroker:
    broker = MemoryBroker(MemoryLog())
    await broker.create_topics([TopicSpec("topic", 1)])
    return broker


async def put(broker: MemoryBroker, *values: bytes | None, key: bytes = b"k") -> None:
    await broker.append([Outgoing(*AT, key, value) for value in values])


async def test_what_comes_while_it_is_read_is_behind_the_end(broker: MemoryBroker) -> None:
    await put(broker, b"1", b"2", b"3")
    found: list[bytes | None] = []
    async for record in records(broker, AT):
        found.append(record.value)
        await put(broker, b"later")

    assert found == [b"1", b"2", b"3"]
    assert [record.value async for record in records(broker, AT, start=1, end=2)] == [b"2"]


async def test_nothing_is_read_of_a_partition_that_is_empty_or_not_there(broker: MemoryBroker) -> None:
    assert [record async for record in records(broker, AT)] == []
    assert await newest(broker, AT, b"k") is None
    with pytest.raises(NotFoundError):
        await newest(broker, TopicPartition("nowhere", 0), b"k")


async def test_one_that_stops_before_its_end_is_not_taken_for_a_shorter_one(broker: MemoryBroker) -> None:
    class Stands(MemoryReader):
        async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
            return []

    class Standing(MemoryBroker):
        async def reader(self, positions: Mapping[TopicPartition, int]) -> MemoryReader:
            return Stands(self._log, positions)

    await put(broker, b"1")
    with pytest.raises(UnavailableError, match="topic/0 stops at 0, before its end 1"):
        await newest(Standing(broker._log), AT, b"k")


@pytest.mark.parametrize("behind", [0, 255, 256, 20_000])
async def test_the_newest_of_a_key_is_found_however_far_back(broker: MemoryBroker, behind: int) -> None:
    await put(broker, b"old", b"new", None)
    await put(broker, *[b"x"] * behind, key=b"other")

    assert await newest(broker, AT, b"k") == b"new"
