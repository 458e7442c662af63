"""What Kafka does not take is found and refused alone, by real shards on a real Kafka; its neighbours go on. The search
itself is tested in `tests/unit/stream/test_poison_search.py`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from streamsched_brokers.kafka.driver import KafkaBroker, open_broker
from structlog.testing import capture_logs

from streamsched.admin import dead_letters as letters
from streamsched.codec.records import halt as halt_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.fold.fold import Folded, fold
from streamsched.domain.fold.halt import Halt
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.signals.signal import Occurred, Replay
from streamsched.domain.triggers.trigger import CustomEvent, Partitions
from streamsched.log.records import records
from streamsched.log.topics import DEAD_LETTER, LAUNCH, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.stream.agents import schedule_home
from streamsched.stream.shards.shard import ShardSettings
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule, schedule_name
from tests.topic_settings import change

pytestmark = pytest.mark.kafka

FLIGHTS = DatasetRef("default", "flights")
#: The least that may be the largest record.
MEBIBYTE = 1 << 20


@pytest.fixture
async def broker(kafka_log: str) -> AsyncIterator[KafkaBroker]:
    made = await open_broker(f"{kafka_log}&max_record_bytes={MEBIBYTE}")
    yield made
    await made.close()


@pytest.fixture
async def cluster(broker: KafkaBroker) -> AsyncIterator[ShardCluster]:
    """Shards that are looked after, and a schedule that must never wait."""
    made = await ShardCluster.create(broker)
    with capture_logs():
        async with made.tended(ShardSettings(idle_s=0.1)):
            await made.put(schedule("well"), Partitions(FLIGHTS, 1))
            yield made


async def takes(cluster: ShardCluster, topic: str, most: int) -> None:
    """Limits the topic's batches to so many bytes, once Kafka's brokers apply it."""
    assert isinstance(cluster.broker, KafkaBroker)
    await change(cluster.broker, topic, {"max.message.bytes": str(most)})


def big(number: int, size: int) -> Event:
    return Event(f"big-{number}", "test", NOON, CustomHappened(EventName("default", "big"), {"x": "x" * size}))


async def halts(cluster: ShardCluster) -> dict[str, Halt]:
    """The schedules in error, by name."""
    rows = {record.key or b"": record.value for record in await cluster.records(TRIGGERS_CHANGELOG)}
    end = b"\x1f\x1ferror"
    return {
        key.removesuffix(end).rpartition(b".")[2].decode(): halt_codec.decode(value)
        for key, value in rows.items()
        if key.endswith(end) and value is not None
    }


async def launched(cluster: ShardCluster, name: str) -> list[list[str]]:
    """The events of each job of a schedule."""
    await cluster.settle(90)
    return [event_ids(job) for job in await cluster.jobs() if schedule_name(job) == name]


async def test_a_state_larger_than_a_record_may_be_halts_its_schedule_alone(cluster: ShardCluster) -> None:
    await cluster.put(schedule("hoard"), CustomEvent(EventName("default", "big"), times=100))
    for number in range(5):
        await cluster.emit(big(number, 300_000), *(landed(10 * number + n) for n in range(10)))

    assert sorted(await launched(cluster, "well")) == sorted([f"flights-{n}"] for n in range(50))
    (halt,) = (await halts(cluster)).values()
    assert halt.reason.startswith(f"TooLargeError: a record for topic '{TRIGGERS_CHANGELOG}' has")
    assert (halt.signal, halt.parked) == ("event big-3 of test", 2)


async def test_a_launch_that_its_topic_takes_no_longer_waits_in_error_until_it_does(cluster: ShardCluster) -> None:
    """Small launches that are too much only together are taken apart, and none is refused."""
    await takes(cluster, LAUNCH, 20_000)
    await cluster.put(schedule("big"), CustomEvent(EventName("default", "big"), times=3))
    await cluster.emit(*(landed(n) for n in range(100)), *(big(n, 8_000) for n in range(4)))

    assert len(await launched(cluster, "well")) == 100
    assert await launched(cluster, "big") == []
    assert [(name, halt.signal, halt.parked) for name, halt in (await halts(cluster)).items()] == [
        ("big", "event big-2 of test", 2)
    ]

    await takes(cluster, LAUNCH, MEBIBYTE)
    await cluster.signal(Replay(schedule("big"), 1))

    assert await launched(cluster, "big") == [["big-0", "big-1", "big-2"]]
    assert await halts(cluster) == {}


async def test_an_event_that_cannot_be_sent_on_is_a_dead_letter_alone_even_where_letters_must_be_small(
    cluster: ShardCluster,
) -> None:
    await cluster.put(schedule("big"), CustomEvent(EventName("default", "big")))
    await takes(cluster, SIGNALS, 20_000)
    await takes(cluster, DEAD_LETTER, 5_000)
    await cluster.emit(*(landed(n) for n in range(50)), big(0, 40_000), big(1, 4_000), big(2, 40_000))

    assert len(await launched(cluster, "well")) == 50
    assert await launched(cluster, "big") == [["big-1"]]
    assert len(reported := await cluster.dead_letters()) == 2
    assert all("TooLargeError" in letter["reason"] for letter in reported)

    await takes(cluster, SIGNALS, MEBIBYTE)
    for place in [place for place, end in (await cluster.ends()).items() if place.topic == DEAD_LETTER and end]:
        async for record in records(cluster.broker, place):
            letter = await letters.dead_letter(cluster.broker, f"{place.partition}/{record.offset}")
            await letters.replay(cluster.broker, letter)
    assert sorted(await launched(cluster, "big")) == [["big-0"], ["big-1"], ["big-2"]]


async def test_an_event_with_more_listeners_than_a_transaction_has_room_for_is_a_dead_letter_alone(
    cluster: ShardCluster,
) -> None:
    """It would take longer than transactions may, again and again."""
    for number in range(200):
        await cluster.put(schedule(f"many{number}"), CustomEvent(EventName("default", "big")))
    await cluster.emit(big(0, 1_000), big(1, 900_000), big(2, 1_000), *(landed(n) for n in range(5)))

    assert len(await launched(cluster, "well")) == 5
    assert await launched(cluster, "many7") == [["big-0"], ["big-2"]]
    (reported,) = await cluster.dead_letters()
    assert "TooLargeError: what goes together, most of it to topic 'signals', has 180" in reported["reason"]


async def test_a_fold_that_raises_parks_its_schedules_signals_through_a_change_of_owners(
    cluster: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ill(state, signal, *, at, cells) -> Folded:
        if state is not None and state.schedule == schedule("ill") and isinstance(signal, Occurred):
            raise ZeroDivisionError("unexpected error")
        return fold(state, signal, at=at, cells=cells)

    monkeypatch.setattr(schedule_home, "fold", ill)
    await cluster.put(schedule("ill"), Partitions(FLIGHTS, 2))
    await cluster.emit(*(landed(n) for n in range(5)))
    assert len(await launched(cluster, "well")) == 5
    assert (await halts(cluster))["ill"].parked == 5

    monkeypatch.setattr(schedule_home, "fold", fold)
    successors = ShardCluster(cluster.broker, cluster.count)
    await successors.start()
    await successors.signal(Replay(schedule("ill"), 1))
    await successors.emit(landed(5))

    assert await launched(successors, "ill") == [[f"flights-{n}", f"flights-{n + 1}"] for n in (0, 2, 4)]
    assert await halts(successors) == {}
    await successors.stop()
