"""A rolling upgrade under load: two workers of this release, then of both, then two of the next, and one that comes too
late. Nothing is lost, and no event waits for more than five seconds.

    python -m tests.faults.upgrade --broker kafka [--stage 8] [--logs FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import orjson
import structlog

from streamsched.admin.changelog import table
from streamsched.codec.records.state import SEPARATOR
from streamsched.log.drivers import open_broker
from streamsched.log.topics import TRIGGERS_CHANGELOG, topic_specs
from streamsched.ports.broker import Broker
from tests.faults.judges.log import Log
from tests.faults.judges.plain import settled
from tests.faults.load.plain_load import PlainLoad
from tests.faults.processes.command import environ, module, start
from tests.faults.sites.installation_site import SHARDS, temporary_site
from tests.support.judgement import Judgement

LEASE_S = "6"
#: How long each mixture of releases works.
STAGE_S = 8.0
RATE = 200
#: No event may wait longer than that for its schedules, in seconds.
LONGEST_S = 5.0
#: What has not come home after so many seconds is lost.
SETTLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Upgrade:
    """What came of one.

    Attributes:
        early: whether the newer encoding was written while a worker that cannot read it was alive.
        rows: of the changelogs in the end, by the version of their encoding.
        changed: whether the newer encoding was written in the end.
        longest_s: how long an event waited at most to come home.
    """

    events: int
    verdict: Judgement
    early: bool
    rows: Counter[int]
    changed: bool
    longest_s: float

    @property
    def well(self) -> bool:
        """How quick it was apart, which depends on the machine."""
        return self.verdict.clean and not self.early and self.changed

    def __str__(self) -> str:
        verdict = self.verdict
        return (
            f"events {self.events} lost {verdict.lost} doubled {verdict.doubled} wrong {verdict.wrong} "
            f"newer before all could read it {self.early} rows {dict(self.rows)} longest wait {self.longest_s:.1f} s"
        )


def hire(release: str, name: str, database: str, log: str, scratch: Path) -> subprocess.Popen[bytes]:
    command = module("tests.faults.processes.release_process", release, database, log, name, LEASE_S)
    return start(command, scratch / f"{name}.log", environ())


async def emit(broker: Broker, load: PlainLoad, until: asyncio.Event) -> None:
    began, ticks = time.monotonic(), 0
    while not until.is_set():
        await broker.append([load.event() for _ in range(10)])
        ticks += 1
        await asyncio.sleep(max(0.0, began + ticks * 10 / RATE - time.monotonic()))


async def versions(broker: Broker) -> Counter[int]:
    """Of the rows in the changelogs."""
    found: Counter[int] = Counter()
    for shard in range(SHARDS):
        rows = (await table(broker, TRIGGERS_CHANGELOG, shard)).items()
        found.update(orjson.loads(raw)["v"] for row, raw in rows if SEPARATOR not in row)
    return found


async def run(database: str, log: str, scratch: Path, *, stage_s: float = STAGE_S) -> Upgrade:
    """On a migrated database and an empty log; what the workers said is in `scratch`."""
    broker = await open_broker(log)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    load, done, record = PlainLoad(0, random.Random(1)), asyncio.Event(), Log(broker)
    record.begin(load.name)
    processes = {name: hire("this", name, database, log, scratch) for name in ("this-1", "this-2")}
    try:
        await broker.append(list(load.control()))
        load.acknowledged()
        await asyncio.sleep(stage_s)
        emitting = asyncio.create_task(emit(broker, load, done))
        await asyncio.sleep(stage_s)
        seen: list[Counter[int]] = []
        for number in (1, 2):
            processes[f"next-{number}"] = hire("next", f"next-{number}", database, log, scratch)
            await asyncio.sleep(stage_s)
            seen.append(await versions(broker))
            processes[f"this-{number}"].terminate()
            await asyncio.sleep(stage_s)
        processes["this-3"] = hire("this", "this-3", database, log, scratch)
        await asyncio.sleep(stage_s)
        done.set()
        await emitting
        verdict = await settled(record, load, within_s=SETTLE_S)
        seen.append(await versions(broker))
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait(30)
        await broker.close()
    newest = max(seen[-1], default=0)
    return Upgrade(
        len(load.emitted),
        verdict,
        early=any(newest in each for each in seen[:-1]),
        rows=seen[-1],
        changed=newest > min(seen[0], default=newest),
        longest_s=max(at.timestamp() - load.sent_at[event_id] for event_id, at in record.came_home()),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--stage", type=float, default=STAGE_S, help="seconds for each mixture of releases")
    parser.add_argument("--logs", type=Path, help="a new folder for what the processes said")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with temporary_site(asked.broker) as there:
        came = asyncio.run(run(there.database, there.log, there.folder, stage_s=asked.stage))
        if asked.logs is not None:
            shutil.copytree(there.folder, asked.logs, ignore=shutil.ignore_patterns("pg", "kafka", "data", "*.sock"))
    sys.stdout.write(f"{came}\n")
    sys.exit(not (came.well and came.longest_s <= LONGEST_S))


if __name__ == "__main__":
    main()
