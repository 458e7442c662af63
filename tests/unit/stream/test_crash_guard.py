"""Processes that end in the middle of a turn: few of them find the record, and only that one is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import DecodeError
from streamsched.log.topics import ATTEMPT_KEY
from streamsched.ports.broker import Chunk, Record, TopicPartition
from streamsched.stream import crash_guard
from streamsched.stream.crash_guard import SINGLES, CrashGuard, Records, ShardAttempt, Span
from streamsched.testing.examples import examples

MOST = 1_000


class Log:
    """Partitions of numbered records, the positions of a shard, and what its changelog says of the last process."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.at = [0] * len(sizes)
        self.attempt: bytes | None = None

    def read(self) -> list[Chunk]:
        return [
            Chunk("t", part, [Record(n, None, None, 0) for n in range(at, min(size, at + MOST))], min(size, at + MOST))
            for part, (at, size) in enumerate(zip(self.at, self.sizes, strict=True))
            if at < size
        ]

    def commit(self, value: bytes | None, chunks: Sequence[Chunk] = ()) -> None:
        self.attempt = value
        for chunk in chunks:
            self.at[chunk.partition] = chunk.next_position


class Process:
    """Takes everything; whether it came to the end, or was ended by a record."""

    def __init__(self, log: Log, name: str) -> None:
        self.log = log
        self.guard = CrashGuard(0, name, asyncio.Lock())
        known = None if log.attempt is None else crash_guard.decode(log.attempt)
        log.commit(self.guard.take_over(known, records=MOST * len(log.sizes)).value)

    async def run(self, bad: set[tuple[int, int]], refused: list[tuple[int, int]], turns: list[int]) -> bool:
        guard, log = self.guard, self.log
        left: list[Chunk] = []
        while chunks := left or log.read():
            taken, left = chunks, []
            if careful := guard.careful:
                taken, left = guard.split(chunks)
                log.commit((await guard.begin(taken)).value)
            names = [(chunk.partition, record.offset) for chunk in taken for record in chunk.records]
            if careful and guard.poison(taken):
                refused += names
            elif bad & set(names):
                return False
            turns.append(len(names))
            log.commit(guard.after(taken).value if careful else log.attempt, taken)
            guard.record_commit()
        log.commit(guard.clean_stop().value)
        return True


async def ended(sizes: Sequence[int], bad: set[tuple[int, int]]) -> int:
    """How many processes these records end; all others are taken, and they are refused."""
    log, refused, turns = Log(sizes), list[tuple[int, int]](), list[int]()
    for processes in range(1, 5 * len(bad) + 2):
        if await Process(log, f"p{processes}").run(bad, refused, turns):
            assert sorted(refused) == sorted(bad)
            assert log.at == list(sizes)
            assert sum(turns) == sum(sizes)
            assert log.attempt is None
            return processes - 1
    raise AssertionError("no end")


@examples(40)
@given(st.lists(st.integers(0, 1_500), min_size=1, max_size=3), st.data())
def test_a_record_ends_at_most_five_processes_and_no_other_is_refused(sizes: list[int], data: st.DataObject) -> None:
    places = st.integers(0, len(sizes) - 1).flatmap(
        lambda part: st.tuples(st.just(part), st.integers(0, max(0, sizes[part] - 1)))
    )
    bad = {each for each in data.draw(st.sets(places, max_size=3)) if each[1] < sizes[each[0]]}

    assert asyncio.run(ended(sizes, bad)) <= 5 * len(bad)


@examples(16)
@given(st.integers(0, SINGLES - 1))
def test_one_of_the_first_records_ends_four(offset: int) -> None:
    assert asyncio.run(ended([1_000], {(0, offset)})) == 4


async def test_a_record_in_whose_turn_two_processes_were_killed_by_chance_is_taken() -> None:
    log, refused = Log([3]), list[tuple[int, int]]()
    for name in ("first", "second", "third"):
        assert not await Process(log, name).run({(0, 0)}, refused, [])

    assert await Process(log, "last").run(set(), refused, [])

    assert refused == []
    assert log.at == [3]


async def test_a_process_that_was_only_killed_condemns_nothing_and_costs_few_turns() -> None:
    log, turns = Log([5_000]), list[int]()
    killed = Process(log, "killed")
    await killed.run({(0, 3_500)}, [], [])  # at any moment

    await Process(log, "next").run(set(), [], turns)

    assert log.at == [5_000]
    assert len(turns) < 40


async def test_only_one_shard_of_a_process_is_in_a_careful_turn() -> None:
    lock = asyncio.Lock()
    one, other = CrashGuard(0, "p", lock), CrashGuard(1, "p", lock)
    for guard in (one, other):
        guard.take_over(ShardAttempt("before"), records=10)
    chunk = [Chunk("t", 0, [Record(0, None, None, 0)], 1)]

    await one.begin(chunk)
    waits = asyncio.create_task(other.begin(chunk))
    await asyncio.sleep(0)
    assert not waits.done()
    one.record_commit()

    record = await waits
    assert record.key == ATTEMPT_KEY
    other.release()
    other.release()
    assert not lock.locked()


def test_what_this_process_wrote_itself_makes_nothing_careful() -> None:
    guard = CrashGuard(0, "p")

    guard.take_over(ShardAttempt("p", Records((), 1)), records=10)

    assert not guard.careful


def test_an_attempt_is_read_as_it_was_written() -> None:
    some = Records((Span(TopicPartition("signals", 3), 5, 9),), 4, 1)

    for attempt in (ShardAttempt("p"), ShardAttempt("p", some), ShardAttempt("p", some, some)):
        assert crash_guard.decode(crash_guard.encode(attempt)) == attempt
    with pytest.raises(DecodeError, match="version 2"):
        crash_guard.decode(b'{"v":2,"process":"p"}')
