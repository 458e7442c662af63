"""Acknowledged records, topics and fences survive closing all brokers and opening the log again."""

from __future__ import annotations

import pytest

from streamsched.domain.errors import ConfigurationError
from streamsched.ports.broker import Cleanup, TopicSpec
from streamsched.testing.broker_contract.harness import Log, fresh_name, make_records, newest_values, numbers


class Durability:
    """`close`, and opening the log again."""

    async def test_records_and_ends_survive(self, log: Log) -> None:
        """Plain and transactional records, with their offsets and times; later appends follow them."""
        log.needs("durable")
        first, second = await log.topic(partitions=2)
        await log.broker.append(make_records(first, *numbers(0, 1500)))
        await (await log.writer()).commit(make_records(first, b"1500") + make_records(second, b"x"))
        records, ends = await log.all(first), await log.broker.ends([first, second])
        await log.reopen()

        assert await log.all(first) == records
        assert await log.broker.ends([first, second]) == ends

        await log.broker.append(make_records(first, b"1501"))

        assert await log.values(first) == numbers(0, 1502)

    async def test_topics_keep_their_shape(self, log: Log) -> None:
        """The number of partitions is still there, and another one still refused."""
        log.needs("durable")
        name = fresh_name("topic")
        await log.broker.create_topics([TopicSpec(name, 3, Cleanup.COMPACT)])
        await log.reopen()

        assert await log.broker.partitions(name) == 3
        with pytest.raises(ConfigurationError):
            await log.broker.create_topics([TopicSpec(name, 4, Cleanup.COMPACT)])

    async def test_a_name_can_be_written_again(self, log: Log) -> None:
        """Opening a writer of a name after the restart fences only writers before it."""
        log.needs("durable")
        (at,) = await log.topic()
        name = fresh_name("writer")
        await (await log.writer(name)).commit(make_records(at, b"before"))
        await log.reopen()
        await (await log.writer(name)).commit(make_records(at, b"after"))

        assert await log.values(at) == [b"before", b"after"]

    async def test_a_compacted_table_survives(self, log: Log) -> None:
        """With the newest value of each key, when the log was compacted before it was closed."""
        log.needs("durable")
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        await log.broker.append(
            make_records(at, *numbers(0, 30), key=b"a") + make_records(at, *numbers(30, 33), key=b"b")
        )
        await log.broker.maintain()
        await log.reopen()

        assert newest_values(await log.all(at)) == {b"a": b"29", b"b": b"32"}
