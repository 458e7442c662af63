"""Opening a writer fences all older writers of the same name, immediately and permanently."""

from __future__ import annotations

import asyncio

import pytest

from streamsched.domain.errors import FencedError, UnavailableError
from streamsched.ports.broker import Writer
from streamsched.testing.broker_contract.harness import Log, fresh_name, make_records


class Fencing:
    """`Broker.writer`."""

    async def test_an_older_writer_is_fenced_and_shows_nothing(self, log: Log) -> None:
        """The error names the writer, and the refused commit shows nothing, also when the newer writer is of another
        process.
        """
        log.needs("fenced")
        (at,) = await log.topic()
        name = fresh_name("writer")
        old = await log.writer(name)
        await old.commit(make_records(at, b"mine"))
        new = await log.writer(name, await log.another())
        with pytest.raises(FencedError) as fenced:
            await old.commit(make_records(at, b"too late"))
        await new.commit(make_records(at, b"yours"))

        assert fenced.value.name == name
        assert await log.values(at) == [b"mine", b"yours"]

    async def test_a_fenced_writer_stays_fenced(self, log: Log) -> None:
        """Both older ones of three; closing them does not disturb the newest."""
        log.needs("fenced")
        (at,) = await log.topic()
        name = fresh_name("writer")
        first, second, third = [await log.writer(name, await log.another()) for _ in range(3)]
        for old in (first, second):
            with pytest.raises(FencedError):
                await old.commit(make_records(at, b"too late"))
        await third.commit(make_records(at, b"mine"))
        for old in (second, first):
            await old.close()
        await third.commit(make_records(at, b"mine again"))

        assert await log.values(at) == [b"mine", b"mine again"]

    async def test_a_fenced_writer_is_refused_at_every_attempt(self, log: Log) -> None:
        """A driver that reopened the writer silently would let two owners write alternately."""
        log.needs("fenced")
        (at,) = await log.topic()
        name = fresh_name("writer")
        old, new = await log.writer(name), await log.writer(name, await log.another())
        for number in range(4):
            with pytest.raises(FencedError):
                await old.commit(make_records(at, b"too late"))
            await new.commit(make_records(at, b"%d" % number))

        assert await log.values(at) == [b"0", b"1", b"2", b"3"]

    async def test_writers_of_other_names_are_not_fenced(self, log: Log) -> None:
        """A fence is of one name, whatever else is opened."""
        (at,) = await log.topic()
        mine = await log.writer()
        for _ in range(3):
            await log.writer()
        await mine.commit(make_records(at, b"still here"))

        assert await log.values(at) == [b"still here"]

    async def test_plain_appends_are_not_fenced(self, log: Log) -> None:
        """`append` has no writer, so no fence concerns it."""
        (at,) = await log.topic()
        name = fresh_name("writer")
        await log.writer(name)
        await log.writer(name)
        await log.broker.append(make_records(at, b"anyone"))

        assert await log.values(at) == [b"anyone"]

    async def test_nothing_of_the_old_writer_appears_after_the_new_one_is_open(self, log: Log) -> None:
        """The older writer commits continuously while the newer one opens: its acknowledged commits are visible when
        the newer one is open, and no other becomes visible later.
        """
        log.needs("fenced")
        other = await log.another()
        for turn in range(12):
            (at,) = await log.topic()
            name = fresh_name("writer")
            acknowledged: list[bytes] = []
            old = await log.writer(name)

            async def hammer(old: Writer = old, acknowledged: list[bytes] = acknowledged, at=at) -> None:
                for number in range(10_000):
                    await old.commit(make_records(at, b"%d" % number))
                    acknowledged.append(b"%d" % number)

            hammering = asyncio.create_task(hammer())
            await asyncio.sleep(0.005 + 0.0007 * turn)
            new = await log.writer(name, other)
            found = await log.values(at, other)
            with pytest.raises((FencedError, UnavailableError)):  # a log may be unavailable for a moment
                await hammering

            assert await log.values(at, other) == found
            assert found[: len(acknowledged)] == acknowledged
            assert len(found) <= len(acknowledged) + 1

            await new.commit(make_records(at, b"mine"))

            assert await log.values(at) == [*found, b"mine"]

    async def test_of_writers_opened_concurrently_one_remains(self, log: Log) -> None:
        """Of eight of one name, from two processes, exactly one can commit."""
        log.needs("fenced")
        (at,) = await log.topic()
        name = fresh_name("writer")
        brokers = [log.broker, await log.another()]
        writers = await asyncio.gather(*(brokers[n % 2].writer(name) for n in range(8)))
        outcomes = await asyncio.gather(
            *(writer.commit(make_records(at, b"%d" % n)) for n, writer in enumerate(writers)), return_exceptions=True
        )

        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["FencedError"] * 7 + ["NoneType"]
        assert await log.values(at) == [b"%d" % outcomes.index(None)]
