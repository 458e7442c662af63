"""A rolling upgrade under load: two workers of this release, then of both, then two of the next, and one that comes too
late. Nothing is lost, and the longest an event waited is told.

    python -m tests.faults.upgrade DATABASE LOG        (an empty database and an empty log)
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

import orjson

from streamsched.admin.changelog import table
from streamsched.codec.state import SEPARATOR
from streamsched.ports.broker import Broker
from streamsched.ports.drivers import open_broker
from streamsched.ports.topics import TRIGGERS_CHANGELOG, topic_specs
from streamsched.store.migrate import migrate
from tests.faults.oracle import Judgement, judge
from tests.faults.record import Log
from tests.faults.trial import SHARDS, Trial

LEASE_S = "6"
#: How long each mixture of releases works.
STAGE_S = 8.0
RATE = 200


def hire(release: str, name: str, database: str, log: str, scratch: Path) -> subprocess.Popen[bytes]:
    with (scratch / f"{name}.log").open("wb") as out:
        return subprocess.Popen(
            (sys.executable, "-m", "tests.faults.release_process", release, database, log, name, LEASE_S),
            cwd=Path(__file__).parents[2],
            stdout=out,
            stderr=out,
        )


async def emit(broker: Broker, trial: Trial, until: asyncio.Event) -> None:
    began, ticks = time.monotonic(), 0
    while not until.is_set():
        await broker.append([trial.event() for _ in range(10)])
        ticks += 1
        await asyncio.sleep(max(0.0, began + ticks * 10 / RATE - time.monotonic()))


async def versions(broker: Broker) -> Counter[int]:
    """Of the rows in the changelogs."""
    found: Counter[int] = Counter()
    for shard in range(SHARDS):
        rows = (await table(broker, TRIGGERS_CHANGELOG, shard)).items()
        found.update(orjson.loads(raw)["v"] for row, raw in rows if SEPARATOR not in row)
    return found


async def run(database: str, log: str, scratch: Path, *, stage_s: float = STAGE_S) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    await asyncio.to_thread(migrate, database)
    broker = await open_broker(log)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    trial, done, record = Trial(0, random.Random(1)), asyncio.Event(), Log(broker)
    crew = {name: hire("this", name, database, log, scratch) for name in ("this-1", "this-2")}
    try:
        await broker.append(list(trial.control()))
        await asyncio.sleep(stage_s)
        emitting = asyncio.create_task(emit(broker, trial, done))
        await asyncio.sleep(stage_s)
        seen: list[Counter[int]] = []
        for number in (1, 2):
            crew[f"next-{number}"] = hire("next", f"next-{number}", database, log, scratch)
            await asyncio.sleep(stage_s)
            seen.append(await versions(broker))
            crew[f"this-{number}"].terminate()
            await asyncio.sleep(stage_s)
        crew["this-3"] = hire("this", "this-3", database, log, scratch)
        await asyncio.sleep(stage_s)
        done.set()
        await emitting
        verdict = await settled(record, trial)
        seen.append(await versions(broker))
    finally:
        for process in crew.values():
            process.terminate()
        for process in crew.values():
            process.wait(30)
        await broker.close()
    newest = max(seen[-1])
    mixed = any(newest in each for each in seen[:-1])
    arrivals = [arrival for name in trial.wishes for arrival in record.arrived[name]]
    waits = [at / 1000 - trial.sent_at[event_id] for event_id, at in arrivals if event_id in trial.sent_at]
    line = (
        f"events {len(trial.emitted)} lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong} "
        f"newer before all could read it {mixed} rows {dict(seen[-1])} longest wait {max(waits):.1f} s"
    )
    well = (
        not (verdict.lost or verdict.doubled or verdict.wrong or mixed) and len(seen[-1]) > 0 and newest > min(seen[0])
    )
    return line, well


async def settled(record: Log, trial: Trial) -> Judgement:
    deadline = time.monotonic() + 60
    while True:
        await record.look(quiet_s=1.0)
        verdict = Judgement()
        for wish in trial.wishes.values():
            arrived = [event_id for event_id, _ in record.arrived[wish.name]]
            launched = record.launched[wish.name]
            judge(wish, emitted=trial.emitted, arrived=arrived, launched=launched, into=verdict)
        if not verdict.lost or time.monotonic() > deadline:
            return verdict


def main() -> None:
    line, well = asyncio.run(run(sys.argv[1], sys.argv[2], Path("/tmp")))
    sys.stdout.write(line + "\n")
    sys.exit(not well)


if __name__ == "__main__":
    main()
