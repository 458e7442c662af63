"""Readers: they start at any position, return all records, wake promptly, and lose nothing when cancelled."""

from __future__ import annotations

import asyncio
from statistics import median

from streamsched.ports.broker import Outgoing
from streamsched.ports.clock import SystemClock
from streamsched.process.cancellation import cancel
from streamsched.testing.broker_contract.harness import Log, make_records, numbers

#: From a commit to a waiting reader. Milliseconds are usual; a driver that polls or misses wake-ups takes much longer.
WAKE_SECONDS = 0.25


class ReadingContract:
    """`Reader`."""

    async def test_records_are_read_as_they_were_written(self, log: Log) -> None:
        """No key and an empty key are different, as are a tombstone and an empty value; all bytes are kept, up to 900
        kB; the time is that of the append.
        """
        (at,) = await log.topic()
        pairs = [(None, b"v"), (b"", b""), (b"k", None), (b"\x00\xff", bytes(range(256))), (b"big", b"x" * 900_000)]
        now = SystemClock().now()
        await log.broker.append([Outgoing(*at, key, value) for key, value in pairs])
        records = await log.all(at)

        assert [(record.key, record.value) for record in records] == pairs
        assert all(abs(record.time_ms / 1000 - now.timestamp()) < 60 for record in records)

    async def test_a_large_append_is_read_completely_in_small_reads(self, log: Log) -> None:
        """What one read leaves of a stored batch comes with the next; after that there is nothing."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, *numbers(0, 3500)))
        tail = await log.tail(at)
        await tail.read_until(lambda: len(tail.seen[at]) >= 3500, max_records=300)

        assert [record.value for record in tail.seen[at]] == numbers(0, 3500)
        assert await tail.read(timeout=0) == 0

    async def test_reading_can_start_at_every_offset(self, log: Log) -> None:
        """Also within a stored batch: the records before it are not returned."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, *numbers(0, 5)))
        await log.broker.append(make_records(at, *numbers(5, 6)))
        await log.broker.append(make_records(at, *numbers(6, 10)))
        records = await log.all(at)

        for index, record in enumerate(records):
            assert await log.all(at, position=record.offset) == records[index:]

    async def test_a_position_before_the_first_record_reads_from_it(self, log: Log) -> None:
        """A negative position too, as a saved one may be of a record that has expired."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, b"first"))

        assert [record.value for record in await log.all(at, position=-5)] == [b"first"]

    async def test_a_position_at_the_end_reads_the_next_record(self, log: Log) -> None:
        """Nothing that was there before, and the first that comes."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, b"old"))
        tail = await log.tail(at, position=await log.end(at))

        assert await tail.read(timeout=0) == 0

        await log.broker.append(make_records(at, b"new"))
        await tail.read_until(lambda: bool(tail.seen[at]))

        assert [record.value for record in tail.seen[at]] == [b"new"]

    async def test_seeking_works_in_both_directions(self, log: Log) -> None:
        """What a driver has fetched ahead for the former position is dropped."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, *numbers(0, 20)))
        records = await log.all(at)
        tail = await log.tail(at)
        await tail.read_until(lambda: len(tail.seen[at]) == 20)
        tail.seek(at, records[15].offset)
        await tail.read_until(lambda: len(tail.seen[at]) == 25)
        tail.seek(at, records[3].offset)
        await tail.read_until(lambda: len(tail.seen[at]) == 42)

        assert tail.seen[at] == records + records[15:] + records[3:]

    async def test_a_seek_takes_effect_after_an_empty_read(self, log: Log) -> None:
        """A driver must not wait for new records, because it knows that the reader was at the end."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, b"a"))
        tail = await log.tail(at)
        await tail.read_until(lambda: len(tail.seen[at]) == 1)

        assert await tail.read(timeout=0.01) == 0

        tail.seek(at, 0)

        assert await tail.read(timeout=0.2) == 1

    async def test_a_read_without_timeout_returns_acknowledged_records(self, log: Log) -> None:
        """A driver must not answer from an earlier, empty read."""
        (at,) = await log.topic()
        tail = await log.tail(at, broker=await log.another())
        for number in range(20):
            assert await tail.read(timeout=0) == 0

            await log.broker.append(make_records(at, b"%d" % number))

            assert await tail.read(timeout=0) == 1

    async def test_a_reader_opened_at_a_former_position_continues_exactly(self, log: Log) -> None:
        """`next_position` of a chunk is where another reader goes on, after plain and transactional records: none is
        lost or repeated.
        """
        partitions = await log.topic(partitions=2)
        writer = await log.writer()
        for start in range(0, 120, 6):
            for at in partitions:
                await writer.commit(make_records(at, *numbers(start, start + 3)))
                await log.broker.append(make_records(at, *numbers(start + 3, start + 6)))
        ends = await log.broker.ends(partitions)
        positions, seen = dict.fromkeys(partitions, 0), {at: list[bytes | None]() for at in partitions}
        while any(positions[at] < ends[at] for at in partitions):
            reader = await log.broker.reader(positions)
            for chunk in await reader.read(max_records=17, timeout=5):
                at = next(each for each in partitions if each.partition == chunk.partition)
                positions[at] = chunk.next_position
                seen[at].extend(record.value for record in chunk.records)
            await reader.close()

        assert all(seen[at] == numbers(0, 120) for at in partitions)

    async def test_readers_do_not_disturb_each_other(self, log: Log) -> None:
        """Two of one partition, in two processes, each read all of it."""
        (at,) = await log.topic()
        await log.broker.append(make_records(at, *numbers(0, 10)))
        one, two = await log.tail(at), await log.tail(at, broker=await log.another())
        await one.read_until(lambda: len(one.seen[at]) == 10)
        await two.read_until(lambda: len(two.seen[at]) == 10)

        assert one.seen == two.seen

    async def test_a_read_without_records_is_empty_after_the_timeout(self, log: Log) -> None:
        """Not earlier: callers would poll."""
        (at,) = await log.topic()
        tail = await log.tail(at)
        loop = asyncio.get_running_loop()
        before = loop.time()

        assert await tail.read(timeout=0.2) == 0
        assert loop.time() - before >= 0.19

    async def test_acknowledged_records_are_visible_to_every_process(self, log: Log) -> None:
        """To a new reader as soon as the append returns, and to a waiting one within `WAKE_SECONDS`."""
        (at,) = await log.topic()
        other = await log.another()
        tail = await log.tail(at, broker=other)
        for number in range(20):
            await log.broker.append(make_records(at, b"%d" % number))

            assert await log.values(at, other) == numbers(0, number + 1)
            assert await tail.read(timeout=WAKE_SECONDS) == 1

    async def test_a_waiting_reader_is_woken_by_another_process(self, log: Log) -> None:
        """Within `WAKE_SECONDS` in the median of 15, of two partitions by turns."""
        first, second = await log.topic(partitions=2)
        tail = await log.tail(first, second, broker=await log.another())
        loop, late = asyncio.get_running_loop(), list[float]()
        await tail.read(timeout=0.05)
        for number in range(15):
            waiting = asyncio.create_task(tail.read())
            await asyncio.sleep(0.02)
            await log.broker.append(make_records((first, second)[number % 2], b"now"))
            acknowledged = loop.time()

            assert await waiting == 1

            late.append(loop.time() - acknowledged)

        assert median(late) < WAKE_SECONDS, "readers are woken late"

    async def test_a_reader_is_woken_after_several_timeouts(self, log: Log) -> None:
        """A driver must not stop listening when a read ends without records."""
        (at,) = await log.topic()
        tail = await log.tail(at, broker=await log.another())
        loop, late = asyncio.get_running_loop(), list[float]()
        for _ in range(10):
            for _ in range(3):
                await tail.read(timeout=0.01)
            await log.broker.append(make_records(at, b"now"))
            acknowledged = loop.time()
            await tail.read_until(lambda: bool(tail.seen[at]))
            late.append(loop.time() - acknowledged)
            tail.seen[at].clear()

        assert median(late) < WAKE_SECONDS, "readers are woken late"

    async def test_a_cancelled_read_loses_nothing(self, log: Log) -> None:
        """Wherever it is cancelled: what it has taken and not returned comes with the next read."""
        (at,) = await log.topic()
        tail = await log.tail(at, broker=await log.another())
        for number in range(30):
            reading = asyncio.create_task(tail.read(timeout=5))
            await asyncio.sleep(0.0005 * (number % 5))
            await log.broker.append(make_records(at, b"%d" % number))
            await asyncio.sleep(0.0003 * (number % 4))
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        # `Tail` also keeps the records of reads that completed before their cancellation.
        await tail.read_until(lambda: len(tail.seen[at]) >= 30)

        assert [record.value for record in tail.seen[at]] == numbers(0, 30)

    async def test_catching_up_returns_what_was_acknowledged_before_what_was_read(self, log: Log) -> None:
        """A change and then an event, each acknowledged before the next is sent: who has read the event and catches up
        has the change. What was caught up does not come again.
        """
        changes, events = await log.topic(partitions=2)
        tail = await log.tail(changes, events)
        rounds = 200

        async def write() -> None:
            for number in range(rounds):
                await log.broker.append(make_records(changes, b"%d" % number))
                await log.broker.append(make_records(events, b"%d" % number))

        writing = asyncio.create_task(write())
        try:
            while len(tail.seen[events]) < rounds:
                await tail.read(max_records=2000, timeout=1.0)
                if await tail.catch_up(changes, max_records=2000):
                    assert len(tail.seen[changes]) >= len(tail.seen[events])
            await writing
        finally:
            await cancel(writing)
        assert await tail.catch_up(changes, max_records=2000)

        assert [record.value for record in tail.seen[changes]] == numbers(0, rounds)
        assert [record.value for record in tail.seen[events]] == numbers(0, rounds)

    async def test_catching_up_waits_for_no_more_than_it_may_return(self, log: Log) -> None:
        """A backlog is returned in parts, and the last one says that it is."""
        changes, events = await log.topic(partitions=2)
        await log.broker.append(make_records(changes, *numbers(0, 5000)))
        tail = await log.tail(changes, events)
        parts = 1
        while not await tail.catch_up(changes, max_records=1000):
            parts += 1

        assert [record.value for record in tail.seen[changes]] == numbers(0, 5000)
        assert parts > 2
        assert await tail.read(timeout=0) == 0
