"""Kafka taken away from an installation under load: its brokers killed, its network cut. There is no intervention.

    python -m tests.faults.kafka_outages --kind one|three|cut|apart --trials 3 --seed 1 [--seconds 60]

Two workers, a launcher (relay, intake, …) and emitters as processes; with `cut` and `apart` one of the workers, the
launcher and an emitter stand on a far side (a network namespace: needs root). In each trial 400 schedules are put by
the relay, half of them while the log is away, and 500 events a second go on all the time. The last line is the verdict:
what the log and the table of jobs hold in the end, judged by the oracle, and how long an event waited at most: since it
was sent (on this side), and since all was there again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import asyncpg
import orjson
import structlog

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker, Outgoing
from streamsched.process.supervision import wait_until_available
from streamsched.store.connections import open_pool
from streamsched.store.server.migrate import migrate
from tests.faults.judges.jobs import judge_rows
from tests.faults.judges.log import Log
from tests.faults.judges.plain import settled
from tests.faults.load.plain_load import PlainLoad
from tests.faults.outage import Kind, outage
from tests.faults.processes.command import ROOT, environ, module, role, start
from tests.faults.sites.far_postgres import postgres
from tests.faults.sites.far_side import FarSide, far_side, possible
from tests.faults.sites.installation_site import SHARDS
from tests.support.judgement import Judgement

RATE: Final = 500
LEASE: Final = "6s"
#: After that long without everything having come home, what has not is lost.
SETTLE_S: Final = 180.0
#: Actions of workers that are counted.
WATCHED: Final = ("shard.started", "shard.interrupted", "shard.failed", "shard.fenced", "worker.stepped_aside")


@dataclass(frozen=True, slots=True)
class OutageSite:
    """What a run stands on. `far_database` and `far` are for the half on the far side."""

    folder: Path
    cluster: Cluster
    database: str
    far_database: str
    far: FarSide | None

    def roles(self) -> Iterator[subprocess.Popen[bytes]]:
        """The installation's processes, which are not supervised."""
        yield self._role("worker-here", "worker", self.database, far=None)
        yield self._role("worker-there", "worker", self.far_database, far=self.far)
        yield self._role("launcher", "launcher", self.far_database, far=self.far)

    async def sender(self) -> asyncio.subprocess.Process:
        """An emitter, on the far side if there is one."""
        command = module("tests.faults.processes.sender_process", self.cluster.url)
        with (self.folder / "sender.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(self.far.command(*command) if self.far else command),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def _role(self, name: str, played: str, database: str, far: FarSide | None) -> subprocess.Popen[bytes]:
        env = environ(
            database_url=database,
            broker_url=self.cluster.url,
            shards=SHARDS,
            lease=LEASE,
            data_dir=self.folder / "data",
            log_format="json",
        )
        command = role(played)
        return start(far.command(*command) if far else command, self.folder / f"{name}.log", env)


@contextmanager
def outage_site(kind: Kind, folder: Path) -> Iterator[OutageSite]:
    """A Kafka and a PostgreSQL of our own and, for cuts, a far side that reaches each by a wire."""
    with ExitStack() as held:
        far = held.enter_context(far_side(2)) if kind.far else None
        nodes = free_addresses(kind.nodes)
        if far is not None:
            nodes = tuple(replace(node, host=far.wires[0].here) for node in nodes)
        cluster = Cluster(folder / "kafka", Shape(nodes))
        held.callback(cluster.kill)
        database, far_database = held.enter_context(postgres(folder / "pg", far.wires[1].here if far else None))
        migrate(database)
        cluster.start()
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


@dataclass(slots=True)
class Tally:
    """What came of all trials. `waits` are the longest of each, in seconds: since sent, and since all was back."""

    judged: Judgement = field(default_factory=Judgement)
    waits: list[tuple[float, float]] = field(default_factory=list)
    trials: int = 0

    @property
    def well(self) -> bool:
        return self.judged.clean

    def line(self) -> str:
        whole, back = ([waits[nth] for waits in self.waits] for nth in range(2))
        return (
            f"trials {self.trials} outages {len(self.waits)} lost {self.judged.lost} doubled {self.judged.doubled} "
            f"wrong {self.judged.wrong} recovery {_spread(whole)} after all was back {_spread(back)}"
        )


def _spread(waits: Sequence[float]) -> str:
    return f"p50 {sorted(waits)[len(waits) // 2]:.1f} s max {max(waits):.1f} s" if waits else "p50 – max –"


class Play:
    """One run."""

    def __init__(self, there: OutageSite, pool: asyncpg.Pool, sender: Sender, log: Log) -> None:
        self._there, self._pool, self._sender, self._log = there, pool, sender, log

    async def trial(self, kind: Kind, number: int, seed: int, cut_s: float, tally: Tally) -> None:
        """One outage under load."""
        rng = random.Random(f"{seed}-{number}")
        first, second = (PlainLoad(2 * number + nth, random.Random(f"{seed}-{number}-{nth}")) for nth in range(2))
        self._log.begin(first.name, second.name)
        wires = self._there.far.wires if self._there.far else ()
        what = outage(kind, number + seed, rng=rng, cluster=self._there.cluster, wires=wires, cut_s=cut_s)
        await control(self._pool, first)
        healed = asyncio.Event()
        emitting = [asyncio.create_task(emit(self._sender, first, healed))]
        await asyncio.sleep(rng.uniform(1.0, 3.0))
        happening = asyncio.create_task(what.happen())
        await asyncio.sleep(rng.uniform(0.0, 0.5))
        await control(self._pool, second)
        emitting.append(asyncio.create_task(emit(self._sender, second, healed)))
        _, back = await happening
        await asyncio.sleep(1)
        healed.set()
        await asyncio.gather(*emitting)
        await self._sender.settled()
        verdict = await settled(self._log, first, second, within_s=SETTLE_S)
        tally.judged.add(verdict)
        tally.trials += 1
        waits = list(self._waits(back, first, second))
        tally.waits.append((max(wait for wait, _ in waits), max(late for _, late in waits)))
        say(
            f"trial {number}: {what.words}: {len(first.emitted) + len(second.emitted)} events, longest wait "
            f"{tally.waits[-1][0]:.1f} s, {tally.waits[-1][1]:.1f} s after all was back, "
            f"lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong}",
            *verdict.words,
        )

    def _waits(self, back: float, *loads: PlainLoad) -> Iterator[tuple[float, float]]:
        """For each arrival: how long it took, unless it was sent where nothing could be, and how long after all was
        back (or it was sent) it came."""
        yield 0.0, 0.0
        elsewhere = self._sender.by_the_other if self._there.far else frozenset[str]()
        sent_at = {event_id: sent for load in loads for event_id, sent in load.sent_at.items()}
        for event_id, at in self._log.came_home():
            if event_id in sent_at:
                sent, came = sent_at[event_id], at.timestamp()
                yield 0.0 if event_id in elsewhere else came - sent, came - max(back, sent)

    async def rows(self, into: Judgement) -> None:
        """Every launch of all trials is one row, and there are no others."""
        query = "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM jobs_history)"
        async with asyncio.timeout(SETTLE_S):
            while await self._pool.fetchval(query) < len(self._log.launched):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        await judge_rows(self._pool, self._log.launched, into)


async def run(there: OutageSite, kind: Kind, *, trials: int, seed: int, cut_s: float) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    tally = Tally()
    async with AsyncExitStack() as held:
        pool = await open_pool(there.database)
        held.push_async_callback(pool.close)
        broker = await wait_until_available("log", lambda: open_broker(there.cluster.url))
        held.push_async_callback(broker.close)
        await wait_until_available("log", lambda: broker.create_topics(topic_specs(SHARDS, timedelta(days=7))))
        for process in there.roles():
            held.callback(_ended, process)
        sender = Sender(broker, await there.sender())
        held.push_async_callback(sender.close)
        play = Play(there, pool, sender, Log(broker))
        for number in range(trials):
            await play.trial(kind, number, seed, cut_s, tally)
        await play.rows(tally.judged)
    return tally.line(), tally.well


def spent(folder: Path) -> str:
    """What taking shards over was spent on, from what the workers logged."""
    said = [orjson.loads(line) for log in folder.glob("worker-*.log") for line in log.read_bytes().splitlines()]
    stages = {
        stage: [each[f"{stage}_s"] for each in said if f"{stage}_s" in each]
        for stage in ("fence", "read", "app", "first")
    }
    times = Counter(each["action"] for each in said)
    counts = ", ".join(f"{action} {times[action]}" for action in WATCHED)
    return "; ".join([counts, *(f"{stage} {_spread(seconds)}" for stage, seconds in stages.items())])


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", type=Kind, choices=list(Kind), default=Kind.ONE)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long a cut lasts")
    parser.add_argument("--logs", type=Path, help="a folder to leave the processes' logs in")
    asked = parser.parse_args()
    if asked.kind.far and not possible():
        parser.error(f"--kind {asked.kind} needs root and iproute2")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing of it stays, also after a signal
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="ss-outages-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        with outage_site(asked.kind, scratch) as there:
            line, well = asyncio.run(run(there, asked.kind, trials=asked.trials, seed=asked.seed, cut_s=asked.seconds))
            say(spent(scratch))
            for log in sorted(scratch.glob("*.log")):
                if asked.logs:
                    asked.logs.mkdir(parents=True, exist_ok=True)
                    (asked.logs / log.name).write_bytes(log.read_bytes())
                elif not well:
                    say(f"--- {log.name}", *log.read_text().splitlines()[-40:])
    say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
