"""A shard from its fence to its end, on a log in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryReader

from streamsched.codec.records.known_ids import ENTRY, decode_batch
from streamsched.domain.errors import ConfigurationError, FencedError, NotFoundError
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.triggers.trigger import CustomEvent, Partitions
from streamsched.log.topics import ATTEMPT_KEY, EVENTS, PARTITIONS, SEEN_CHANGELOG, SIGNALS, TRIGGERS_CHANGELOG
from streamsched.ports.broker import Chunk, Outgoing, TopicPartition
from streamsched.stream.agents import homes
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.telemetry.shard_stats import ShardStats
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

FLIGHTS = DatasetRef("default", "flights")


async def test_four_events_fire_a_schedule_that_wants_four(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 4))

    await cluster.emit(*(landed(n) for n in range(10)))
    await cluster.settle()

    first, second = await cluster.jobs()
    assert (event_ids(first), event_ids(second)) == (
        [f"flights-{n}" for n in range(4)],
        [f"flights-{n}" for n in range(4, 8)],
    )
    assert (first.id, second.id) == ("default.town.s.1.1", "default.town.s.1.2")


async def test_a_restart_goes_on_where_it_was(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 4))
    await cluster.emit(landed(0), landed(1), landed(2))
    await cluster.settle()
    await cluster.stop()

    await cluster.emit(landed(3))
    await cluster.start()
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert event_ids(job) == [f"flights-{n}" for n in range(4)]


async def test_state_outlives_compaction(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 3))
    for number in range(5):
        await cluster.emit(landed(number))
        await cluster.settle()
    await cluster.stop()
    before = len(await cluster.records(TRIGGERS_CHANGELOG))
    await cluster.broker.maintain()

    await cluster.start()
    await cluster.emit(landed(5), landed(0))
    await cluster.settle()

    assert len(await cluster.records(TRIGGERS_CHANGELOG)) < before
    assert [event_ids(job)[0] for job in await cluster.jobs()] == ["flights-0", "flights-3"]


async def test_what_cannot_be_read_becomes_a_dead_letter_and_blocks_no_other(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    bad = [b"{", b'{"id":"a","source":"s","type":"custom","data":{"name":5}}', b'{"id":"t","source":"s","type":"tick"}']

    await cluster.broker.append([Outgoing(PARTITIONS, 1, b"k", value) for value in bad])
    await cluster.emit(landed(0), partition=1)
    await cluster.settle()

    letters = await cluster.dead_letters()
    assert [(letter["topic"], letter["partition"], letter["offset"]) for letter in letters] == [
        (PARTITIONS, 1, offset) for offset in range(3)
    ]
    assert all(letter["reason"] and letter["path"].startswith("$") for letter in letters)
    assert len(await cluster.jobs()) == 1


async def test_a_bad_signal_becomes_a_dead_letter_too(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))

    await cluster.broker.append(
        [
            Outgoing("signals", n % 3, key, b'{"signal":"put"}')
            for n, key in enumerate([b"schedule:x", b"partition:y", None])
        ]
    )
    await cluster.emit(landed(0))
    await cluster.settle()

    assert len(await cluster.dead_letters()) == 3
    assert len(await cluster.jobs()) == 1


async def test_an_event_without_listeners_is_no_error(cluster: ShardCluster) -> None:
    await cluster.start()

    await cluster.emit(landed(0, "unknown"))
    await cluster.settle()

    assert await cluster.dead_letters() == []
    assert await cluster.jobs() == []


async def test_a_repeated_id_of_the_same_source_counts_once(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2, distinct=False))

    await cluster.emit(landed(0), landed(0), landed(0, source="other"), landed(1))
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert [(event.id, event.source) for c in job.contributions for event in c.events] == [
        ("flights-0", "test"),
        ("flights-0", "other"),
    ]


async def test_a_repeat_after_a_restart_still_counts_once(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(landed(0))
    await cluster.settle()
    await cluster.stop()

    await cluster.start()
    await cluster.emit(landed(0))
    await cluster.settle()

    assert await cluster.jobs() == []


async def test_an_id_is_forgotten_after_the_horizon(cluster: ShardCluster, clock: SettableClock) -> None:
    await cluster.start(ShardSettings(dedupe_horizon=timedelta(hours=1)))
    await cluster.put(schedule(), Partitions(FLIGHTS, 2, distinct=False))

    await cluster.emit(landed(0))
    await cluster.settle()
    clock.advance(timedelta(hours=2))
    await cluster.emit(landed(0))
    await cluster.settle()

    assert len(await cluster.jobs()) == 1


async def test_old_ids_leave_the_changelog_as_new_ones_come(cluster: ShardCluster, clock: SettableClock) -> None:
    await cluster.start(ShardSettings(dedupe_horizon=timedelta(hours=1)))
    await cluster.emit(*(landed(n) for n in range(50)))
    await cluster.settle()
    clock.advance(timedelta(hours=2))
    await cluster.emit(*(landed(n) for n in range(100, 150)))
    await cluster.settle()
    await cluster.stop()
    clock.advance(timedelta(days=3))
    await cluster.broker.maintain()

    kept = [record.value for record in await cluster.records(SEEN_CHANGELOG) if record.value is not None]

    assert sum(len(decode_batch(value).body) // ENTRY for value in kept) == 50


@pytest.mark.parametrize(
    "row",
    [
        Outgoing(SEEN_CHANGELOG, 0, b"partition:default.flights\x1ftest\x1fflights-0", b"1700000000000"),
        Outgoing(TRIGGERS_CHANGELOG, 0, b"schedule:default.old.two", b'{"v":2,"schedule":"default.old.two"}'),
    ],
)
async def test_a_log_before_the_first_release_is_refused_and_left_as_it_is(
    cluster: ShardCluster, row: Outgoing
) -> None:
    await cluster.broker.append([row])

    with pytest.raises(ConfigurationError, match=r"older than release 0\.1\.0 and is left as it is"):
        await cluster.start()

    found = [record.key for record in await cluster.records(row.topic)]
    assert [key for key in found if key != ATTEMPT_KEY] == [row.key], "other shards have started"


async def test_what_cannot_be_read_among_known_ids_is_left_out_and_removed(
    cluster: ShardCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = {
        b"ids/0/batch/0": b"\x01?",
        b"ids/0/part/0": b"",
        b"ids/x/part/0": b"\x01",
        b"what": b"",
        b"a\x1fb\x1fc": b"soon",
    }
    await cluster.broker.append([Outgoing(SEEN_CHANGELOG, 0, key, value) for key, value in damaged.items()])

    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(*(landed(0, f"d{n}") for n in range(9)), landed(0), landed(0), landed(1))
    await cluster.settle()

    assert [event_ids(job) for job in await cluster.jobs()] == [["flights-0", "flights-1"]]
    assert capsys.readouterr().out.count("known_ids.unreadable") == len(damaged)
    newest = {r.key: r.value for r in await cluster.records(SEEN_CHANGELOG)}
    first, *others = damaged
    assert [newest[key] for key in others] == [None] * len(others)
    assert decode_batch(newest[first] or b"").body  # a new one of this name


async def test_events_without_ids_are_distinguished_by_their_place_in_the_log(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 2, distinct=False))
    nameless = b'{"type":"partitions.added","data":{"dataset":"flights","partitions":["day=1"]}}'

    await cluster.broker.append([Outgoing(PARTITIONS, 2, None, nameless), Outgoing(PARTITIONS, 2, None, nameless)])
    await cluster.settle()

    (job,) = await cluster.jobs()
    assert event_ids(job) == ["log:partitions/2/0", "log:partitions/2/1"]


async def test_any_public_topic_and_partition_leads_an_event_home(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 3))

    for partition in range(3):
        await cluster.emit(landed(partition), partition=partition)
        await cluster.settle()

    (job,) = await cluster.jobs()
    assert event_ids(job) == ["flights-0", "flights-1", "flights-2"]


async def test_a_fenced_writer_makes_nothing_visible_any_more(cluster: ShardCluster) -> None:
    await cluster.start()
    await cluster.put(schedule(), Partitions(FLIGHTS, 1))
    await cluster.settle()
    old = cluster.shards

    await cluster.start()
    await cluster.emit(*(landed(n) for n in range(20)))
    await cluster.settle()

    assert len(await cluster.jobs()) == 20
    assert len({job.id for job in await cluster.jobs()}) == 20
    for shard in old:
        await cluster.broker.append([Outgoing(EVENTS, shard.number, None, b"?")])
        with pytest.raises(FencedError):
            await asyncio.wait_for(asyncio.shield(shard.ended), 5)
        await shard.stop()


async def test_a_shard_needs_its_topics() -> None:
    shard = Shard(MemoryBroker(MemoryLog()), 0)

    with pytest.raises(NotFoundError):
        await shard.start()
    await shard.stop()


async def test_a_shard_can_be_stopped_before_it_was_started_and_twice(cluster: ShardCluster) -> None:
    shard = Shard(cluster.broker, 0)
    await shard.stop()
    await shard.stop()

    again = Shard(cluster.broker, 0)
    await again.start()
    await asyncio.gather(again.stop(), again.stop())


async def test_faust_says_nothing_and_leaves_nothing_running(
    cluster: ShardCluster, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    before = asyncio.all_tasks()
    with caplog.at_level("INFO"):
        await cluster.start()
        await cluster.emit(landed(0))
        await cluster.settle()
        await cluster.stop()

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
async def test_an_event_cannot_pass_for_control(cluster: ShardCluster, raw: bytes) -> None:
    await cluster.start()
    await cluster.put(schedule(), CustomEvent(EventName("default", "n")))

    await cluster.broker.append([Outgoing(EVENTS, 0, None, raw)])
    await cluster.settle()

    assert len(await cluster.jobs()) + len(await cluster.dead_letters()) == 1
    for record in await cluster.records(SIGNALS):
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
    cluster = await ShardCluster.create(DeafBroker(MemoryLog()), 1)
    await cluster.start()
    await cluster.settle()
    await asyncio.sleep(0)

    await asyncio.wait_for(cluster.stop(), 5)


async def test_the_loop_goes_on_while_a_long_turn_is_folded(
    cluster: ShardCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "STEP_S", -1.0)  # each signal is a step, and each row that is written
    await cluster.put(schedule(), Partitions(FLIGHTS, 2))
    await cluster.emit(*(landed(n) for n in range(400)))
    stats = [ShardStats() for _ in range(cluster.count)]
    cluster.shards = [Shard(cluster.broker, number, stats=each) for number, each in enumerate(stats)]
    await asyncio.gather(*(shard.start() for shard in cluster.shards))
    await cluster.settle()

    pairs = [[f"flights-{n}", f"flights-{n + 1}"] for n in range(0, 400, 2)]
    assert [event_ids(job) for job in await cluster.jobs()] == pairs
    assert max(each.progress for each in stats) > 400
    assert sum(each.turns for each in stats) < 50
