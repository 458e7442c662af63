"""One schedule poisoned among many: the others never notice, and a replay makes up for all of it, whatever call of the
log breaks meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streamsched_brokers.memory import MemoryBroker, MemoryLog
from structlog.testing import capture_logs

from streamsched.domain.fold.cell import Cell
from streamsched.domain.fold.fold import Folded, TriggerState, fold
from streamsched.domain.names import DatasetRef
from streamsched.domain.signals.signal import Occurred, Replay, Signal
from streamsched.domain.triggers.trigger import Partitions, Per, Trigger, Within
from streamsched.stream.agents import schedule_home
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.shards.shard_runner import BackOff, ShardRunner
from streamsched.testing.clock import SettableClock
from tests.support.faulty_broker import Faults, FaultyBroker, When
from tests.support.health_checks import ALL_CHECKS
from tests.support.shard_cluster import NOON, ShardCluster, event_ids, landed, schedule, schedule_name

SHARDS = 2
FLIGHTS, WEATHER = (DatasetRef("default", name) for name in ("flights", "weather"))
TRIGGERS: Mapping[str, Trigger] = {
    "a": Partitions(FLIGHTS, 3),
    "b": Partitions(FLIGHTS, 2) & Partitions(WEATHER, 1),
    "c": Per(Partitions(FLIGHTS, 1) & Partitions(WEATHER, 1), ("n",)),
    "d": Within(Partitions(FLIGHTS, 4), timedelta(minutes=3)),
    "e": Partitions(WEATHER, 1),
}
SMALL_TURNS = ShardSettings(max_records=5, idle_s=0.05, verdicts=False)
AT_ONCE = BackOff(first=0.001, most=0.001)

Reports = Mapping[str, Sequence[tuple[str, datetime, Sequence[str]]]]


@dataclass(frozen=True)
class Story:
    """What happens: events in bursts a minute apart, who is poisoned by what, which calls break.

    Attributes:
        bad: the numbers of the events that this schedule's fold cannot take.
        tries: how often it is replayed before the mistake is mended.
    """

    bursts: Sequence[Sequence[tuple[str, int]]]
    ill: str
    bad: frozenset[int]
    tries: int
    faults: Mapping[int, When]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    random = Random(draw(st.integers(0, 1 << 32)))
    numbers = {"flights": 0, "weather": 0}
    bursts: list[list[tuple[str, int]]] = []
    for _ in range(random.randrange(2, 7)):
        burst: list[tuple[str, int]] = []
        for _ in range(random.randrange(1, 7)):
            dataset = random.choice(list(numbers))
            burst.append((dataset, numbers[dataset]))
            numbers[dataset] += 1
        bursts.append(burst)
    bad = frozenset(random.sample(range(12), random.randrange(1, 4)))
    faults = {random.randrange(40): random.choice(list(When)) for _ in range(random.randrange(4))}
    return Story(bursts, draw(st.sampled_from(sorted(TRIGGERS))), bad, random.randrange(3), faults)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


async def reported(story: Story, *, poisoned: bool) -> Reports:
    """Schedule → its jobs: id, when they were satisfied, and the events they took."""
    ill, bad = schedule(story.ill), set(story.bad) if poisoned else set()

    def mistaken(state: TriggerState | None, signal: Signal, *, at: datetime, cells: Mapping[str, Cell]) -> Folded:
        about_ill = state is not None and state.schedule == ill
        if about_ill and isinstance(signal, Occurred) and int(signal.event.id.rpartition("-")[2]) in bad:
            raise KeyError(signal.event.id)
        return fold(state, signal, at=at, cells=cells)

    clock = SettableClock(NOON)
    cluster = await ShardCluster.create(MemoryBroker(MemoryLog(clock)), SHARDS)
    faulty = FaultyBroker(cluster.broker, Faults(story.faults if poisoned else {}))

    def made(number: int) -> Shard:
        cluster.shards[number] = Shard(faulty, number, SMALL_TURNS)
        return cluster.shards[number]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(schedule_home, "fold", mistaken)
        patched.setattr(schedule_home, "REPLAYED", 2)
        for name, trigger in TRIGGERS.items():
            await cluster.put(schedule(name), trigger)
        cluster.shards = [Shard(cluster.broker, number) for number in range(SHARDS)]
        runners = [ShardRunner(lambda n=n: made(n), number=n, back_off=AT_ONCE) for n in range(SHARDS)]
        running = [asyncio.create_task(runner.run()) for runner in runners]
        try:
            for burst in story.bursts:
                await cluster.emit(*(landed(number, dataset) for dataset, number in burst))
                await cluster.settle()
                clock.advance(timedelta(minutes=1))
            for _ in range(story.tries):
                await cluster.signal(Replay(ill, 1))
                await cluster.settle()
            bad.clear()
            await cluster.signal(Replay(ill, 1))
            await cluster.settle()
            while await cluster.wake():
                await cluster.settle()
        finally:
            for runner in runners:
                runner.end()
            await asyncio.wait(running)
    found: dict[str, list[tuple[str, datetime, Sequence[str]]]] = {name: [] for name in TRIGGERS}
    for job in await cluster.jobs():
        found[schedule_name(job)].append((job.id, job.satisfied_at, event_ids(job)))
    return found


@given(stories())
@settings(max_examples=15, deadline=None, suppress_health_check=ALL_CHECKS)
def test_after_the_replay_the_jobs_are_those_of_a_run_that_never_broke(story: Story) -> None:
    well, ill = asyncio.run(reported(story, poisoned=False)), asyncio.run(reported(story, poisoned=True))

    assert {name: jobs for name, jobs in ill.items() if name != story.ill} == {
        name: jobs for name, jobs in well.items() if name != story.ill
    }
    assert ill[story.ill] == well[story.ill]
