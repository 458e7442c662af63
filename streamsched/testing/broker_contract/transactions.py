"""What one commit carries becomes visible together, at the latest when it returns, or not at all."""

from __future__ import annotations

import asyncio

import pytest

from streamsched.domain.errors import NotFoundError
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.testing.broker_contract.harness import Log, fresh, numbers, outgoing


class Transactions:
    """`Writer.commit`."""

    async def test_a_commit_is_visible_everywhere_when_it_returns(self, log: Log) -> None:
        partitions = [*await log.topic(partitions=2), *await log.topic()]
        other = await log.another()
        writer = await log.writer()
        for number in range(10):
            await writer.commit([record for at in partitions for record in outgoing(at, b"%d" % number)])

            for at in partitions:
                assert await log.values(at, other) == numbers(0, number + 1)

    async def test_a_large_commit_arrives_whole(self, log: Log) -> None:
        first, second = await log.topic(partitions=2)
        writer = await log.writer()
        await writer.commit([Outgoing(*(first, second)[n % 2], b"k", b"%d" % n) for n in range(5000)])

        assert await log.values(first) == [b"%d" % n for n in range(0, 5000, 2)]
        assert await log.values(second) == [b"%d" % n for n in range(1, 5000, 2)]

    async def test_half_a_transaction_is_never_seen(self, log: Log) -> None:
        """Whoever has seen one record of a commit finds all others of it, wherever they look next."""
        log.needs("transactional")
        left, right = (await log.topic())[0], (await log.topic(partitions=2))[1]
        other = await log.another()
        writer = await log.writer()
        rounds = 60

        async def write() -> None:
            for number in range(rounds):
                records = outgoing(left, b"%d" % number) + outgoing(right, b"%d" % number)
                await writer.commit(records if number % 2 else records[::-1])

        async def watch(seen: TopicPartition, implied: TopicPartition) -> None:
            while (count := len(await log.all(seen, broker=other))) < rounds:
                await asyncio.sleep(0.001)

                assert len(await log.all(implied, broker=other)) >= count, "half a transaction was visible"

        async with asyncio.timeout(60):
            await asyncio.gather(write(), watch(left, right), watch(right, left))

    async def test_the_ends_never_show_half_a_transaction_either(self, log: Log) -> None:
        log.needs("transactional")
        left, right = await log.topic(partitions=2)
        other = await log.another()
        writer = await log.writer()
        done = asyncio.Event()

        async def write() -> None:
            for number in range(40):
                await writer.commit(outgoing(left, b"%d" % number, b"'") + outgoing(right, b"%d" % number, b"'"))
            done.set()

        async def watch() -> None:
            while not done.is_set():
                await asyncio.sleep(0.001)
                end = await log.end(left, other)
                implied = len(await log.all(right, broker=other))

                assert implied >= len([r for r in await log.all(left) if r.offset < end]), "an end ran ahead"

        async with asyncio.timeout(60):
            await asyncio.gather(write(), watch())

    async def test_a_commit_that_cannot_be_made_shows_nothing(self, log: Log) -> None:
        log.needs("transactional")
        (at,) = await log.topic()
        writer = await log.writer()
        await writer.commit(outgoing(at, b"before"))
        with pytest.raises(NotFoundError):
            await writer.commit([*outgoing(at, b"never"), Outgoing(at.topic, 9, None, b"nowhere")])
        await (await log.writer()).commit(outgoing(at, b"after"))

        assert await log.values(at) == [b"before", b"after"]

    async def test_a_commit_given_up_halfway_shows_all_or_nothing(self, log: Log) -> None:
        """Whenever its caller loses patience; and once a newer writer is open, it is decided."""
        log.needs("transactional")
        left, right = await log.topic(partitions=2)
        name = fresh("writer")
        for turn in range(20):
            writer = await log.writer(name)
            records = [*outgoing(left, b"%d" % turn, b"'"), *outgoing(right, b"%d" % turn, b"'")]
            commit = asyncio.create_task(writer.commit(records * 3))
            await asyncio.sleep(0.0004 * turn)
            commit.cancel()
            await asyncio.gather(commit, return_exceptions=True)
            await writer.close()
            newer = await log.writer(name)
            shown = [(await log.values(at)).count(b"%d" % turn) for at in (left, right)]
            await newer.commit(outgoing(left, b"next") + outgoing(right, b"next"))

            assert shown in ([0, 0], [3, 3]), "half a transaction was visible"
            assert [(await log.values(at)).count(b"%d" % turn) for at in (left, right)] == shown, "it came later"

            await newer.close()

    async def test_a_writer_that_went_away_in_the_middle_holds_nobody_up(self, log: Log) -> None:
        (at,) = await log.topic()
        writer = await log.writer()
        commit = asyncio.create_task(writer.commit(outgoing(at, *[b"x" * 50_000] * 40)))
        await asyncio.sleep(0.003)
        commit.cancel()
        await asyncio.gather(commit, return_exceptions=True)
        await writer.close()
        await log.broker.append(outgoing(at, b"after"))

        assert b"after" in await log.values(at), "also where what was under way came after it"

    async def test_writers_of_different_names_do_not_wait_for_each_other_in_a_circle(self, log: Log) -> None:
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
