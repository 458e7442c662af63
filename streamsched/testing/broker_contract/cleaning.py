"""Compaction and retention: readers are not disturbed, and the records kept keep their offsets."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from streamsched.ports.broker import Cleanup, Outgoing
from streamsched.testing.broker_contract.harness import Log, make_records, newest_values, numbers


class Cleaning:
    """`Broker.maintain`. A driver may clean at any time; which records it must keep is specified here."""

    async def test_compaction_keeps_the_newest_of_each_key_in_order_at_its_offset(self, log: Log) -> None:
        """3000 records of 53 keys: what is left has the same table, ascending offsets, the same end, and only records
        that were there before, unchanged.
        """
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        for start in range(0, 3000, 100):
            await log.broker.append(
                [Outgoing(*at, b"k%d" % (n * 7 % 53), b"%d" % n) for n in range(start, start + 100)]
            )
        before, end = await log.all(at), await log.end(at)
        await log.broker.maintain()
        after = await log.all(at)
        offsets = [record.offset for record in after]

        assert newest_values(after) == newest_values(before)
        assert offsets == sorted(offsets)
        assert set(after) <= set(before), "a record was changed, or moved to another offset"
        assert await log.end(at) == end

    async def test_repeated_compaction_keeps_the_table(self, log: Log) -> None:
        """Eight times, records are appended to what is compacted already, and compaction runs twice: the second has
        nothing to do and must lose nothing.
        """
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        table: dict[bytes | None, bytes] = {}
        for turn in range(8):
            records = [Outgoing(*at, b"k%d" % (n * (turn + 3) % 97), b"%d.%d" % (turn, n)) for n in range(150)]
            await log.broker.append(records)
            table.update((record.key, record.value) for record in records if record.value is not None)
            await log.broker.maintain()
            await log.broker.maintain()

            assert newest_values(await log.all(at)) == table

    async def test_partitions_are_compacted_independently(self, log: Log) -> None:
        """The same key in two partitions is two keys."""
        first, second = await log.topic(partitions=2, cleanup=Cleanup.COMPACT)
        await log.broker.append(make_records(first, b"1", b"2", key=b"same") + make_records(second, b"3", key=b"same"))
        await log.broker.append(make_records(first, b"x", key=b"last"))
        await log.broker.maintain()

        assert newest_values(await log.all(first)) == {b"same": b"2", b"last": b"x"}
        assert newest_values(await log.all(second)) == {b"same": b"3"}

    async def test_a_deleted_key_never_reappears(self, log: Log) -> None:
        """A tombstone may only go together with, or after, every older value of its key."""
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        for turn in range(4):
            await log.broker.append(
                make_records(at, b"v", None, key=b"gone") + make_records(at, b"%d" % turn, key=b"here")
            )
            await log.broker.maintain()

            assert newest_values(await log.all(at)) == {b"here": b"%d" % turn}

    async def test_a_reader_in_progress_reads_every_tombstone(self, log: Log) -> None:
        """The reader has read a value, so it must also get the tombstone."""
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        await log.broker.append(make_records(at, b"v", key=b"gone"))
        tail = await log.tail(at)
        await tail.read_until(lambda: bool(tail.seen[at]))
        await log.broker.append(make_records(at, None, key=b"gone") + make_records(at, b"v", key=b"here"))
        await log.broker.append(make_records(at, b"w", key=b"here"))
        for _ in range(3):
            await log.broker.maintain()
        end = await log.end(at)
        await tail.read_until(lambda: tail.positions[at] >= end)

        assert newest_values(tail.seen[at]) == {b"here": b"w"}

    async def test_reading_across_a_compaction_gives_the_same_table(self, log: Log) -> None:
        """The reader has read a part before the first compaction; the second is between its reads."""
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        for start in range(0, 2000, 40):
            await log.broker.append([Outgoing(*at, b"k%d" % (n % 30), b"%d" % n) for n in range(start, start + 40)])
        tail = await log.tail(at)
        await tail.read(max_records=200)
        await log.broker.maintain()
        await log.broker.append(make_records(at, b"new", key=b"k3"))
        await log.broker.maintain()
        end = await log.end(at)
        await tail.read_until(lambda: tail.positions[at] >= end, max_records=10)

        assert newest_values(tail.seen[at]) == newest_values(await log.all(at))

    async def test_a_position_of_a_compacted_record_reads_the_next_one(self, log: Log) -> None:
        """From every position below the end, whether its record is left or not."""
        (at,) = await log.topic(cleanup=Cleanup.COMPACT)
        await log.broker.append([Outgoing(*at, b"k%d" % (n % 9), b"%d" % n) for n in range(60)])
        end = await log.end(at)
        await log.broker.maintain()
        after = await log.all(at)

        for position in range(end):
            assert await log.all(at, position=position) == [r for r in after if r.offset >= position]

    async def test_maintenance_beside_writers_and_by_several_processes_loses_nothing(self, log: Log) -> None:
        """Two processes compact all the time, one of them twice at once, beside a transactional writer and a reader;
        both the reader and a later one have the whole table.
        """
        partitions = await log.topic(partitions=2, cleanup=Cleanup.COMPACT)
        other = await log.another()
        tail = await log.tail(*partitions, broker=other)
        table: dict[bytes | None, bytes] = {}
        writer = await log.writer()

        async def write() -> None:
            for turn in range(60):
                records = [
                    Outgoing(*at, b"k%d" % (turn * n % 23), b"%d.%d" % (turn, n)) for at in partitions for n in (1, 5)
                ]
                await writer.commit(records)
                table.update((record.key, record.value) for record in records if record.value is not None)

        async def maintain(broker) -> None:
            while not writing.done():
                await broker.maintain()
                await asyncio.sleep(0.002)

        writing = asyncio.create_task(write())
        async with asyncio.timeout(60):
            await asyncio.gather(writing, maintain(log.broker), maintain(other), maintain(log.broker))
        ends = await log.broker.ends(partitions)
        await tail.read_until(lambda: all(tail.positions[at] >= end for at, end in ends.items()))

        for at in partitions:
            assert newest_values(await log.all(at)) == table
            assert newest_values(tail.seen[at]) == table

    async def test_the_end_can_be_reached_after_cleaning(self, log: Log) -> None:
        """The last record before the end may be gone, a tombstone or expired: a reader must still arrive there, and the
        end does not go back.
        """
        (compacted,) = await log.topic(cleanup=Cleanup.COMPACT)
        (expired,) = await log.topic(retention=timedelta(0))
        await log.broker.append(
            make_records(compacted, b"v", None, key=b"gone") + make_records(expired, *numbers(0, 10))
        )
        await log.broker.maintain()

        for at in (compacted, expired):
            await log.all(at)  # fails when it does not reach the end
            assert await log.end(at) >= 2

    async def test_offsets_continue_after_everything_expired(self, log: Log) -> None:
        """An offset is never given twice, even by an empty partition: saved positions would skip or repeat records."""
        (at,) = await log.topic(retention=timedelta(0))
        await log.broker.append(make_records(at, b"old", b"older"))
        end = await log.end(at)
        await log.broker.maintain()
        await log.broker.append(make_records(at, b"new"))

        assert await log.end(at) > end
        assert [r.value for r in await log.all(at) if r.offset >= end] in ([b"new"], []), "it may have expired already"

    async def test_retention_removes_from_the_beginning_only(self, log: Log) -> None:
        """It may remove less than has expired, but leaves no hole."""
        (at,) = await log.topic(retention=timedelta(0))
        for start in range(0, 40, 4):
            await log.broker.append(make_records(at, *numbers(start, start + 4)))
        before = await log.all(at)
        await log.broker.maintain()
        after = await log.all(at)

        assert after == before[len(before) - len(after) :]

    async def test_nothing_expires_before_its_retention(self, log: Log) -> None:
        """Neither without a retention nor within its hour; a topic that is not compacted keeps all records of a key."""
        (kept,) = await log.topic()
        (young,) = await log.topic(retention=timedelta(hours=1))
        for at in (kept, young):
            await log.broker.append(make_records(at, *numbers(0, 50), key=b"same"))
        await log.broker.maintain()

        for at in (kept, young):
            assert await log.values(at) == numbers(0, 50)
