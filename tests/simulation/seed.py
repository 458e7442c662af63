"""One seed: a cluster, its traffic and its faults, from the beginning to the judgement."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import structlog
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.signals.home import schedule_of
from streamsched.domain.signals.signal import Replay
from streamsched.log.topics import LAUNCH, POSITION_KEY, PUBLIC, SIGNALS, TRIGGERS_CHANGELOG, WAKEUPS, topic_specs
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.stream.agents.halts import read_halts
from streamsched.stream.shards.fair_reader import FEW
from streamsched.stream.turn import Positions, decode_positions
from tests.simulation.database import Database
from tests.simulation.fault import Fate, Fault, draw
from tests.simulation.judge import Watch, judge
from tests.simulation.log import Bug, SimulationClock, WatchedLog
from tests.simulation.loop import SimulationLoop, StandstillError
from tests.simulation.simulated_cluster import SimulatedCluster
from tests.simulation.traffic import Traffic
from tests.simulation.wire import Trace, Wire
from tests.support.judgement import Judgement

#: Calls among which faults are drawn: about as many as a run without any makes.
_CALLS: Final = 350
#: Virtual seconds after the last fault within which everything must have come to rest.
_REST_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run showed. Two runs with the same `digest` were the same, call by call."""

    seed: int
    met: Sequence[Fault]
    calls: int
    jobs: int
    judgement: Judgement
    digest: str
    trace: Sequence[str]


def drawn(seed: int) -> tuple[Fault, ...]:
    """The faults of a seed."""
    return draw(f"{seed} misfortunes", calls=_CALLS)


def run(seed: int, *, plan: Sequence[Fault] | None = None, bug: Bug | None = None) -> Outcome:
    """Runs a seed, with its own faults or with those of `plan`."""
    loop, trace, judgement = SimulationLoop(f"{seed} order"), Trace(), Judgement()
    fate = Fate(tuple(plan) if plan is not None else drawn(seed))
    watch = Watch(judgement)
    with quiet():
        try:
            wire = Wire(loop, f"{seed} wire", fate, trace)
            loop.run(_world(seed, loop, wire, watch=watch, judgement=judgement, bug=bug))
        except StandstillError as standstill:
            judgement.miss(f"it stands still: {standstill}")
    return Outcome(seed, tuple(fate.met), fate.calls, watch.jobs, judgement, trace.digest, trace.lines)


async def _world(
    seed: int, loop: SimulationLoop, wire: Wire, *, watch: Watch, judgement: Judgement, bug: Bug | None
) -> None:
    rng = random.Random(f"{seed} traffic")
    clock, shards = SimulationClock(loop), rng.choice((1, 2, 3, 4, 6))
    log, database = WatchedLog(clock, watch.see, random.Random(f"{seed} marks")), Database(clock)
    broker = MemoryBroker(log)
    await broker.create_topics(topic_specs(shards, timedelta(days=7)))
    most, few = rng.choice((3, 10, 100)), 1 if seed % 2 else FEW
    cluster = SimulatedCluster(loop, wire, log, database, max_records=most, few_records=few, bug=bug)
    wire.host = cluster
    cluster.open()
    traffic = Traffic(rng, broker, database, shards=shards, events=rng.choice((20, 60)))
    keeping = asyncio.create_task(_clean(broker, rng.uniform(0.3, 5.0)))
    await traffic.run()
    wire.fate.end()
    await _rest(loop, log, database, judgement)
    if replays := _replays(log):
        await broker.append(replays)
        await _rest(loop, log, database, judgement)
    keeping.cancel()
    watch.end()
    for failure in cluster.failures:
        judgement.spoil(failure)
    judge(log, database, traffic.reported, judgement)


async def _clean(broker: MemoryBroker, every_s: float) -> None:
    """Compacts the changelogs under the shards' feet."""
    while True:
        await asyncio.sleep(every_s)
        await broker.maintain()


async def _rest(loop: SimulationLoop, log: WatchedLog, database: Database, judgement: Judgement) -> None:
    """Waits until all is judged, stored and sent."""
    until = loop.time() + _REST_S
    while behind := _behind(log, database):
        if loop.time() > until:
            judgement.miss(f"no rest within {_REST_S:g} s: {behind}")
            return
        await asyncio.sleep(0.5)


def _replays(log: MemoryLog) -> list[Outgoing]:
    """What an operator does for the schedules in error. Two processes may end by chance in the careful turn of the same
    record, which is set apart then: in one of some hundred seeds.
    """
    found: list[Outgoing] = []
    for shard, part in enumerate(log.topics[TRIGGERS_CHANGELOG]):
        halts = read_halts({record.key: record.value for record in part.records if record.key is not None})
        for key, halt in halts.items():
            ref, affinity = schedule_of(key)
            found.append(Outgoing(SIGNALS, shard, *signal_codec.encode(Replay(ref, halt.generation), affinity)))
    return found


def _behind(log: WatchedLog, database: Database) -> list[str]:
    """What has still to be shown, taken, stored or sent."""
    behind = [f"not shown yet of {at.topic}/{at.partition}" for at, held in log.held.items() if held]
    behind += [f"{len(database.outbox)} in the outbox"] if database.outbox else []
    behind += [f"{len(database.wakes)} wake-ups"] if database.wakes else []
    for topic in (LAUNCH, WAKEUPS):
        for number, part in enumerate(log.topics[topic]):
            if database.positions.get((topic, number), 0) < part.end:
                behind.append(f"{topic}/{number}")
    for number in range(len(log.topics[SIGNALS])):
        reached = _reached(log, number)
        sources = [TopicPartition(SIGNALS, number), *(TopicPartition(topic, number) for topic in PUBLIC)]
        behind += [f"{at.topic}/{at.partition}" for at in sources if reached.get(at, 0) < log.partition(*at).end]
    return behind


def _reached(log: MemoryLog, shard: int) -> Positions:
    """The positions of a shard, as its changelog has them."""
    for record in reversed(log.topics[TRIGGERS_CHANGELOG][shard].records):
        if record.key == POSITION_KEY:
            return decode_positions(record.value or b"")
    return {}


@contextmanager
def quiet() -> Iterator[None]:
    """What the product logs of its faults fills no screen."""
    logging.disable(logging.CRITICAL)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL), cache_logger_on_first_use=False
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        logging.disable(logging.NOTSET)
