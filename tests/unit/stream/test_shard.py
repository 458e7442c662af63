"""A shard from its fence to its end, on a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryReader

from streamsched.domain.errors import FencedError, NotFoundError
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.trigger import CustomEvent, Partitions
from streamsched.ports.broker import Chunk, Outgoing, TopicPartition
from streamsched.ports.topics import EVENTS, PARTITIONS, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.stream.event_home import Seen
from streamsched.stream.shard import Shard, ShardSettings
from streamsched.testing.clock import SettableClock
from streamsched.testing.town import Town, event_ids, landed, schedule

FLIGHTS = DatasetRef("default", "flights")


async def test_four_events_fire_a_schedule_that_wants_four(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 4))

    await town.emit(*(landed(n) for n in range(10)))
    await town.settled()

    first, second = await town.jobs()
    assert (event_ids(first), event_ids(second)) == (
        [f"flights-{n}" for n in range(4)],
        [f"flights-{n}" for n in range(4, 8)],
    )
    assert (first.id, second.id) == ("default.town.s.1.1", "default.town.s.1.2")


async def test_a_restart_goes_on_where_it_was(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 4))
    await town.emit(landed(0), landed(1), landed(2))
    await town.settled()
    await town.stop()

    await town.emit(landed(3))
    await town.start()
    await town.settled()

    (job,) = await town.jobs()
    assert event_ids(job) == [f"flights-{n}" for n in range(4)]


async def test_state_outlives_compaction(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 3))
    for number in range(5):
        await town.emit(landed(number))
        await town.settled()
    await town.stop()
    before = len(await town.records(TRIGGERS_CHANGELOG))
    await town.broker.maintain()

    await town.start()
    await town.emit(landed(5), landed(0))
    await town.settled()

    assert len(await town.records(TRIGGERS_CHANGELOG)) < before
    assert [event_ids(job)[0] for job in await town.jobs()] == ["flights-0", "flights-3"]


async def test_what_cannot_be_read_becomes_a_dead_letter_and_blocks_nobody(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 1))
    bad = [b"{", b'{"id":"a","source":"s","type":"custom","data":{"name":5}}', b'{"id":"t","source":"s","type":"tick"}']

    await town.broker.append([Outgoing(PARTITIONS, 1, b"k", value) for value in bad])
    await town.emit(landed(0), partition=1)
    await town.settled()

    letters = await town.dead_letters()
    assert [(letter["topic"], letter["partition"], letter["offset"]) for letter in letters] == [
        (PARTITIONS, 1, offset) for offset in range(3)
    ]
    assert all(letter["reason"] and letter["path"].startswith("$") for letter in letters)
    assert len(await town.jobs()) == 1


async def test_a_bad_signal_becomes_a_dead_letter_too(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 1))

    await town.broker.append(
        [
            Outgoing("signals", n % 3, key, b'{"signal":"put"}')
            for n, key in enumerate([b"schedule:x", b"partition:y", None])
        ]
    )
    await town.emit(landed(0))
    await town.settled()

    assert len(await town.dead_letters()) == 3
    assert len(await town.jobs()) == 1


async def test_an_event_nobody_listens_to_is_no_error(town: Town) -> None:
    await town.start()

    await town.emit(landed(0, "unknown"))
    await town.settled()

    assert await town.dead_letters() == []
    assert await town.jobs() == []


async def test_a_repeated_id_of_the_same_source_counts_once(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))

    await town.emit(landed(0), landed(0), landed(0, source="other"), landed(1))
    await town.settled()

    (job,) = await town.jobs()
    assert [(event.id, event.source) for c in job.contributions for event in c.events] == [
        ("flights-0", "test"),
        ("flights-0", "other"),
    ]


async def test_known_ids_are_in_order_before_the_first_event_comes(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Millions of them in one go, in the middle of a turn, would cost the worker its leases."""
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))
    await town.emit(landed(0))
    await town.settled()
    await town.stop()

    monkeypatch.delattr(Seen, "_ages")
    await town.start()
    await town.emit(landed(0), landed(1))
    await town.settled()

    assert [event_ids(job) for job in await town.jobs()] == [["flights-0", "flights-1"]]


async def test_a_repeat_after_a_restart_still_counts_once(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))
    await town.emit(landed(0))
    await town.settled()
    await town.stop()

    await town.start()
    await town.emit(landed(0))
    await town.settled()

    assert await town.jobs() == []


async def test_an_id_is_forgotten_after_the_horizon(town: Town, clock: SettableClock) -> None:
    await town.start(ShardSettings(dedupe_horizon=timedelta(hours=1)))
    await town.put(schedule(), Partitions(FLIGHTS, 2))

    await town.emit(landed(0))
    await town.settled()
    clock.advance(timedelta(hours=2))
    await town.emit(landed(0))
    await town.settled()

    assert len(await town.jobs()) == 1


async def test_old_ids_leave_the_table_as_new_ones_come(town: Town, clock: SettableClock) -> None:
    await town.start(ShardSettings(dedupe_horizon=timedelta(hours=1)))
    await town.emit(*(landed(n) for n in range(50)))
    await town.settled()
    clock.advance(timedelta(hours=2))
    await town.emit(*(landed(n) for n in range(100, 150)))
    await town.settled()
    await town.stop()
    clock.advance(timedelta(days=3))
    await town.broker.maintain()

    kept = [record for record in await town.records("streamsched-seen-changelog") if record.value is not None]

    assert len(kept) == 50


async def test_events_without_ids_are_told_apart_by_their_place_in_the_log(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 2))
    nameless = b'{"type":"partitions.added","data":{"dataset":"flights","partitions":["day=1"]}}'

    await town.broker.append([Outgoing(PARTITIONS, 2, None, nameless), Outgoing(PARTITIONS, 2, None, nameless)])
    await town.settled()

    (job,) = await town.jobs()
    assert event_ids(job) == ["log:partitions/2/0", "log:partitions/2/1"]


async def test_any_public_topic_and_partition_leads_an_event_home(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 3))

    for partition in range(3):
        await town.emit(landed(partition), partition=partition)
        await town.settled()

    (job,) = await town.jobs()
    assert event_ids(job) == ["flights-0", "flights-1", "flights-2"]


async def test_whoever_was_fenced_makes_nothing_visible_any_more(town: Town) -> None:
    await town.start()
    await town.put(schedule(), Partitions(FLIGHTS, 1))
    await town.settled()
    old = town.shards

    await town.start()
    await town.emit(*(landed(n) for n in range(20)))
    await town.settled()

    assert len(await town.jobs()) == 20
    assert len({job.id for job in await town.jobs()}) == 20
    for shard in old:
        await town.broker.append([Outgoing(EVENTS, shard.number, None, b"?")])
        with pytest.raises(FencedError):
            await asyncio.wait_for(asyncio.shield(shard.ended), 5)
        await shard.stop()


async def test_a_shard_needs_its_topics() -> None:
    shard = Shard(MemoryBroker(MemoryLog()), 0)

    with pytest.raises(NotFoundError):
        await shard.start()
    await shard.stop()


async def test_a_shard_can_be_stopped_before_it_was_started_and_twice(town: Town) -> None:
    shard = Shard(town.broker, 0)
    await shard.stop()
    await shard.stop()

    again = Shard(town.broker, 0)
    await again.start()
    await asyncio.gather(again.stop(), again.stop())


async def test_faust_says_nothing_and_leaves_nothing_running(
    town: Town, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    before = asyncio.all_tasks()
    with caplog.at_level("DEBUG"):
        await town.start()
        await town.emit(landed(0))
        await town.settled()
        await town.stop()

    assert caplog.records == []
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "raw",
    [
        rb'{"id":"a","source":"s","time":"2026-01-01T00:00:00Z","type":"custom","data":{"name":"n"},"signal":"drop"}',
        rb'{"id":"a","source":"s","time":"2026-01-01T00:00:00Z","type":"custom","data":{"name":"n"},"s\u0069gnal":"drop"}',
        rb'{"id":"a","source":"s","time":"2026-01-01T00:00:00Z","type":"custom","data":{"name":"n"},"id":"log:b"}',
        rb'{"source":"s","id":"a","type":"custom","data":{"name":"n"},"signal":"put"}',
    ],
)
async def test_an_event_cannot_pass_for_control(town: Town, raw: bytes) -> None:
    await town.start()
    await town.put(schedule(), CustomEvent(EventName("default", "n")))

    await town.broker.append([Outgoing(EVENTS, 0, None, raw)])
    await town.settled()

    assert len(await town.jobs()) + len(await town.dead_letters()) == 1
    for record in await town.records(SIGNALS):
        assert record.value is not None
        if record.value.startswith(b'{"id"'):
            assert b"ignal" not in record.value


class DeafReader(MemoryReader):
    """Loses the cancellation of a read, as `wait_for` does when what it waits for comes at the same moment."""

    async def read(self, *, max_records: int, timeout: float) -> list[Chunk]:
        try:
            return await super().read(max_records=max_records, timeout=timeout)
        except asyncio.CancelledError:
            return []


class DeafBroker(MemoryBroker):
    """A memory broker with deaf readers."""

    async def reader(self, positions: Mapping[TopicPartition, int]) -> MemoryReader:
        return DeafReader(self._log, positions)


async def test_a_shard_stops_although_the_cancellation_of_its_read_was_lost() -> None:
    town = await Town.found(DeafBroker(MemoryLog()), 1)
    await town.start()
    await town.settled()
    await asyncio.sleep(0)

    await asyncio.wait_for(town.stop(), 5)
