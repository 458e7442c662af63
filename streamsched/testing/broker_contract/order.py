"""Order within a partition under concurrent writers: nothing is lost, repeated, or visible before an earlier offset."""

from __future__ import annotations

import asyncio
from collections import Counter

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.process.cancellation import cancel
from streamsched.testing.broker_contract.harness import Log, make_records, numbers


class OrderContract:
    """`append` and `commit`, alone and against each other."""

    async def test_appends_keep_their_order(self, log: Log) -> None:
        """One after the other, each acknowledged before the next."""
        (at,) = await log.topic()
        for start in range(0, 60, 3):
            await log.broker.append(make_records(at, *numbers(start, start + 3)))

        assert await log.values(at) == numbers(0, 60)

    async def test_one_append_to_many_partitions_keeps_the_order_of_each(self, log: Log) -> None:
        """Five partitions of two topics in one append, mixed."""
        partitions = [*await log.topic(partitions=3), *await log.topic(partitions=2)]
        await log.broker.append([Outgoing(*partitions[n % 5], None, b"%d" % n) for n in range(500)])

        for index, at in enumerate(partitions):
            assert await log.values(at) == [b"%d" % n for n in range(index, 500, 5)]

    async def test_an_empty_append_changes_nothing(self, log: Log) -> None:
        """Neither an empty append nor an empty commit fails, or moves the end."""
        (at,) = await log.topic()
        await log.broker.append([])
        await (await log.writer()).commit([])

        assert await log.end(at) == 0

    async def test_offsets_are_unique(self, log: Log) -> None:
        """Under 40 appends at once by two processes, of which none is lost or repeated."""
        (at,) = await log.topic()
        brokers = [log.broker, await log.another()]
        await asyncio.gather(*(brokers[n % 2].append(make_records(at, b"%d" % n, b"%d'" % n)) for n in range(40)))
        records = await log.all(at)

        assert Counter(r.value for r in records) == Counter(v for n in range(40) for v in (b"%d" % n, b"%d'" % n))
        assert len({record.offset for record in records}) == 80

    async def test_an_invalid_append_does_not_affect_concurrent_ones(self, log: Log) -> None:
        """A driver that joins appends into one request must refuse the wrong one alone, with `NotFoundError`."""
        (at,) = await log.topic()
        wrong = Outgoing(at.topic, 7, None, b"nowhere")
        outcomes = await asyncio.gather(
            *(log.broker.append([wrong] if n % 5 == 2 else make_records(at, b"%d" % n)) for n in range(50)),
            return_exceptions=True,
        )

        assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, NotFoundError)] == list(range(2, 50, 5))
        assert Counter(await log.values(at)) == Counter(b"%d" % n for n in range(50) if n % 5 != 2)

    async def test_appends_of_one_task_stay_in_its_order_beside_others(self, log: Log) -> None:
        """Eight tasks append at once; each waits for its own acknowledgement before it goes on."""
        (at,) = await log.topic()

        async def write(name: bytes) -> None:
            for number in range(30):
                await log.broker.append(make_records(at, b"%d" % number, b"%d" % number, key=name))

        await asyncio.gather(*(write(b"%d" % n) for n in range(8)))
        records = await log.all(at)

        for name in numbers(0, 8):
            assert [r.value for r in records if r.key == name] == [b"%d" % n for n in range(30) for _ in range(2)]

    async def test_a_tail_beside_concurrent_writers_misses_and_reorders_nothing(self, log: Log) -> None:
        """If an offset became visible before a smaller one, a reader would skip the smaller one."""
        partitions = await log.topic(partitions=3)
        brokers = [log.broker, await log.another(), await log.another()]
        tail = await log.tail(*partitions, broker=brokers[2])
        rounds, width = 40, 4

        async def write(number: int, broker: Broker) -> None:
            writer = await log.writer(broker=broker)
            for turn in range(rounds):
                count = 1 + (turn * 7 + number) % 5 * (60 if turn % 10 == number else 1)
                records = [
                    Outgoing(*at, b"%d" % number, b"%d.%d" % (turn, i)) for at in partitions for i in range(count)
                ]
                if number % 2:
                    await broker.append(records)
                else:
                    await writer.commit(records[::-1] if turn % 3 == 0 else records)

        writing = asyncio.gather(*(write(number, brokers[number % 3]) for number in range(width)))
        try:
            await tail.read_until(writing.done)
            await writing
        finally:
            await cancel(writing)
        ends = await log.broker.ends(partitions)
        await tail.read_until(lambda: all(tail.positions[at] >= end for at, end in ends.items()))

        for at in partitions:
            assert tail.seen[at] == await log.all(at), f"{at}: a tail and a later reader got different records"
            for number in range(width):
                self._turns_ascend(tail, at, number, rounds)

    def _turns_ascend(self, tail, at: TopicPartition, number: int, rounds: int) -> None:
        mine = [record.value for record in tail.seen[at] if record.key == b"%d" % number]
        turns = [int(value.split(b".")[0]) for value in mine if value]

        assert turns == sorted(turns), f"{at}: writer {number} was reordered"
        assert set(turns) == set(range(rounds)), f"{at}: writer {number} lost a turn"
        assert len(set(mine)) == len(mine), f"{at}: records of writer {number} were repeated"
