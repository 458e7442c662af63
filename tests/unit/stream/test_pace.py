"""When a shard's turns follow one another, and how large they are, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog, MemoryWriter

from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.ports.broker import Outgoing
from streamsched.stream.shards.pace import ENOUGH, HURRY_S, MIN_RECORDS, OVER_COMMIT, TurnPace
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.telemetry.shard_stats import ShardStats
from tests.simulation.log import SimulationClock
from tests.simulation.loop import SimulationLoop
from tests.simulation.seed import quiet
from tests.support.shard_cluster import ShardCluster, landed, schedule

COMMIT_S = 0.004
DATASETS = 20
SECONDS = 4


def steady(pace: TurnPace, records_s: float, *, seconds: float = 5.0, folding_s: float = 0.0) -> float:
    """Has turns follow one another at a steady rate of records; returns the seconds between the last two."""
    now = began = 0.0
    while now < seconds:
        began, now = now, now + max(pace.pause_s(now), 1 / records_s, COMMIT_S + folding_s)
        pace.record_turn(round((now - began) * records_s), began=now, folding_s=folding_s, commit_s=COMMIT_S)
    return now - began


def made(linger_s: float = 0.04) -> TurnPace:
    return TurnPace(max_records=8_000, linger_s=linger_s, now=0.0)


def test_the_first_records_and_those_after_a_pause_do_not_wait() -> None:
    pace = made()
    assert pace.pause_s(0.0) == 0.0
    steady(pace, 500)
    assert pace.pause_s(9.0) == 0.0


def test_few_records_hardly_wait_and_many_do_so_for_a_few_commits() -> None:
    assert steady(made(), 20) == pytest.approx(1 / 20)
    assert steady(made(), 500) == pytest.approx(OVER_COMMIT * COMMIT_S, rel=0.2)


def test_nobody_waits_longer_than_the_setting_says() -> None:
    assert steady(made(linger_s=0.01), 500) == pytest.approx(0.01, rel=0.2)
    assert steady(made(linger_s=0.0), 500) == pytest.approx(COMMIT_S)


def test_a_backlog_is_read_at_once() -> None:
    pace = made()
    pace.record_turn(ENOUGH, began=1.0, folding_s=0.01, commit_s=COMMIT_S)
    assert pace.pause_s(1.0) == 0.0


def test_after_a_barrier_turns_begin_at_once_for_a_while() -> None:
    pace = made()
    steady(pace, 500)
    pace.record_turn(10, began=20.0, folding_s=0.001, commit_s=COMMIT_S)
    assert pace.pause_s(20.0) > 0
    pace.hurry(20.0)
    assert pace.pause_s(20.0) == pace.pause_s(20.0 + HURRY_S - 0.001) == 0.0
    pace.record_turn(10, began=21.0, folding_s=0.001, commit_s=COMMIT_S)
    assert pace.pause_s(21.0) > 0


def test_long_turns_become_smaller_and_short_ones_larger() -> None:
    pace = made()
    steady(pace, 500)
    assert pace.max_records == 8_000
    steady(pace, 500, folding_s=0.5, seconds=20.0)
    assert pace.max_records == MIN_RECORDS


class SlowWriter(MemoryWriter):
    async def commit(self, records: Sequence[Outgoing]) -> None:
        await asyncio.sleep(COMMIT_S)
        await super().commit(records)


class SlowBroker(MemoryBroker):
    """Its commits take as long as Kafka's."""

    async def writer(self, name: str) -> SlowWriter:
        return SlowWriter(self._log, name)


class Load(NamedTuple):
    turns_per_event: float
    jobs: int


async def load(loop: SimulationLoop, *, events_s: int, linger_s: float) -> Load:
    """Four shards under a steady load for `SECONDS` of virtual time, a schedule for each event."""
    cluster = await ShardCluster.create(SlowBroker(MemoryLog(SimulationClock(loop))), 4)
    stats, settings = [ShardStats() for _ in range(4)], ShardSettings(linger_s=linger_s, verdicts=False)
    cluster.shards = [Shard(cluster.broker, number, settings, stats=each) for number, each in enumerate(stats)]
    await asyncio.gather(*(shard.start() for shard in cluster.shards))
    for number in range(DATASETS):
        await cluster.put(schedule(f"s{number}"), Partitions(DatasetRef("default", f"d{number}"), 1))
    await cluster.settle()
    before, events = sum(each.turns for each in stats), SECONDS * events_s
    for number in range(events):
        await cluster.emit(landed(number, f"d{number * 7 % DATASETS}"))
        await asyncio.sleep(1 / events_s)
    await cluster.settle()
    turns, jobs = sum(each.turns for each in stats) - before, len(await cluster.jobs())
    await cluster.stop()
    return Load(turns / events, jobs)


@pytest.mark.parametrize(("events_s", "at_most"), [(50, 1.0), (500, 0.4)])
def test_a_steady_load_takes_fewer_turns_with_a_linger(events_s: int, at_most: float) -> None:
    """Beside none: at 50 events/s the same, at 500 four tenths at most."""
    with quiet():
        loops = [SimulationLoop("pace") for _ in range(2)]
        without, lingering = (
            loop.run(load(loop, events_s=events_s, linger_s=linger_s))
            for loop, linger_s in zip(loops, (0.0, ShardSettings().linger_s), strict=True)
        )
    assert without.jobs == lingering.jobs == SECONDS * events_s
    assert lingering.turns_per_event <= at_most * without.turns_per_event
