"""A backlog in one partition does not delay the others, and a read respects its limit."""

from __future__ import annotations

import asyncio

from streamsched.process.cancellation import cancel
from streamsched.testing.broker_contract.harness import Log, make_records, numbers

#: A record large enough that a driver may read it alone; drivers need not accept larger ones.
LARGE = 5 << 20


class Fairness:
    """`Reader.read` of many partitions."""

    async def test_a_backlog_does_not_starve_the_other_partitions(self, log: Log) -> None:
        """Single records beside 6000 of another partition come within four reads of 100."""
        partitions = await log.topic(partitions=4)
        for start in range(0, 6000, 1500):
            await log.broker.append(make_records(partitions[1], *numbers(start, start + 1500)))
        for quiet in (partitions[0], partitions[3]):
            await log.broker.append(make_records(quiet, b"me too"))
        tail = await log.tail(*partitions)
        for _ in range(4):
            await tail.read(max_records=100)

        assert len(tail.seen[partitions[0]]) == len(tail.seen[partitions[3]]) == 1

    async def test_backlogs_in_all_partitions_are_read_in_turn(self, log: Log) -> None:
        """Each of six long partitions is read within twelve reads of 50."""
        partitions = await log.topic(partitions=6)
        for at in partitions:
            await log.broker.append(make_records(at, *numbers(0, 2500)))
        tail = await log.tail(*partitions)
        for _ in range(2 * len(partitions)):
            await tail.read(max_records=50)

        assert all(tail.seen.values()), "a partition got nothing in twice as many reads as there are partitions"

    async def test_a_partition_that_grows_all_the_time_does_not_starve_another(self, log: Log) -> None:
        """A driver that always has records of the busy one ready must still read the quiet one, within six reads."""
        busy, quiet = await log.topic(partitions=2)
        tail = await log.tail(busy, quiet)
        await log.broker.append(make_records(busy, *numbers(0, 300)))

        async def grow() -> None:
            for _ in range(1000):
                await log.broker.append(make_records(busy, *numbers(0, 100)))
                await asyncio.sleep(0.0005)

        growing = asyncio.create_task(grow())
        try:
            await tail.read(max_records=50)
            await log.broker.append(make_records(quiet, b"me too"))
            for _ in range(6):
                await tail.read(max_records=50)
        finally:
            await cancel(growing)

        assert len(tail.seen[quiet]) == 1

    async def test_a_large_record_is_read_beside_constant_traffic(self, log: Log) -> None:
        """One of 5 MiB, in another topic, within eight reads: a driver that limits a fetch by bytes must not put it off
        forever.
        """
        idle, busy = await log.topic(partitions=2)
        (quiet,) = await log.topic()
        await log.broker.append(make_records(quiet, bytes(LARGE)))
        tail = await log.tail(idle, busy, quiet)
        for _ in range(8):
            await log.broker.append(make_records(busy, b"again"))
            await tail.read()

        assert [len(record.value or b"") for record in tail.seen[quiet]] == [LARGE]

    async def test_reads_stay_near_their_limit(self, log: Log) -> None:
        """A read may exceed `max_records` by the rest of one stored batch (`BATCH_RECORDS`)."""
        partitions = await log.topic(partitions=8)
        for at in partitions:
            await log.broker.append(make_records(at, *numbers(0, 1200)))
        tail = await log.tail(*partitions)
        # `Tail` checks each read against `max_records`.
        await tail.read_until(lambda: sum(map(len, tail.seen.values())) == 9600, max_records=500)

        assert all([r.value for r in tail.seen[at]] == numbers(0, 1200) for at in partitions)
