"""Topics and partitions: creation is idempotent, and contradicting specifications are refused."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.domain.errors import ConfigurationError, NotFoundError
from streamsched.ports.broker import Cleanup, Outgoing, TopicPartition, TopicSpec
from streamsched.testing.broker_contract.harness import Log, fresh_name, make_records


class Topics:
    """`create_topics`, `partitions`, `ends`."""

    async def test_a_topic_has_the_partitions_it_was_created_with(self, log: Log) -> None:
        """For the process that created it, and for another."""
        name = fresh_name("topic")
        await log.broker.create_topics([TopicSpec(name, 3)])

        assert await log.broker.partitions(name) == 3
        assert await (await log.another()).partitions(name) == 3

    async def test_creating_a_topic_twice_changes_nothing(self, log: Log) -> None:
        """The records stay: every process creates its topics when it starts."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, b"kept"))
        await log.broker.create_topics([TopicSpec(at.topic, 1)])

        assert await log.values(at) == [b"kept"]

    async def test_several_processes_may_create_the_same_topics_concurrently(self, log: Log) -> None:
        """Nine times at once, of both kinds of cleanup; none fails because another was first."""
        specs = [TopicSpec(fresh_name("topic"), 2, cleanup) for cleanup in (*Cleanup, *Cleanup)]
        brokers = [log.broker, await log.another(), await log.another()]
        await asyncio.gather(*(broker.create_topics(specs) for broker in brokers for _ in range(3)))

        assert [await log.broker.partitions(spec.name) for spec in specs] == [2, 2, 2, 2]

    async def test_another_number_of_partitions_is_refused_and_both_are_named(self, log: Log) -> None:
        """`ConfigurationError` with both numbers; the topic stays as it was."""
        name = fresh_name("topic")
        await log.broker.create_topics([TopicSpec(name, 2)])
        with pytest.raises(ConfigurationError, match=r"(?s)2.*7|7.*2"):
            await (await log.another()).create_topics([TopicSpec(name, 7)])

        assert await log.broker.partitions(name) == 2

    async def test_another_cleanup_is_refused_and_both_are_named(self, log: Log) -> None:
        """`ConfigurationError` with both kinds."""
        name = fresh_name("topic")
        await log.broker.create_topics([TopicSpec(name, 2, Cleanup.COMPACT)])
        with pytest.raises(ConfigurationError, match=r"(?s)compact.*delete|delete.*compact"):
            await log.broker.create_topics([TopicSpec(name, 2, Cleanup.DELETE)])

    async def test_another_retention_is_applied(self, log: Log) -> None:
        """Longer, or none at all: the records stay."""
        (at,) = await log.topic(retention=timedelta(days=1))
        await log.broker.append(make_records(at, b"kept"))
        await (await log.another()).create_topics([TopicSpec(at.topic, 1, retention=timedelta(days=2))])
        await log.broker.create_topics([TopicSpec(at.topic, 1)])

        assert await log.values(at) == [b"kept"]

    async def test_reporting_positions_changes_nothing(self, log: Log) -> None:
        """It is for the operator only, and does not fail for a partition that is not there."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, b"one", b"two"))
        tail = await log.tail(at)
        await log.broker.report(fresh_name("reader"), {at: 2})
        await log.broker.report(fresh_name("reader"), {TopicPartition(fresh_name("topic"), 7): 99})
        await tail.read_until(lambda: len(tail.seen[at]) == 2)

        assert await log.values(at) == [b"one", b"two"]

    async def test_an_unknown_topic_is_not_found(self, log: Log) -> None:
        """`partitions`, `append`, `ends` and `reader` raise `NotFoundError`; none of them creates the topic."""
        nowhere = TopicPartition(fresh_name("topic"), 0)
        with pytest.raises(NotFoundError):
            await log.broker.partitions(nowhere.topic)
        with pytest.raises(NotFoundError):
            await log.broker.append(make_records(nowhere, b"lost"))
        with pytest.raises(NotFoundError):
            await log.broker.ends([nowhere])
        with pytest.raises(NotFoundError):
            await log.broker.reader({nowhere: 0})

    @pytest.mark.parametrize("number", [-1, 2])
    async def test_an_unknown_partition_is_not_found(self, log: Log, number: int) -> None:
        """Neither a negative number nor the first after the last."""
        topic = (await log.topic(partitions=2))[0].topic
        with pytest.raises(NotFoundError):
            await log.broker.append([Outgoing(topic, number, None, b"lost")])

    async def test_a_topic_created_by_another_process_is_known_at_once(self, log: Log) -> None:
        """A driver that caches the topics must look again before it says that one is not there."""
        other = await log.another()
        await log.topic()  # so that `other` may have cached the topics
        (at,) = await log.topic()
        await other.append(make_records(at, b"here"))

        assert await log.values(at) == [b"here"]

    async def test_ends_begin_at_zero_and_follow_what_becomes_visible(self, log: Log) -> None:
        """For every process; an end is after the offset of the last visible record."""
        first, second = await log.topic(partitions=2)

        assert await log.broker.ends([first, second]) == {first: 0, second: 0}

        await log.broker.append(make_records(second, b"a", b"b", b"c"))
        ends = await (await log.another()).ends([second, first])
        records = await log.all(second)

        assert ends[first] == 0
        assert ends[second] >= records[-1].offset + 1

    async def test_ends_of_no_partitions_are_empty(self, log: Log) -> None:
        assert await log.broker.ends([]) == {}
