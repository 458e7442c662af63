"""Exactly once inside the log: whatever call breaks, before or after its effect, the launches are those of a naive
model that shares no code with the fold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog
from structlog.testing import capture_logs

from streamsched.domain.events.event import Event
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import Partitions
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from streamsched.stream.shards.shard import Shard, ShardSettings
from streamsched.stream.shards.shard_runner import BackOff, ShardRunner
from tests.support.faulty_broker import Faults, FaultyBroker, When
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule, schedule_name

SHARDS = 2
#: Schedule → dataset and how many partitions it wants.
WANTS: Mapping[str, tuple[str, int]] = {"one": ("flights", 3), "two": ("flights", 2), "three": ("weather", 4)}
SMALL_TURNS = ShardSettings(max_records=5, idle_s=0.2)
AT_ONCE = BackOff(first=0.001, most=0.001)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with capture_logs():
        yield


def script(seed: int) -> list[Event]:
    """Events of two datasets, some of them again later, as an emitter that retries sends them."""
    random = Random(seed)
    numbers = {"flights": 0, "weather": 0}
    events: list[Event] = []
    for _ in range(24):
        dataset = random.choice(("flights", "weather"))
        again = random.random() < 0.25 and numbers[dataset]
        number = random.randrange(numbers[dataset]) if again else numbers[dataset]
        numbers[dataset] += not again
        events.append(landed(number, dataset))
    return events


def naive(events: Sequence[Event]) -> dict[str, list[list[str]]]:
    """Schedule → for each of its launches, the ids of the events. Looks at ids alone."""
    seen = list(dict.fromkeys(event.id for event in events))
    launches: dict[str, list[list[str]]] = {}
    for name, (dataset, wanted) in WANTS.items():
        mine = [event_id for event_id in seen if event_id.startswith(dataset)]
        launches[name] = [mine[at : at + wanted] for at in range(0, len(mine) - wanted + 1, wanted)]
    return launches


async def play(events: Sequence[Event], faults: Faults, broker: Broker | None = None) -> dict[str, list[list[str]]]:
    """What two shards launch while the broker (one in memory, when none is given) breaks under them."""
    cluster = await ShardCluster.create(broker or MemoryBroker(MemoryLog()), SHARDS)
    for name, (dataset, wanted) in WANTS.items():
        await cluster.put(schedule(name), Partitions(DatasetRef("default", dataset), wanted))
    faulty = FaultyBroker(cluster.broker, faults)

    def made(number: int) -> Shard:
        cluster.shards[number] = Shard(faulty, number, SMALL_TURNS)
        return cluster.shards[number]

    cluster.shards = [Shard(cluster.broker, number) for number in range(SHARDS)]
    runners = [
        ShardRunner(lambda number=number: made(number), number=number, back_off=AT_ONCE) for number in range(SHARDS)
    ]
    running = [asyncio.create_task(runner.run()) for runner in runners]
    try:
        for at in range(0, len(events), 6):
            await cluster.emit(*events[at : at + 6])
            await asyncio.sleep(0)
        await cluster.settle()
    finally:
        for runner in runners:
            runner.end()
        await asyncio.wait_for(asyncio.gather(*running), 20)
    found: dict[str, list[list[str]]] = {name: [] for name in WANTS}
    for job in await cluster.jobs():
        assert job.sequence == len(found[schedule_name(job)]) + 1
        found[schedule_name(job)].append(event_ids(job))
    return found


async def test_without_faults_the_naive_model_is_met() -> None:
    events = script(0)

    assert await play(events, Faults()) == naive(events)


@pytest.mark.long
@pytest.mark.parametrize("when", When)
async def test_any_one_call_may_break(when: When) -> None:
    events = script(1)
    expected = naive(events)
    measured = Faults()
    await play(events, measured)

    for call in range(len(measured.calls)):
        faults = Faults({call: when})
        assert await play(events, faults) == expected, f"{faults.broken} at {call}: {faults.calls}"


@pytest.mark.parametrize("seed", range(20))
async def test_many_calls_may_break_one_after_another(seed: int) -> None:
    random = Random(seed)
    events = script(seed)
    faults = Faults({call: random.choice(list(When)) for call in range(200) if random.random() < 0.15})

    assert await play(events, faults) == naive(events), f"{faults.broken}"


@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.parametrize("seed", range(4))
async def test_on_kafka_too(kafka_log: str, seed: int) -> None:
    random = Random(seed)
    events = script(seed)
    faults = Faults({call: random.choice(list(When)) for call in range(60) if random.random() < 0.15})
    broker = await open_broker(kafka_log)
    try:
        assert await play(events, faults, broker) == naive(events), f"{faults.broken}"
    finally:
        await broker.close()
