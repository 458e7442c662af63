"""Two workers on one log, 500 events a second, and one of them killed or paused at a random moment: trial after trial.

    python -m tests.faults.two_workers --broker kafka --trials 20 --seed 1

On Kafka, whose broker is ours then, that one is killed and comes back every fourth time. Each trial has schedules of
its own on the same log, so shards recover ever larger tables. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import asyncpg
import structlog

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from streamsched.domain.errors import UnavailableError
from streamsched.launcher.intake import Intake
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.clock import SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import topic_specs
from streamsched.store.intake import PostgresIntake
from streamsched.store.migrate import migrate
from streamsched.store.pool import open_pool
from streamsched.store.server import start_server, stop_server
from tests.faults.crew import Crew, Misfortune, misfortune
from tests.faults.oracle import Judgement, judge
from tests.faults.record import AWAY_S, Log
from tests.faults.trial import SHARDS, Trial

RATE = 500
#: After that long without everything having come home, what has not is lost.
SETTLE_S = 120.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on.

    Attributes:
        database: URL of an empty PostgreSQL database.
        log: URL of an empty log.
        cluster: the Kafka behind it, when it is ours to kill.
    """

    database: str
    log: str
    scratch: Path
    cluster: Cluster | None = None

    @property
    def misfortunes(self) -> Sequence[Misfortune]:
        """What may befall a run here."""
        return [each for each in Misfortune if self.cluster or each is not Misfortune.BROKER]


@dataclass(slots=True)
class Tally:
    """What came of all trials."""

    judged: Judgement = field(default_factory=Judgement)
    waited: dict[Misfortune, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: Misfortune, longest: float, verdict: Judgement) -> None:
        self.waited[kind].append(longest)
        self.judged.lost += verdict.lost
        self.judged.doubled += verdict.doubled
        self.judged.wrong += verdict.wrong

    @property
    def well(self) -> bool:
        return not (self.judged.lost or self.judged.doubled or self.judged.wrong)

    def by_kind(self) -> str:
        """How long an event waited at most, for each misfortune."""
        return "recovery " + ", ".join(f"{kind} {_spread(waits)}" for kind, waits in self.waited.items())

    def line(self) -> str:
        """The verdict."""
        waits = [wait for each in self.waited.values() for wait in each]
        stops = len(self.waited[Misfortune.STOP])
        return (
            f"trials {len(waits)} kills {len(waits) - stops} stops {stops} lost {self.judged.lost} "
            f"doubled {self.judged.doubled} wrong {self.judged.wrong} recovery {_spread(waits)}"
        )


def _spread(waits: Sequence[float]) -> str:
    return f"p50 {sorted(waits)[len(waits) // 2]:.1f} s max {max(waits):.1f} s" if waits else "p50 – max –"


async def emit(broker: Broker, trial: Trial, until: asyncio.Event) -> None:
    """Some 500 events a second, ten at a time."""
    began, ticks = time.monotonic(), 0
    while not until.is_set() or ticks < RATE / 10 * 2:
        await append(broker, [trial.event() for _ in range(10)])
        ticks += 1
        await asyncio.sleep(max(0.0, began + ticks * 10 / RATE - time.monotonic()))


async def append(broker: Broker, records: Sequence[Outgoing]) -> None:
    """Appends, again and again while the log is away, as an emitter does."""
    deadline = time.monotonic() + AWAY_S
    while True:
        try:
            return await broker.append(records)
        except UnavailableError:
            if time.monotonic() > deadline:
                raise


async def play(broker: Broker, crew: Crew, log: Log, trial: Trial, kind: Misfortune) -> tuple[float, Judgement]:
    """One trial: the longest an event waited on its way home in seconds, and what is wrong."""
    await broker.append(list(trial.control()))
    healed = asyncio.Event()
    emitting = asyncio.create_task(emit(broker, trial, healed))
    await misfortune(crew, kind, trial.dice)
    await asyncio.sleep(1)
    healed.set()
    await emitting
    verdict = Judgement()
    deadline = time.monotonic() + SETTLE_S
    while True:
        crew.revive()
        await log.look(quiet_s=1.0)
        verdict = Judgement()
        for wish in trial.wishes.values():
            arrived = [event_id for event_id, _ in log.arrived[wish.name]]
            judge(wish, emitted=trial.emitted, arrived=arrived, launched=log.launched[wish.name], into=verdict)
        if not verdict.lost or time.monotonic() > deadline:
            break
    waits = [
        time_ms / 1000 - trial.sent_at[event_id]
        for name in trial.wishes
        for event_id, time_ms in log.arrived[name]
        if event_id in trial.sent_at
    ]
    return max(waits, default=0.0), verdict


async def rows(pool: asyncpg.Pool, log: Log, into: Judgement) -> None:
    """Every launch is one row, and there are no others."""
    want = set(log.jobs)
    async with asyncio.timeout(30):
        while await pool.fetchval("SELECT count(*) FROM jobs") < len(want):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    have = {row["id"] for row in await pool.fetch("SELECT id FROM jobs")}
    into.lost += len(want - have)
    into.doubled += len(have - want) + len(log.jobs) - len(want)


async def run(ground: Ground, *, trials: int, seed: int, misfortunes: Sequence[Misfortune] = ()) -> tuple[str, bool]:
    """The last line, and whether all is well. The misfortunes take turns."""
    kinds = misfortunes or ground.misfortunes
    await asyncio.to_thread(migrate, ground.database)
    broker, pool = await open_broker(ground.log), await open_pool(ground.database)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    crew = Crew(ground.database, ground.log, ground.scratch, ground.cluster)
    intake = asyncio.create_task(Intake(broker, PostgresIntake(pool), SystemClock()).run())
    tally, log = Tally(), Log(broker)
    try:
        for place in range(2):
            crew.start(place)
        for number in range(trials):
            trial, kind = Trial(number, random.Random(f"{seed}-{number}")), kinds[(seed + number) % len(kinds)]
            longest, verdict = await play(broker, crew, log, trial, kind)
            tally.add(kind, longest, verdict)
            launched = sum(len(log.launched[name]) for name in trial.wishes)
            _say(
                f"trial {number} {kind}: {len(trial.emitted)} events, {launched} launches, "
                f"longest wait {longest:.1f} s, lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong}",
                *verdict.words,
            )
        await rows(pool, log, tally.judged)
    finally:
        crew.stop()
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)
        await broker.close()
        await pool.close()
    _say(tally.by_kind())
    return tally.line(), tally.well


def _say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


@contextmanager
def ground(broker: str, nodes: int) -> Iterator[Ground]:
    """A fresh database, on `STREAMSCHED_TEST_POSTGRES` or a server of our own; the log in it, or on a Kafka of our own
    with that many nodes (`STREAMSCHED_TEST_KAFKA` names another, which is not killed)."""
    with tempfile.TemporaryDirectory(prefix="ss-faults-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        given = os.environ.get("STREAMSCHED_TEST_POSTGRES")
        server = given or start_server(scratch / "pg").url
        name = f"faults_{uuid4().hex[:10]}"
        cluster = Cluster(scratch / "kafka", Shape(free_addresses(nodes)))
        try:
            asyncio.run(_execute(server, f'CREATE DATABASE "{name}"'))
            database = server.replace("/postgres?", f"/{name}?")
            if broker == "postgres":
                yield Ground(database, database, scratch)
            elif there := os.environ.get("STREAMSCHED_TEST_KAFKA"):
                yield Ground(database, f"{there}?prefix={name}.", scratch)
            else:
                cluster.start()
                yield Ground(database, cluster.url, scratch, cluster)
            asyncio.run(_execute(server, f'DROP DATABASE "{name}" WITH (FORCE)'))
        finally:
            cluster.kill()
            if not given:
                stop_server(scratch / "pg")


async def _execute(server: str, statement: str) -> None:
    connection = await asyncpg.connect(server)
    await connection.execute(statement)
    await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--nodes", type=int, choices=(1, 3), default=1, help="of our Kafka; one at a time is killed")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--misfortune", type=Misfortune, nargs="*", default=[], help="only these, in turn")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    with ground(asked.broker, asked.nodes) as there:
        line, well = asyncio.run(run(there, trials=asked.trials, seed=asked.seed, misfortunes=asked.misfortune))
        if not well:
            for log in sorted(there.scratch.glob("worker-*.log")):
                _say(f"--- {log.name}", *log.read_text().splitlines()[-60:])
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
