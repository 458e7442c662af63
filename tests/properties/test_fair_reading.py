"""A shard takes every record once, those of a namespace in their order, and no namespace holds up another (ADR 42)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.codec import event as event_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.log.topics import EVENTS, topic_specs
from streamsched.ports.broker import Chunk, Outgoing, Record, TopicPartition
from streamsched.stream import backlogs as backlogs_module
from streamsched.stream.backlogs import MOST, Backlogs, decode, encode, fair_share, namespace
from streamsched.stream.shards.fair_reader import FairReader
from tests.support.shard_cluster import NOON

AT = TopicPartition(EVENTS, 0)
#: How many records each namespace appends between two reads, one after another.
APPENDS = st.lists(
    st.tuples(st.sampled_from("abcdefghijkl"), st.sampled_from((1, 2, 30, 300, 1500))), min_size=1, max_size=6
)
STEPS = st.lists(
    st.tuples(APPENDS, st.booleans(), st.booleans(), st.sampled_from((0, 10, 250, 1000))), min_size=1, max_size=8
)


class Shard:
    """Takes what a reader gives it, and starts over from what it has stored."""

    def __init__(self) -> None:
        self.log = MemoryLog()
        self.broker = MemoryBroker(self.log)
        self.taken: list[Record] = []
        self.positions = {AT: 0}
        self._stored: bytes | None = None
        self._reader: FairReader | None = None
        self._numbers = self._room = 0

    async def append(self, name: str, count: int) -> None:
        self._numbers += count
        await self.broker.append([Outgoing(EVENTS, 0, f"event:{name}.x".encode(), b"{}")] * count)

    async def restart(self) -> None:
        if self._reader is not None:
            await self._reader.close()
        self._reader = await FairReader.open(self.broker, self.positions, decode(self._stored), room=lambda: self._room)

    async def turn(self, *, room: int, in_order: bool, parts: int = 1) -> bool:
        """Returns whether there was anything to take."""
        assert self._reader is not None
        self._room = room
        chunks = await self._reader.read(max_records=1000, timeout=0.0, in_order=in_order)
        for taken in self._split(chunks) if in_order and parts > 1 else [chunks]:
            for chunk in taken:
                self.taken += chunk.records
            self.positions = self._reader.advance(self.positions, taken)
            self._stored = encode(self._reader.backlogs)
            self.check()
        return bool(chunks)

    def check(self) -> None:
        """What is said to be taken is."""
        offsets = [record.offset for record in self.taken]
        assert len(set(offsets)) == len(offsets), "taken twice"
        assert set(range(self.positions[AT])) <= set(offsets)
        of: defaultdict[str, list[int]] = defaultdict(list)
        for record in self.taken:
            of[namespace(record)].append(record.offset)
        assert all(sorted(found) == found for found in of.values()), "out of order"

    @staticmethod
    def _split(chunks: Sequence[Chunk]) -> list[list[Chunk]]:
        """Each chunk in halves, as a shard does that searches."""
        halves: list[list[Chunk]] = []
        for chunk in chunks:
            middle = len(chunk.records) // 2
            halves += [[chunk.part(half)] for half in (chunk.records[:middle], chunk.records[middle:]) if half]
            halves += [] if chunk.records else [[chunk]]
        return halves


@given(steps=STEPS)
def test_every_record_is_taken_once_and_in_the_order_of_its_namespace(
    steps: Sequence[tuple[Sequence[tuple[str, int]], bool, bool, int]],
) -> None:
    async def check() -> None:
        shard = Shard()
        await shard.broker.create_topics(topic_specs(1, timedelta(days=1)))
        await shard.restart()
        for appends, restarts, in_order, room in steps:
            for name, count in appends:
                await shard.append(name, count)
            if restarts:
                await shard.restart()
            for parts in (1, 2):
                await shard.turn(room=room, in_order=in_order, parts=parts)
        while await shard.turn(room=250, in_order=False):
            pass
        end = (await shard.broker.ends([AT]))[AT]
        assert len(shard.taken) == end == shard.positions[AT]
        assert shard._stored is None

    asyncio.run(check())


@given(flood=st.integers(1_000, 5_000), quiet=st.integers(1, 20), at=st.integers(0, 5_000), others=st.integers(0, 3))
def test_a_namespace_is_not_held_up_by_the_backlog_of_others(flood: int, quiet: int, at: int, others: int) -> None:
    """It is taken as soon as the shard has read so far, however little it takes of the backlogs."""

    async def check() -> None:
        shard = Shard()
        await shard.broker.create_topics(topic_specs(1, timedelta(days=1)))
        await shard.restart()
        first = min(at, flood)
        for name in ("flood", *(f"flood{n}" for n in range(others))):
            await shard.append(name, first)
        await shard.append("quiet", quiet)
        for name in ("flood", *(f"flood{n}" for n in range(others))):
            await shard.append(name, flood - first)
        for _ in range(1 + first * (1 + others) // 1000 + 1):
            await shard.turn(room=0, in_order=False)
        assert sum(namespace(record) == "quiet" for record in shard.taken) == quiet

    asyncio.run(check())


@given(counts=st.dictionaries(st.text(), st.integers(1, 10_000)), room=st.integers(1, 10_000))
def test_shares_use_the_room_and_are_equal_for_those_who_want_more(counts: dict[str, int], room: int) -> None:
    share = fair_share(counts, room)

    taken = sum(min(count, share) for count in counts.values())
    if sum(counts.values()) <= room:
        assert taken == sum(counts.values())
    else:
        assert taken <= max(room, len(counts))
        larger = [count for count in counts.values() if count > share]
        assert taken > room - len(larger) or share == 1


@pytest.mark.parametrize(
    ("key", "found"),
    [
        (b"partition:sales.flights", "sales"),
        (b"event:a-b_9.x.y", "a-b_9"),
        (b"program:ns.app.p", "ns"),
        (None, "inside"),
        (b"", "inside"),
        (b"flights", "inside"),
        (b"event:\0.x", "inside"),
        (b"event:" + b"n" * 256 + b".x", "inside"),
        (b"event:.x", "inside"),
    ],
)
def test_whose_record_it_is(key: bytes | None, found: str) -> None:
    event = event_codec.encode(Event("e", "s", NOON, CustomHappened(EventName("inside", "x"), {})))

    assert namespace(Record(0, key, event, 0)) == found


@pytest.mark.parametrize("value", [None, b"", b"{", b"[" * 100_000, b'{"id": "x"}'])
def test_a_record_that_is_no_event_is_nobodys(value: bytes | None) -> None:
    assert namespace(Record(0, None, value, 0)) == ""


def test_more_namespaces_than_there_are_backlogs_wait_for_one_another() -> None:
    names = [f"n{number}" for number in range(MOST + 5)]
    records = [Record(nth, f"event:{name}.x".encode(), b"", 0) for nth, name in enumerate(names * 100)]
    backlogs = Backlogs(0)

    taken = backlogs.take_next(Chunk(EVENTS, 0, records, len(records)), 100)

    assert len(backlogs.positions) == MOST
    assert len(taken.records) == 5 * 100 + MOST * (100 // len(names))


def test_backlogs_of_another_release_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = encode({AT: Backlogs(9, {"a": 3})})
    assert decode(stored) == {AT: Backlogs(9, {"a": 3})}

    monkeypatch.setattr(backlogs_module, "VERSION", 2)

    assert decode(stored) == {}


@pytest.mark.parametrize("time_ms", [-1, 1 << 62, int(NOON.timestamp() * 1_000_000)])
def test_a_record_with_a_time_that_is_none_says_nothing_of_how_long_its_namespace_waits(time_ms: int) -> None:
    """Such a time is none that PostgreSQL can store: the API would answer 500 to all."""
    records = [Record(nth, b"event:a.x", b"", time_ms) for nth in range(20)]
    backlogs = Backlogs(0)

    backlogs.take_next(Chunk(EVENTS, 0, records, 20), 5)
    assert (backlogs.positions, backlogs.since) == ({"a": 5}, {})
    backlogs.take_behind("a", Chunk(EVENTS, 0, records[5:10], 10))
    assert (backlogs.positions, backlogs.since) == ({"a": 10}, {})
    backlogs.take_behind("a", Chunk(EVENTS, 0, [records[10]._replace(time_ms=7)], 11))
    assert backlogs.since == {"a": 7}


def test_a_hundred_thousand_namespaces_in_one_read_are_all_taken() -> None:
    records = [Record(nth, b"event:n%d.x" % nth, b"", 0) for nth in range(100_000)]
    backlogs = Backlogs(0)

    assert list(backlogs.take_next(Chunk(EVENTS, 0, records, len(records)), 250).records) == records
    assert backlogs.positions == {}
