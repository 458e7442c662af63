"""A turn that fails is halved until the one record that fails it stands alone; that one is refused, no other."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import cycle
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamsched_brokers.memory import MemoryBroker, MemoryWriter
from structlog.testing import capture_logs

from streamsched.admin import dead_letters as letters
from streamsched.codec.events import fast_path
from streamsched.codec.records import halt as halt_codec
from streamsched.domain.errors import ConfigurationError, ConflictError, NotFoundError, TooLargeError, UnavailableError
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.signal import Replay
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Then
from streamsched.log.dead_letters import LARGEST
from streamsched.log.topics import DEAD_LETTER, LAUNCH, PARTITIONS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Chunk, Outgoing, Record, TopicPartition
from streamsched.stream.agents.event_home import EventHome
from streamsched.stream.poison_search import PoisonSearch
from streamsched.stream.shards.shard import ShardSettings
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule, schedule_name

FLIGHTS = DatasetRef("default", "flights")
QUICK = ShardSettings(idle_s=0.05)


# -- the search, without a shard


class Log:
    """Partitions of numbered records, read as a shard reads them: what is not committed comes again."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = sizes
        self.at = [0] * len(sizes)

    def read(self, answers: Answers) -> list[Chunk]:
        waiting = [part for part, (at, size) in enumerate(zip(self.at, self.sizes, strict=True)) if at < size]
        read = answers(waiting) if waiting else ()
        return [
            Chunk(
                "t", part, [Record(n, None, None, 0) for n in range(self.at[part], self.sizes[part])], self.sizes[part]
            )
            for part in read
        ]


#: Of the partitions where something waits, those whose leaders have answered when a read is over.
Answers = Callable[[Sequence[int]], Sequence[int]]


def everybody(waiting: Sequence[int]) -> Sequence[int]:
    return waiting


def searched(
    sizes: Sequence[int], fails: Callable[[set[tuple[int, int]]], bool], answers: Answers = everybody
) -> tuple[list[tuple[int, int]], int]:
    """Which records were refused, and how many lives it took; every other record was taken exactly once, in order."""
    log, poison_search = Log(sizes), PoisonSearch()
    refused: list[tuple[int, int]] = []
    done: list[tuple[int, int]] = []
    lives, left = 1, list[Chunk]()
    for _ in range(5_000):
        chunks = left or log.read(answers)
        if not chunks:
            assert sorted(done) == [(part, n) for part, size in enumerate(sizes) for n in range(size)]
            assert all([n for p, n in done if p == part] == list(range(size)) for part, size in enumerate(sizes))
            return refused, lives
        taken, left = poison_search.split(chunks)
        names = [(chunk.partition, record.offset) for chunk in taken for record in chunk.records]
        if poison_search.poison(taken) is not None:
            refused += names
        elif fails(set(names)):
            poison_search.record_failure(taken, TooLargeError("t", 2, 1))
            lives, left = lives + 1, []
            continue
        done += names
        for chunk in taken:
            log.at[chunk.partition] = chunk.next_position
        poison_search.record_success(taken)
    raise AssertionError("no end")


@given(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.data())
def test_exactly_the_records_that_fail_a_turn_of_their_own_are_refused(sizes: list[int], data: st.DataObject) -> None:
    names = [(part, n) for part, size in enumerate(sizes) for n in range(size)]
    bad = set(data.draw(st.lists(st.sampled_from(names), max_size=4))) if names else set()

    refused, lives = searched(sizes, lambda turn: bool(turn & bad))

    assert sorted(refused) == sorted(bad)
    assert lives <= 1 + 14 * len(bad)


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.randoms(use_true_random=False), st.data())
def test_they_are_found_whichever_answers_first(sizes: list[int], rng: Random, data: st.DataObject) -> None:
    names = [(part, n) for part, size in enumerate(sizes) for n in range(size)]
    bad = set(data.draw(st.lists(st.sampled_from(names), max_size=4)))

    refused, _ = searched(
        sizes, lambda turn: bool(turn & bad), lambda waiting: rng.sample(waiting, rng.randint(1, len(waiting)))
    )

    assert sorted(refused) == sorted(bad)


def test_a_search_goes_on_past_traffic_that_has_nothing_to_do_with_it() -> None:
    """The poison's node answers every other time; what comes from the other node goes well."""
    poison_search, poison = PoisonSearch(), Chunk("t", 0, [Record(n, None, None, 0) for n in range(64)], 64)
    for life in range(9):
        innocent = Chunk("t", 1, [Record(life, None, None, 0)], life + 1)
        taken, left = poison_search.split([innocent])
        assert (taken, left) == ([innocent], [])
        poison_search.record_success(taken)
        taken, left = poison_search.split([poison])
        if poison_search.poison(taken):
            return
        poison_search.record_failure(taken, TooLargeError("t", 2, 1))
    taken, _ = poison_search.split([poison])
    assert poison_search.poison(taken) is not None


def test_two_that_fail_in_turns_are_both_found() -> None:
    """Of two nodes now this one answers first, now that one, and each has a record that fails."""
    order = cycle((0, 1))

    refused, lives = searched(
        [40, 40],
        lambda turn: bool(turn & {(0, 17), (1, 23)}),
        lambda waiting: [part for part in (next(order),) if part in waiting] or waiting,
    )

    assert sorted(refused) == [(0, 17), (1, 23)]
    assert lives <= 30


def test_one_bad_record_among_eight_thousand_costs_a_dozen_lives() -> None:
    refused, lives = searched([8000], lambda turn: (0, 5000) in turn)

    assert refused == [(0, 5000)]
    assert lives <= 17


def test_what_is_only_too_much_together_is_taken_apart_and_nothing_is_refused() -> None:
    refused, _ = searched([100], lambda turn: len(turn) > 9)

    assert refused == []


def test_where_the_log_was_away_nothing_is_ever_refused() -> None:
    poison_search, chunk = PoisonSearch(), Chunk("t", 0, [Record(7, None, None, 0)], 8)
    for _ in range(10):
        poison_search.record_failure([chunk], UnavailableError("away"))

    assert poison_search.poison([chunk]) is None
    assert not poison_search.is_searching


@pytest.mark.parametrize(
    "fault", [ConfigurationError("PostgreSQL: permission denied for table log"), NotFoundError("topic", "launch")]
)
def test_where_the_installation_is_wrong_nothing_is_ever_refused(fault: Exception) -> None:
    poison_search, chunk = PoisonSearch(), Chunk("t", 0, [Record(7, None, None, 0)], 8)
    for _ in range(10):
        poison_search.record_failure([chunk], fault)

    assert poison_search.poison([chunk]) is None
    assert not poison_search.is_searching


def test_there_is_no_hurry_once_the_next_turn_would_be_the_same() -> None:
    poison_search, chunk = PoisonSearch(), Chunk("t", 0, [Record(7, None, None, 0)], 8)
    hurries = list[bool]()
    for _ in range(10):
        poison_search.begin()
        poison_search.record_failure([chunk], TooLargeError("t", 2, 1))
        hurries.append(poison_search.is_searching)

    assert hurries == [True] * 5 + [False] * 5, "three turns of its own, and three ways to refuse it"


def test_a_life_that_ends_outside_a_turn_is_no_part_of_a_search() -> None:
    poison_search, chunk = PoisonSearch(), Chunk("t", 0, [Record(n, None, None, 0) for n in range(9)], 9)
    poison_search.record_failure([chunk], TooLargeError("t", 2, 1))
    assert poison_search.is_searching

    poison_search.begin()

    assert not poison_search.is_searching


# -- shards


class StrictWriter:
    """Takes records up to a size, as Kafka does."""

    def __init__(self, inner: MemoryWriter, broker: StrictBroker) -> None:
        self._inner = inner
        self._broker = broker

    async def commit(self, records: Sequence[Outgoing]) -> None:
        for topic, _, key, value in records:
            if (size := len(key or b"") + len(value or b"")) > self._broker.limit:
                raise TooLargeError(topic, size, self._broker.limit)
        await self._inner.commit(records)

    async def close(self) -> None:
        await self._inner.close()


class StrictBroker(MemoryBroker):
    """A log in memory whose writers are strict; plain appends are the tests' own."""

    limit = 1 << 20

    async def writer(self, name: str) -> StrictWriter:  # type: ignore[override]
        return StrictWriter(await super().writer(name), self)


@pytest.fixture
async def strict(cluster: ShardCluster) -> AsyncIterator[ShardCluster]:
    """Shards that are looked after, on a log that takes records of a mebibyte."""
    cluster.broker = StrictBroker(cluster.broker._log)  # type: ignore[attr-defined]
    with capture_logs():
        async with cluster.tended(QUICK):
            yield cluster


def big(number: int, size: int) -> Event:
    return Event(f"big-{number}", "test", NOON, CustomHappened(EventName("default", "big"), {"x": "x" * size}))


async def test_a_launch_larger_than_the_log_takes_halts_its_schedule_alone(strict: ShardCluster) -> None:
    await strict.put(schedule("big"), CustomEvent(EventName("default", "big"), times=4))
    await strict.put(schedule("small"), Partitions(FLIGHTS, 2))
    await strict.settle()
    for number in range(4):
        await strict.emit(big(number, 300_000), landed(number))
    await strict.emit(*(landed(number) for number in range(4, 40)))
    await strict.settle(60)

    jobs = await strict.jobs()
    assert [schedule_name(job) for job in jobs] == ["small"] * 20
    (error,) = await errors(strict)
    assert error.reason.startswith("TooLargeError: a record for topic 'launch' has")
    assert (error.signal, error.parked) == ("event big-3 of test", 1)

    await strict.signal(Replay(schedule("big"), 1))
    await strict.settle(60)
    assert [each.attempts for each in await errors(strict)] == [1]

    strict.broker.limit = 8 << 20  # type: ignore[attr-defined]
    await strict.signal(Replay(schedule("big"), 1))
    await strict.settle(60)
    (job,) = [job for job in await strict.jobs() if schedule_name(job) == "big"]
    assert event_ids(job) == [f"big-{n}" for n in range(4)]
    assert await errors(strict) == []


async def test_an_event_that_cannot_be_sent_on_is_a_dead_letter_alone_and_can_be_sent_again(
    strict: ShardCluster,
) -> None:
    await strict.put(schedule("big"), CustomEvent(EventName("default", "big")))
    await strict.put(schedule("small"), Partitions(FLIGHTS, 1))
    await strict.emit(*(landed(number) for number in range(20)), big(0, 1_100_000), big(1, 10))
    await strict.settle(60)

    assert [event_ids(job)[0] for job in await strict.jobs() if schedule_name(job) == "big"] == ["big-1"]
    assert len([job for job in await strict.jobs() if schedule_name(job) == "small"]) == 20
    (reported,) = await strict.dead_letters()
    assert "TooLargeError: a record for topic 'signals' has" in reported["reason"]


async def test_a_state_that_is_too_large_halts_its_schedule_alone_though_others_wait_with_it(
    strict: ShardCluster,
) -> None:
    """Signals that wait for their order are judged in one turn, whatever schedule of the shard they are of."""
    go = CustomEvent(EventName("default", "go"))
    await strict.put(schedule("big"), Then(CustomEvent(EventName("default", "big"), times=4), go))
    for name in ("s0", "s1", "s2", "s3"):
        await strict.put(schedule(name), Then(Partitions(FLIGHTS, 2), go))
    await strict.settle()
    await strict.emit(*(big(number, 300_000) for number in range(4)), landed(0), landed(1))
    await strict.settle(60)
    await strict.emit(Event("go", "test", NOON, CustomHappened(EventName("default", "go"))))
    await strict.settle(60)

    assert sorted(map(schedule_name, await strict.jobs())) == ["s0", "s1", "s2", "s3"]
    (error,) = await errors(strict)
    assert error.kind == "TooLargeError"
    assert (error.signal, error.parked) == ("event big-3 of test", 2)


async def test_a_letter_is_never_larger_than_its_record_may_be_and_replays_all_of_it(strict: ShardCluster) -> None:
    raw = b'{"id":' + b"x" * 1_000_000
    await strict.broker.append([Outgoing(PARTITIONS, 1, b"k", raw)])
    await strict.settle(60)

    (reported,) = await strict.dead_letters()
    assert reported["cut"] == len(raw) + 1 > LARGEST
    one = await letters.dead_letter(strict.broker, "1/0")
    place = await letters.replay(strict.broker, one)
    assert place == TopicPartition(PARTITIONS, 1)
    assert [record.value for record in await strict.records(PARTITIONS)] == [raw, raw]


# -- poison elsewhere


@pytest.fixture
def logs() -> Iterator[None]:
    with capture_logs():
        yield


@pytest.mark.usefixtures("logs")
async def test_a_record_that_breaks_ingest_is_a_dead_letter_alone(
    cluster: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sane = fast_path.read_occurred

    def broken(raw: bytes, logged_ms: int = 0) -> object:
        if b"flights-3" in raw:
            raise RecursionError("too deep")
        return sane(raw, logged_ms)

    monkeypatch.setattr(fast_path, "read_occurred", broken)
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.emit(*(landed(n) for n in range(6)))
    await cluster.settle()

    assert len(await cluster.jobs()) == 5
    (reported,) = await cluster.dead_letters()
    assert reported["reason"] == "cannot be processed: RecursionError: too deep"


@pytest.mark.usefixtures("logs")
async def test_an_event_that_breaks_its_home_has_not_been_seen_and_is_counted_when_it_is_sent_again(
    cluster: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    sane = EventHome._listeners

    def broken(home: EventHome, key: bytes) -> object:
        raise OverflowError

    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.settle()
    monkeypatch.setattr(EventHome, "_listeners", broken)
    await cluster.emit(landed(0))
    await cluster.settle()
    monkeypatch.setattr(EventHome, "_listeners", sane)
    assert await cluster.jobs() == []

    (reported,) = await cluster.dead_letters()
    ends = await cluster.broker.ends([TopicPartition(DEAD_LETTER, part) for part in range(cluster.count)])
    (place,) = (f"{at.partition}/0" for at, end in ends.items() if end)
    assert (await letters.replay(cluster.broker, await letters.dead_letter(cluster.broker, place))).topic == PARTITIONS
    await cluster.settle()

    assert reported["topic"] == "partitions"
    assert [event_ids(job) for job in await cluster.jobs()] == [["flights-0"]]


async def test_a_letter_of_a_schedules_home_is_never_sent_again(cluster: ShardCluster) -> None:
    one = letters.DeadLetter("0/0", LAUNCH, 0, 0, NOON, "$", "", b"k", b"{}")
    with pytest.raises(ConflictError, match="never repeated"):
        await letters.replay(cluster.broker, one)


async def errors(cluster: ShardCluster) -> list[halt_codec.Halt]:
    rows = {record.key: record.value for record in await cluster.records(TRIGGERS_CHANGELOG)}
    return [halt_codec.decode(value) for key, value in rows.items() if key and value and key.endswith(b"\x1ferror")]
