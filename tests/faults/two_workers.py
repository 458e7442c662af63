"""Two workers on one log, 500 events a second, and one of them killed or paused at a random moment: trial after trial.

    python -m tests.faults.two_workers --trials 20 --seed 1

Each trial has schedules of its own on the same log, so shards recover ever larger tables. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import orjson
import structlog

from streamsched.codec import launch as launch_codec
from streamsched.codec import signal as signal_codec
from streamsched.domain.home import home
from streamsched.domain.names import DatasetRef, EventName, ScheduleRef, StreamRef
from streamsched.domain.signal import Put, Subscribe
from streamsched.domain.trigger import AllOf, AnyOf, CustomEvent, Partitions, StreamGrowth, Trigger, event_keys
from streamsched.launcher.intake import Intake
from streamsched.ports.broker import Broker, Outgoing, Record, TopicPartition
from streamsched.ports.clock import SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import EVENTS, LAUNCH, PARTITIONS, SIGNALS, STREAM_SIZES, topic_specs
from streamsched.store.intake import PostgresIntake
from streamsched.store.migrate import migrate
from streamsched.store.pool import open_pool
from streamsched.store.server import start_server, stop_server
from tests.faults.oracle import Judgement, Wish, judge, key

SHARDS = 4
RATE = 500
LEASE_S = 3.0
SCHEDULES = 200
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Crew:
    """The two worker processes."""

    url: str
    scratch: Path
    named: bool = False
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, place: int) -> None:
        name = f"worker-{place}" if self.named else f"worker-{place}-{uuid4().hex[:6]}"
        with (self.scratch / f"worker-{place}.log").open("ab") as log:
            self.running[place] = subprocess.Popen(
                (sys.executable, "-m", "tests.faults.worker_process", self.url, name, str(LEASE_S)),
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self, place: int) -> None:
        process = self.running.pop(place)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self.running.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


@dataclass(slots=True)
class Trial:
    """What one trial wished for and sent."""

    number: int
    dice: random.Random
    wishes: dict[str, Wish] = field(default_factory=dict)
    triggers: dict[str, Trigger] = field(default_factory=dict)
    emitted: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent_at: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for number in range(SCHEDULES):
            name = f"t{self.number}s{number}"
            leaves = [self._leaf() for _ in range(self.dice.choice((1, 1, 2, 2, 3)))]
            leaves = list({next(iter(event_keys(leaf))): leaf for leaf in leaves}.values())
            every = self.dice.random() < 0.6
            group = AllOf(tuple(leaves)) if every else AnyOf(tuple(leaves))
            self.triggers[name] = leaves[0] if len(leaves) == 1 else group
            amounts = {next(iter(event_keys(leaf))): _amount(leaf) for leaf in leaves}
            self.wishes[name] = Wish(name, amounts, every)

    def _leaf(self) -> Partitions | StreamGrowth | CustomEvent:
        place = self.dice.randrange(30)
        match self.dice.choice("pppse"):
            case "p":
                return Partitions(DatasetRef("default", f"t{self.number}d{place}"), self.dice.randint(1, 12))
            case "s":
                return StreamGrowth(StreamRef("default", f"t{self.number}z{place}"), self.dice.randint(100, 5000))
            case _:
                return CustomEvent(EventName("default", f"t{self.number}e{place}"), self.dice.randint(1, 8))

    def control(self) -> Iterator[Outgoing]:
        """The schedules, as the relay would send them."""
        for name, trigger in self.triggers.items():
            ref = ScheduleRef("default", "faults", name)
            for each in (*(Subscribe(k, ref, 1) for k in sorted(event_keys(trigger))), Put(ref, 1, True, trigger)):
                where, value = signal_codec.encode(each)
                yield Outgoing(SIGNALS, home(where, SHARDS), where, value)

    def event(self) -> Outgoing:
        """A new event, or one of the last hundred again; some through a foreign partitioner."""
        if self.emitted and self.dice.random() < 0.08:
            event = self.emitted[self.dice.choice(list(self.emitted)[-100:])]
        else:
            event = self._fresh()
            self.emitted[event["id"]] = event
            self.sent_at[event["id"]] = time.time()
        topic = {"partitions.added": PARTITIONS, "stream.size": STREAM_SIZES}.get(event["type"], EVENTS)
        foreign = self.dice.random() < 0.2
        partition = self.dice.randrange(SHARDS) if foreign else home(key(event), SHARDS)
        return Outgoing(topic, partition, None, orjson.dumps(event))

    def _fresh(self) -> dict[str, Any]:
        number, place = len(self.emitted), self.dice.randrange(30)
        kind: str = self.dice.choice(("partitions.added",) * 6 + ("stream.size", "custom"))
        data: dict[str, Any]
        if kind == "partitions.added":
            keys = [f"n={number}/k={k}" for k in range(self.dice.choice((1, 1, 1, 3)))]
            data = {"dataset": f"default.t{self.number}d{place}", "partitions": keys}
        elif kind == "stream.size":
            data = {"stream": f"default.t{self.number}z{place}", "bytes": self.dice.randint(1, 2000), "absolute": False}
        else:
            data = {"name": f"default.t{self.number}e{place}"}
        now = datetime.now(UTC).isoformat()
        return {"id": f"t{self.number}-{number}", "source": "faults", "time": now, "type": kind, "data": data}


def _amount(leaf: Partitions | StreamGrowth | CustomEvent) -> int:
    match leaf:
        case Partitions(count=count):
            return count
        case StreamGrowth(bytes=count):
            return count
        case CustomEvent(times=times):
            return times


@dataclass(slots=True)
class Log:
    """What the log holds, read on from where the last look ended."""

    broker: Broker
    at: dict[TopicPartition, int] = field(
        default_factory=lambda: {TopicPartition(topic, n): 0 for topic in (SIGNALS, LAUNCH) for n in range(SHARDS)}
    )
    arrived: dict[str, list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    launched: dict[str, list[tuple[int, list[str]]]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[str] = field(default_factory=list)

    async def look(self, quiet_s: float) -> None:
        """Reads until nothing has come for that long."""
        reader = await self.broker.reader(self.at)
        try:
            while chunks := await reader.read(max_records=20_000, timeout=quiet_s):
                for chunk in chunks:
                    self.at[TopicPartition(chunk.topic, chunk.partition)] = chunk.next_position
                    for record in chunk.records:
                        (self._signal if chunk.topic == SIGNALS else self._launch)(record)
        finally:
            await reader.close()

    def _signal(self, record: Record) -> None:
        assert record.key is not None and record.value is not None  # noqa: PT018
        said = orjson.loads(record.value)
        if record.key.startswith(b"schedule:") and "signal" not in said:
            name = record.key.decode().rpartition(".")[2]
            self.arrived[name].append((said["id"], record.time_ms))

    def _launch(self, record: Record) -> None:
        job = launch_codec.decode(record.value or b"")
        ids = dict.fromkeys(event.id for each in job.contributions for event in each.events)
        self.launched[job.schedule.name].append((job.sequence, list(ids)))
        self.jobs.append(job.id)


async def misfortune(crew: Crew, dice: random.Random) -> str:
    """One worker is killed or paused, and comes back."""
    place = dice.randrange(2)
    await asyncio.sleep(dice.uniform(1.0, 4.0))
    kind = dice.choice(("quick", "late", "stop"))
    crew.named = dice.random() < 0.5
    if kind == "stop":
        process = crew.running[place]
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(10)
        process.send_signal(signal.SIGCONT)
        return kind
    crew.kill(place)
    await asyncio.sleep(0.3 if kind == "quick" else dice.uniform(2, 3) * LEASE_S)
    crew.start(place)
    return kind


async def emit(broker: Broker, trial: Trial, until: asyncio.Event) -> None:
    """Some 500 events a second, ten at a time."""
    began, ticks = time.monotonic(), 0
    while not until.is_set() or ticks < RATE / 10 * 2:
        await broker.append([trial.event() for _ in range(10)])
        ticks += 1
        await asyncio.sleep(max(0.0, began + ticks * 10 / RATE - time.monotonic()))


async def play(broker: Broker, crew: Crew, log: Log, trial: Trial) -> tuple[str, float, Judgement]:
    """One trial: what happened, the longest an event waited on its way home in seconds, and what is wrong."""
    await broker.append(list(trial.control()))
    healed = asyncio.Event()
    emitting = asyncio.create_task(emit(broker, trial, healed))
    kind = await misfortune(crew, trial.dice)
    await asyncio.sleep(1)
    healed.set()
    await emitting
    verdict = Judgement()
    deadline = time.monotonic() + 60
    while True:
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
    return kind, max(waits, default=0.0), verdict


async def rows(pool: asyncpg.Pool, log: Log, into: Judgement) -> None:
    """Every launch is one row, and there are no others."""
    want = set(log.jobs)
    async with asyncio.timeout(30):
        while await pool.fetchval("SELECT count(*) FROM jobs") < len(want):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    have = {row["id"] for row in await pool.fetch("SELECT id FROM jobs")}
    into.lost += len(want - have)
    into.doubled += len(have - want) + len(log.jobs) - len(want)


async def run(url: str, scratch: Path, *, trials: int, seed: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    await asyncio.to_thread(migrate, url)
    broker, pool = await open_broker(url), await open_pool(url)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    crew = Crew(url, scratch)
    intake = asyncio.create_task(Intake(broker, PostgresIntake(pool), SystemClock()).run())
    total, log = Judgement(), Log(broker)
    happened: list[str] = []
    waited: list[float] = []
    try:
        for place in range(2):
            crew.start(place)
        for number in range(trials):
            trial = Trial(number, random.Random(f"{seed}-{number}"))
            kind, longest, verdict = await play(broker, crew, log, trial)
            happened.append(kind)
            waited.append(longest)
            total.lost += verdict.lost
            total.doubled += verdict.doubled
            total.wrong += verdict.wrong
            launched = sum(len(log.launched[name]) for name in trial.wishes)
            _say(
                f"trial {number} {kind}: {len(trial.emitted)} events, {launched} launches, "
                f"longest wait {longest:.1f} s, lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong}",
                *verdict.words,
            )
        await rows(pool, log, total)
    finally:
        crew.stop()
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)
        await broker.close()
        await pool.close()
    return _last_line(total, happened, waited), not (total.lost or total.doubled or total.wrong)


def _last_line(total: Judgement, happened: Sequence[str], waited: Sequence[float]) -> str:
    stops = happened.count("stop")
    middle = sorted(waited)[len(waited) // 2] if waited else 0.0
    return (
        f"trials {len(happened)} kills {len(happened) - stops} stops {stops} lost {total.lost} doubled {total.doubled} "
        f"wrong {total.wrong} recovery p50 {middle:.1f} s max {max(waited, default=0.0):.1f} s"
    )


def _say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


@contextmanager
def database() -> Iterator[tuple[str, Path]]:
    """A fresh database: on `STREAMSCHED_TEST_POSTGRES`, or on a server of our own; and a folder for logs."""
    with tempfile.TemporaryDirectory(prefix="ss-faults-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        given = os.environ.get("STREAMSCHED_TEST_POSTGRES")
        server = given or start_server(scratch / "pg").url
        name = f"faults_{uuid4().hex[:10]}"
        try:
            asyncio.run(_execute(server, f'CREATE DATABASE "{name}"'))
            yield server.replace("/postgres?", f"/{name}?"), scratch
            asyncio.run(_execute(server, f'DROP DATABASE "{name}" WITH (FORCE)'))
        finally:
            if not given:
                stop_server(scratch / "pg")


async def _execute(server: str, statement: str) -> None:
    connection = await asyncpg.connect(server)
    await connection.execute(statement)
    await connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with database() as (url, scratch):
        line, well = asyncio.run(run(url, scratch, trials=asked.trials, seed=asked.seed))
        if not well:
            for log in sorted(scratch.glob("worker-*.log")):
                _say(f"--- {log.name}", *log.read_text().splitlines()[-60:])
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
