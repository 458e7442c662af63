"""An event whose homes are in the shard that reads it is judged in that turn; any other goes through `signals`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryReader

from streamsched.codec.records import judged as judged_codec
from streamsched.codec.records.judged import JudgedAt
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.signal import Occurred
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import CatchUpRead, TopicPartition
from streamsched.stream.agents.schedule_home import ScheduleHome
from streamsched.testing.clock import SettableClock
from tests.support.judged_order import read_signal
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule

FLIGHTS = DatasetRef("default", "flights")
#: Records of a definition: that it listens to one key, and itself.
DEFINITION = 2


@pytest.fixture
async def single(clock: SettableClock) -> AsyncIterator[ShardCluster]:
    """One shard, which has the home of everything."""
    made = await ShardCluster.create(MemoryBroker(MemoryLog(clock)), 1)
    yield made
    await made.stop()


async def judged(cluster: ShardCluster) -> list[tuple[str, str, JudgedAt]]:
    """Record key, event id and moment of what was judged at once."""
    found: list[tuple[str, str, JudgedAt]] = []
    for record in await cluster.records(JUDGED):
        at, signal = read_signal(JUDGED, record.key or b"", record.value or b"")
        assert at is not None
        assert isinstance(signal, Occurred)
        found.append(((record.key or b"").decode(), signal.event.id, at))
    return found


async def test_it_takes_one_turn_and_is_written_down(single: ShardCluster) -> None:
    await single.start()
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.settle()
    (shard,) = single.shards
    turns = shard._stats.turns

    await single.emit(landed(0))
    await single.settle()

    (job,) = await single.jobs()
    assert event_ids(job) == ["flights-0"]
    assert shard._stats.turns == turns + 1
    assert len(await single.records(SIGNALS)) == DEFINITION
    moment = JudgedAt(DEFINITION, int(NOON.timestamp() * 1000))
    assert await judged(single) == [
        ("schedule:default.town.s", "flights-0", moment),
        ("partition:default.flights", "flights-0", moment),
    ]


async def test_a_repeat_is_written_down_and_reaches_no_schedule(single: ShardCluster) -> None:
    await single.start()
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.emit(landed(0), landed(0))
    await single.settle()

    assert len(await single.jobs()) == 1
    assert [key.partition(":")[0] for key, _, _ in await judged(single)] == ["schedule", "partition", "partition"]


async def test_a_record_in_another_partition_is_only_slower(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 3))

    for partition in range(cluster.count):
        await cluster.emit(landed(partition), partition=partition)
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert sorted(event_ids(job)) == [f"flights-{n}" for n in range(3)]
    through_log = {record.key for record in await cluster.records(SIGNALS)}
    assert b"partition:default.flights" in through_log


async def test_a_change_that_was_acknowledged_before_the_event_decides(single: ShardCluster) -> None:
    """Both are there when the turn begins; the reader may return the event first."""
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.put(schedule(), Partitions(FLIGHTS, 2), generation=2)
    await single.emit(landed(0))
    await single.start()
    await single.settle()

    assert await single.jobs() == []

    await single.emit(landed(1))
    await single.settle()

    (job,) = await single.jobs()
    assert (job.generation, event_ids(job)) == (2, ["flights-0", "flights-1"])


async def test_behind_an_unfinished_transaction_events_go_through_the_log(
    single: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def held_back(*_: object, **__: object) -> CatchUpRead:
        return CatchUpRead((), False)

    monkeypatch.setattr(MemoryReader, "catch_up", held_back)
    await single.start()
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.settle()
    await single.emit(landed(0))
    await single.settle()

    assert len(await single.jobs()) == 1
    assert [record.key for record in await single.records(SIGNALS)][DEFINITION:] == [b"partition:default.flights"]
    assert [key for key, _, _ in await judged(single)] == ["schedule:default.town.s"]


async def test_what_was_caught_up_comes_once(single: ShardCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that returns the events alone; the changes come when the shard catches up."""
    read = MemoryReader.read

    async def public_only(reader: MemoryReader, *, max_records: int, timeout: float) -> list:
        chunks = await read(reader, max_records=max_records, timeout=timeout)
        public = [chunk for chunk in chunks if chunk.topic != SIGNALS]
        for chunk in chunks if public else ():
            if chunk.topic == SIGNALS:
                reader.seek(TopicPartition(SIGNALS, 0), chunk.records[0].offset)
        return public or chunks

    monkeypatch.setattr(MemoryReader, "read", public_only)
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.emit(landed(0))
    await single.start()
    await single.settle()

    (job,) = await single.jobs()
    assert event_ids(job) == ["flights-0"]
    assert await single.dead_letters() == []


async def test_time_does_not_go_back_for_a_schedule(single: ShardCluster, clock: SettableClock) -> None:
    """The event waited in the log while a definition came: it is judged as of that."""
    await single.emit(landed(0))
    clock.advance(timedelta(minutes=10))
    await single.put(schedule(), Partitions(FLIGHTS, 1))
    await single.start()
    await single.settle()

    times = {at.time_ms for _, _, at in await judged(single)}
    assert times == {int((NOON + timedelta(minutes=10)).timestamp() * 1000)}


@pytest.mark.parametrize("value", [b"", b"{}", b'{"judged":[1],"id":"e"}', b'{"judged":[-1,2],', b"\xff"])
def test_what_has_no_moment_is_refused(value: bytes) -> None:
    with pytest.raises(DecodeError, match=r"\$\.judged"):
        judged_codec.decode(value)


@pytest.mark.parametrize("at", [JudgedAt(0, 0), JudgedAt((1 << 63) - 1, 253_402_300_800_000)])
def test_a_moment_is_read_as_it_was_written(at: JudgedAt) -> None:
    assert judged_codec.decode(judged_codec.encode(b'{"id":"e"}', at)) == (at, b'{"id":"e"}')


async def test_no_event_overtakes_one_that_went_through_the_log(
    single: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second event cannot be judged at once, so that it goes through the log; the third comes in the same turn."""
    judge, failures = ScheduleHome.judge_at_once, ["flights-1"]

    def fails_once(home: ScheduleHome, key: bytes, signal: Occurred, time_ms: int) -> bool:
        if signal.event.id in failures:
            failures.remove(signal.event.id)
            return False
        return judge(home, key, signal, time_ms)

    monkeypatch.setattr(ScheduleHome, "judge_at_once", fails_once)
    await single.start()
    await single.put(schedule(), Partitions(FLIGHTS, 4))
    await single.emit(landed(0), landed(1), landed(2))
    await single.settle()
    await single.emit(landed(3))
    await single.settle()

    (job,) = await single.jobs()
    assert event_ids(job) == [f"flights-{n}" for n in range(4)]
    at_once = [event for key, event, _ in await judged(single) if key.startswith("schedule:")]
    assert at_once == ["flights-0", "flights-3"]
