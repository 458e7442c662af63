"""Kafka taken away from an installation under load: its brokers killed, its network cut. There is no intervention.

`one`, `three`: the only broker of the log, or one of three, each in turn, is killed and comes back. `cut`, `apart`: the
wires between a far side and the log, or PostgreSQL, are cut (needs root).

Two workers, a launcher (relay, intake, …) and emitters as processes; with `cut` and `apart` one of the workers, the
launcher and an emitter stand on a far side, a network namespace. In each trial 400 schedules are put by the relay, half
of them while the log is away, and 500 events a second go on all the time.

`recovery`: how long an event waited at most: since it was sent (on this side), and since all was there again. What
follows `shard.started` is what the workers logged about taking shards over.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import orjson

from compose.kafka.cluster import Cluster, NotReadyError, free_addresses
from compose.kafka.properties import Shape
from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker, Outgoing
from streamsched.process.supervision import wait_until_available
from streamsched.store.connections import open_pool
from tests.faults.judges.jobs import judge_rows, launched_rows
from tests.faults.judges.log import Log
from tests.faults.judges.plain import PlainTrial
from tests.faults.load.plain_load import PlainLoad
from tests.faults.processes.command import ROOT, environ, module, role
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.far_side import Direction, FarSide, Wire, far_side, refuse_without_root
from tests.faults.sites.installation_site import SHARDS
from tests.faults.sites.postgres_server import PostgresServer, create_database
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site

RATE: Final = 500
LEASE: Final = "6s"
#: After that long without everything having come home, what has not is lost.
SETTLE_S: Final = 180.0
#: Actions of workers that are counted, and stages of which they log how long they took.
WATCHED: Final = ("shard.started", "shard.interrupted", "shard.failed", "shard.fenced", "worker.stepped_aside")
STAGES: Final = ("fence", "read", "app", "first")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a cut lasts")


class Taken(StrEnum):
    """One: the only broker of the log is killed and comes back. Three: one of three brokers, each in turn. Cut: the
    wires between the far side and the log; apart: the wire between the far side and PostgreSQL.
    """

    ONE = "one"
    THREE = "three"
    CUT = "cut"
    APART = "apart"

    @property
    def nodes(self) -> int:
        return 3 if self is Taken.THREE else 1

    @property
    def far(self) -> bool:
        """Whether half of the installation stands on the far side."""
        return self in {Taken.CUT, Taken.APART}


@dataclass(frozen=True, slots=True)
class Outage:
    """What is taken away, and brought back after so many seconds. `words` says what, for people."""

    words: str
    seconds: float
    begin: Callable[[], object]
    end: Callable[[], object]

    async def happen(self) -> tuple[float, float]:
        """Returns when all is there again: the wall-clock times when it went and when it was back."""
        began = time.time()
        await asyncio.to_thread(self.begin)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            await asyncio.to_thread(self.end)
        return began, time.time()


def outage(
    taken: Taken, number: int, *, rng: random.Random, cluster: Cluster, wires: Sequence[Wire], cut_s: float
) -> Outage:
    """The `number`th of its kind: brokers and directions take turns, and a broker comes back quickly or late. The last
    of the wires is PostgreSQL's."""
    match taken:
        case Taken.ONE | Taken.THREE:
            node = cluster.numbers[number % len(cluster.numbers)]
            late = bool(number // len(cluster.numbers) % 2)
            seconds = rng.uniform(8, 12) if late else rng.uniform(0, 0.5)
            words = f"broker {node} killed, back after {seconds:.1f} s"
            return Outage(words, seconds, partial(cluster.kill, node), partial(_started, cluster, node))
        case Taken.CUT | Taken.APART:
            wire = wires[0] if taken is Taken.CUT else wires[-1]
            direction = (Direction.BOTH, Direction.HERE, Direction.THERE)[number % 3]
            what = "log" if taken is Taken.CUT else "database"
            words = f"{what} cut off for {cut_s:g} s ({direction})"
            return Outage(words, cut_s, partial(wire.cut, direction), wire.heal)


def _started(cluster: Cluster, node: int) -> None:
    """A machine with much to do may take longer than one attempt allows."""
    try:
        cluster.start(node)
    except NotReadyError:
        cluster.kill(node)
        cluster.start(node)


@dataclass(frozen=True, slots=True)
class OutageSite:
    """What a run stands on. `far_database` and `far` are for the half on the far side."""

    folder: Path
    cluster: Cluster
    database: str
    far_database: str
    far: FarSide | None

    def beyond(self, *command: str) -> tuple[str, ...]:
        """The command, on the far side if there is one."""
        return self.far.command(*command) if self.far else command

    def start(self, processes: PlacedProcesses) -> None:
        """The installation's processes, which are not supervised."""
        processes.start("worker-here", role("worker"), database_url=self.database)
        for name in ("worker", "launcher"):
            processes.start(f"{name}-there", self.beyond(*role(name)), database_url=self.far_database)

    async def sender(self) -> asyncio.subprocess.Process:
        """An emitter on the far side."""
        command = module("tests.faults.processes.sender_process", self.cluster.url)
        with (self.folder / "sender.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.beyond(*command), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )

    def spent(self) -> Counts:
        """What taking shards over was spent on, from what the workers logged."""
        logs = (log.read_bytes() for log in self.folder.glob("worker-*.log"))
        said: list[Mapping[str, Any]] = [orjson.loads(line) for log in logs for line in log.splitlines()]
        times = Counter(each["action"] for each in said)
        stages = {stage: [each[f"{stage}_s"] for each in said if f"{stage}_s" in each] for stage in STAGES}
        return {**{action: times[action] for action in WATCHED}, **stages}


@contextmanager
def outage_site(taken: Taken, folder: Path) -> Iterator[OutageSite]:
    """A Kafka and a PostgreSQL of our own and, for cuts, a far side that reaches each by a wire."""
    with ExitStack() as held:
        far = held.enter_context(far_side(2)) if taken.far else None
        nodes, address = free_addresses(taken.nodes), ""
        if far is not None:
            nodes = tuple(replace(node, host=far.wires[0].here) for node in nodes)
            address = far.wires[1].here
        cluster = Cluster(folder / "kafka", Shape(nodes))
        held.callback(cluster.kill)
        server = PostgresServer(folder / "pg", f"listen_addresses='{address}'")
        held.callback(server.stop)
        server.create("host all all 10.64.0.0/10 trust")
        database = create_database(server.url)
        cluster.start()
        far_database = f"postgresql://postgres@{address}:5432/faults" if far else database
        yield OutageSite(folder, cluster, database, far_database, far)


@dataclass(slots=True)
class Sender:
    """Events go out from here, or by the emitter over there."""

    broker: Broker
    process: asyncio.subprocess.Process
    given: int = 0
    by_the_other: set[str] = field(default_factory=set)

    async def append(self, records: Sequence[Outgoing], *, there: bool) -> None:
        """Returns when they are in the log, or with the emitter over there."""
        if there:
            assert self.process.stdin is not None
            lines = [[each.topic, each.partition, (each.value or b"").decode()] for each in records]
            self.process.stdin.write(orjson.dumps(lines) + b"\n")
            self.given += 1
            self.by_the_other.update(orjson.loads(each.value or b"")["id"] for each in records)
        else:
            await self._append(records)

    async def _append(self, records: Sequence[Outgoing]) -> None:
        while True:
            try:
                return await self.broker.append(records)
            except UnavailableError:
                await asyncio.sleep(0.2)

    async def settled(self) -> None:
        """Returns when all that was given to the emitter over there is in the log."""
        assert self.process.stdout is not None
        async with asyncio.timeout(SETTLE_S):
            while self.given:
                await self.process.stdout.readline()
                self.given -= 1

    async def close(self) -> None:
        self.process.terminate()
        await self.process.wait()


async def emit(sender: Sender, load: PlainLoad, until: asyncio.Event) -> None:
    """Some 250 events a second, ten at a time, until reported and for two seconds at least."""
    began, ticks = time.monotonic(), 0
    while not until.is_set() or time.monotonic() - began < 2.0:
        await sender.append([load.event() for _ in range(10)], there=load.rng.random() < 0.3)
        ticks += 1
        await asyncio.sleep(max(0.0, began + ticks * 20 / RATE - time.monotonic()))


async def control(pool: asyncpg.Pool, load: PlainLoad) -> None:
    """Puts the load's schedules by the outbox; returns when the log has acknowledged them."""
    records = [(each.topic, (each.key or b"").decode(), each.value or b"") for each in load.control()]
    await pool.copy_records_to_table("outbox", records=records, columns=("topic", "key", "value"))
    await pool.execute("NOTIFY outbox")
    async with asyncio.timeout(SETTLE_S):
        while await pool.fetchval("SELECT count(*) FROM outbox"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    load.acknowledged()


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    taken = Taken(asked.variant)
    if taken.far:
        refuse_without_root()
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    async with AsyncExitStack() as held:
        there = held.enter_context(outage_site(taken, asked.folder))
        pool = await held.enter_async_context(await open_pool(there.database))
        broker = await wait_until_available("log", lambda: open_broker(there.cluster.url))
        held.push_async_callback(broker.close)
        await wait_until_available("log", lambda: broker.create_topics(topic_specs(SHARDS, timedelta(days=7))))
        data, log = asked.folder / "data", there.cluster.url
        env = environ(broker_url=log, shards=SHARDS, lease=LEASE, data_dir=data, log_format="json")
        processes = PlacedProcesses(asked.folder, env)
        held.push_async_callback(processes.stop)
        there.start(processes)
        sender = Sender(broker, await there.sender())
        held.push_async_callback(sender.close)
        shared = OutageTrials(there, pool, sender, Log(broker), asked)
        yield Site(lambda number: OutageTrial(shared, number), asked.n, shared.close, counts=there.spent)


@dataclass(frozen=True, slots=True)
class OutageTrials:
    """What the trials of a run share."""

    there: OutageSite
    pool: asyncpg.Pool
    sender: Sender
    log: Log
    asked: Asked

    async def close(self, into: Judgement) -> None:
        """Every launch of all trials is one row, and there are no others."""
        query = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM jobs_history)"
        async with asyncio.timeout(SETTLE_S):
            while await self.pool.fetchval(query) < len(self.log.launched):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        judge_rows(await launched_rows(self.pool), self.log.launched, into)


class OutageTrial(PlainTrial):
    """One outage under load."""

    patience_s = SETTLE_S

    def __init__(self, shared: OutageTrials, number: int) -> None:
        asked, there = shared.asked, shared.there
        seed = f"{asked.seed}-{number}"
        first, second = (PlainLoad(2 * number + nth, random.Random(f"{seed}-{nth}")) for nth in range(2))
        super().__init__(shared.log, first, second)
        self._shared, self._rng = shared, random.Random(seed)
        self._outage = outage(
            Taken(asked.variant),
            number + asked.seed,
            rng=self._rng,
            cluster=there.cluster,
            wires=there.far.wires if there.far else (),
            cut_s=asked.own.seconds,
        )
        self._healed, self._group = asyncio.Event(), asyncio.TaskGroup()
        self._back = 0.0

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        await control(self._shared.pool, self.loads[0])
        async with self._group as group:
            group.create_task(emit(self._shared.sender, self.loads[0], self._healed))
            yield
            await asyncio.sleep(1)
            self._healed.set()
        await self._shared.sender.settled()

    async def faults(self) -> AsyncIterator[str]:
        """The outage. The second load is put and begins meanwhile."""
        await asyncio.sleep(self._rng.uniform(1.0, 3.0))
        happening = self._group.create_task(self._outage.happen())
        await asyncio.sleep(self._rng.uniform(0.0, 0.5))
        await control(self._shared.pool, self.loads[1])
        self._group.create_task(emit(self._shared.sender, self.loads[1], self._healed))
        _, self._back = await happening
        yield self._outage.words

    def counts(self) -> Counts:
        waits = list(self._waits())
        return {
            "outages": 1,
            **super().counts(),
            "recovery": [max(wait for wait, _ in waits)],
            "after all was back": [max(late for _, late in waits)],
        }

    def _waits(self) -> Iterator[tuple[float, float]]:
        """For each arrival: how long it took, unless it was sent where nothing could be, and how long after all was
        back (or it was sent) it came."""
        yield 0.0, 0.0
        elsewhere = self._shared.sender.by_the_other if self._shared.there.far else frozenset[str]()
        for event_id, sent, came in self.arrivals():
            yield 0.0 if event_id in elsewhere else came - sent, came - max(self._back, sent)
