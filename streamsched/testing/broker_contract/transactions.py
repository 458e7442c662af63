"""A commit becomes visible completely, at the latest when it returns, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Outgoing, Record, TopicPartition
from streamsched.testing.broker_contract.harness import Log, Tail, fresh_name, make_records, numbers


class Transactions:
    """`Writer.commit`."""

    async def test_a_commit_is_visible_everywhere_when_it_returns(self, log: Log) -> None:
        """In all partitions of both topics, to a reader of another process."""
        partitions = [*await log.topic(partitions=2), *await log.topic()]
        other = await log.another()
        writer = await log.writer()
        for number in range(10):
            await writer.commit([record for at in partitions for record in make_records(at, b"%d" % number)])

            for at in partitions:
                assert await log.values(at, other) == numbers(0, number + 1)

    async def test_a_large_commit_becomes_visible_completely(self, log: Log) -> None:
        """5000 records of two partitions, more than one request of a driver has."""
        first, second = await log.topic(partitions=2)
        writer = await log.writer()
        await writer.commit([Outgoing(*(first, second)[n % 2], b"k", b"%d" % n) for n in range(5000)])

        assert await log.values(first) == [b"%d" % n for n in range(0, 5000, 2)]
        assert await log.values(second) == [b"%d" % n for n in range(1, 5000, 2)]

    async def test_a_commit_seen_in_part_becomes_visible_completely(self, log: Log) -> None:
        """A reader beside commits that are completed or cancelled never sees a part of one that stays incomplete."""
        log.needs("transactional")
        left, right = (await log.topic())[0], (await log.topic(partitions=2))[1]
        name, done = fresh_name("writer"), asyncio.Event()
        tails = [await log.tail(at, broker=await log.another()) for at in (left, right)]

        async def write() -> None:
            for turn in range(30):
                writer = await log.writer(name)
                records = [
                    *make_records(left, b"%d" % turn, b"%d" % turn),
                    *make_records(right, b"%d" % turn, b"%d" % turn),
                ]
                commit = asyncio.create_task(writer.commit(records if turn % 2 else records[::-1]))
                if turn % 3:
                    await asyncio.wait([commit], timeout=0.0007 * turn)
                    commit.cancel()
                await asyncio.gather(commit, return_exceptions=True)
            await log.writer(name)  # decides the last one
            done.set()

        async def watch(tail: Tail) -> None:
            while not done.is_set():
                await tail.read(timeout=0.01)

        async with asyncio.timeout(60):
            await asyncio.gather(write(), *map(watch, tails))
        final = {at: await log.all(at) for at in (left, right)}
        seen = {record.value for tail in tails for records in tail.seen.values() for record in records}

        for tail in tails:
            for at, records in tail.seen.items():
                assert records == final[at][: len(records)], "records that were read have disappeared"
        for value in seen:
            for at, records in final.items():
                assert [record.value for record in records].count(value) == 2, f"half of {value!r} at {at} was visible"

    async def test_a_reply_to_a_part_of_a_commit_follows_all_of_it(self, log: Log) -> None:
        """The rest of a commit may become visible later, but before any record that was written after the first part
        was read. So a definition is processed before the events that follow it.
        """
        log.needs("transactional")
        left, right = (await log.topic())[0], (await log.topic(partitions=2))[1]
        other = await log.another()
        writer = await log.writer()
        rounds = 40

        async def write() -> None:
            for turn in range(rounds):
                records = make_records(left, b"%d" % turn) + make_records(right, b"%d" % turn)
                await writer.commit(records if turn % 2 else records[::-1])

        async def answer(seen: TopicPartition, implied: TopicPartition) -> None:
            tail, answered = await log.tail(seen, broker=other), 0
            while answered < rounds:
                known = len(tail.seen[seen])
                await tail.read(timeout=1.0)
                parts = [record.value for record in tail.seen[seen][known:] if record.key is None]
                await other.append(make_records(implied, *parts, key=b"answer"))
                answered += len(parts)

        async with asyncio.timeout(60):
            await asyncio.gather(write(), answer(left, right), answer(right, left))

        for at in (left, right):
            order = [(record.value, record.key) for record in await log.all(at)]
            for turn in range(rounds):
                assert order.index((b"%d" % turn, None)) < order.index((b"%d" % turn, b"answer")), f"{at}: {turn}"

    async def test_records_below_a_reported_end_do_not_change(self, log: Log) -> None:
        """Commits are completed or cancelled meanwhile. A reader that has reached an end has everything before it:
        neither does a record appear there later, nor does one disappear.
        """
        log.needs("transactional")
        (at,) = await log.topic()
        name, done = fresh_name("writer"), asyncio.Event()
        other = await log.another()
        reported: list[tuple[int, list[Record]]] = []

        async def write() -> None:
            for turn in range(30):
                writer = await log.writer(name)
                commit = asyncio.create_task(writer.commit(make_records(at, b"%d" % turn, b"%d" % turn)))
                if turn % 3:
                    await asyncio.wait([commit], timeout=0.0007 * turn)
                    commit.cancel()
                await asyncio.gather(commit, return_exceptions=True)
            done.set()

        async def watch() -> None:
            while not done.is_set():
                await asyncio.sleep(0.001)
                end = await log.end(at, other)
                reported.append((end, [record for record in await log.all(at, broker=other) if record.offset < end]))

        async with asyncio.timeout(60):
            await asyncio.gather(write(), watch())
        await log.writer(name)
        final = await log.all(at)

        for end, records in reported:
            assert records == [record for record in final if record.offset < end], f"records below {end} changed"

    async def test_a_failed_commit_shows_nothing(self, log: Log) -> None:
        """The part with an unknown partition is refused, and so is the rest; other writers go on."""
        log.needs("transactional")
        (at,) = await log.topic()
        writer = await log.writer()
        await writer.commit(make_records(at, b"before"))
        with pytest.raises(NotFoundError):
            await writer.commit([*make_records(at, b"never"), Outgoing(at.topic, 9, None, b"nowhere")])
        await (await log.writer()).commit(make_records(at, b"after"))

        assert await log.values(at) == [b"before", b"after"]

    async def test_a_cancelled_commit_shows_all_or_nothing(self, log: Log) -> None:
        """Whenever it is cancelled; and it is decided when a newer writer is open."""
        log.needs("transactional")
        left, right = await log.topic(partitions=2)
        name = fresh_name("writer")
        for turn in range(20):
            writer = await log.writer(name)
            records = [*make_records(left, b"%d" % turn, b"'"), *make_records(right, b"%d" % turn, b"'")]
            commit = asyncio.create_task(writer.commit(records * 3))
            await asyncio.sleep(0.0004 * turn)
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
            await writer.close()
            newer = await log.writer(name)
            shown = [(await log.values(at)).count(b"%d" % turn) for at in (left, right)]
            await newer.commit(make_records(left, b"next") + make_records(right, b"next"))

            assert shown in ([0, 0], [3, 3]), "half a transaction was visible"
            assert [(await log.values(at)).count(b"%d" % turn) for at in (left, right)] == shown, "visible later"

            await newer.close()

    async def test_a_writer_closed_during_a_commit_blocks_no_reader(self, log: Log) -> None:
        """Readers must not wait for a transaction that nobody will end: what was appended after it is read."""
        (at,) = await log.topic()
        writer = await log.writer()
        commit = asyncio.create_task(writer.commit(make_records(at, *[b"x" * 50_000] * 40)))
        await asyncio.sleep(0.003)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        await writer.close()
        await log.broker.append(make_records(at, b"after"))

        assert b"after" in await log.values(at), "even when the commit in progress is ordered after it"

    async def test_writers_of_different_names_do_not_deadlock(self, log: Log) -> None:
        """Six at once commit to the same partitions, half of them in the opposite order."""
        partitions = await log.topic(partitions=4)
        brokers = [log.broker, await log.another()]

        async def write(number: int) -> None:
            writer = await log.writer(broker=brokers[number % 2])
            order = partitions if number % 2 else partitions[::-1]
            for turn in range(25):
                await writer.commit([Outgoing(*at, b"%d" % number, b"%d" % turn) for at in order])

        async with asyncio.timeout(60):
            await asyncio.gather(*(write(number) for number in range(6)))

        for at in partitions:
            assert len(await log.all(at)) == 150
