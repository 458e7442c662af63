"""Whether anything grows in a whole installation that works for a long time, where everything is kept for minutes.

    make soak MINUTES=60 BROKER=kafka

Two workers, two launchers, the API and two emitters, as processes. Round after round a fresh app of schedules of all
kinds is deployed, gets events, changes, submissions, reruns and backfills, is judged as in `KIND=installation`, without
faults, and is deleted. Beside them tasks, a graph and a webhook go on. Meanwhile every few seconds everything is
measured that may grow. What comes after the warm-up is judged (`judges/growth.py`): a third of the time, and at least
until what was there first is gone. At the end there is a table of what has changed at all, with a verdict on each line:
`flat`, `grows 3.1 MB/h`, or `unsure: at most 5.0 MB/h`. The exit status is 0 when nothing grows and nothing was lost,
doubled or wrong.

Everything is kept for `--keep` seconds, by default a sixth of the time, from 2 to 5 minutes. A round that takes longer,
on a machine that is kept busy, misses what is gone.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Final

from streamsched_brokers.kafka.driver import KafkaBroker

from streamsched.log.topics import ALL_TOPICS, topic_specs
from streamsched.process.cancellation import cancel
from tests.faults.installation import InstallationTrial, Shared, open_shared
from tests.faults.judges.growth import (
    BYTES,
    DESCRIPTORS,
    FILES,
    RECORDS,
    ROWS,
    WINDOWS,
    Growth,
    Sample,
    Unit,
    Verdict,
    judge_growth,
)
from tests.faults.load.patience import ask
from tests.faults.load.standing import StandingLoad
from tests.faults.processes.installation import PLACES
from tests.faults.sites.counting_server import CountingServer
from tests.faults.sites.footprint import ProcessUse, folder, postgres_processes, process_tree, tables, topics
from tests.faults.sites.installation_site import SHARDS
from tests.support.judgement import Judgement
from tests.topic_settings import change
from tests.trial import Asked, Site, Trial, settle

_ROUND_S: Final = 20.0
#: How long after its time something is gone at the latest: a partition of a minute, and some passes.
_DROPPED_S: Final = 90.0
#: How often the log is read, so that nothing is deleted from it before it was judged.
_LOOK_S: Final = 5.0
#: Settings that say how long something is kept.
_KEPT: Final = ("retention", "verdicts_keep", "jobs_keep", "nodes_keep", "audit_keep", "dedupe_horizon")
_SEGMENT_MS: Final = "10000"
_FOREVER: Final = 1_000_000
GROWS: Final = "grows"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(minutes=60.0, events=0)
    parser.add_argument("--schedules", type=int, default=60, help="of each round")
    parser.add_argument("--rate", type=float, default=20.0, help="events a second")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument("--keep", type=float, help="seconds for which everything is kept")


Series = tuple[str, Unit]


@dataclass(slots=True)
class Measures:
    """Attributes:
    looks: each with its time in seconds since the beginning, and what there was, by what it is of, such as `worker-1
        files`, and its unit.
    """

    shared: Shared
    began: float = field(default_factory=time.monotonic)
    looks: list[tuple[float, Mapping[Series, float]]] = field(default_factory=list)

    async def run(self, every_s: float) -> None:
        """Measures until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(every_s)

    async def look(self) -> None:
        """One sample of each."""
        at_s, found = time.monotonic() - self.began, dict[Series, float]()
        there, placed = self.shared.processes.site, self.shared.processes.placed
        uses = {place: ProcessUse.of(process_tree(placed.running[place].pid)[:1]) for place in PLACES}
        uses["postgres"] = ProcessUse.of(postgres_processes(there.folder / "pg"))
        if there.cluster is not None and (kafka := there.cluster.pid(1)) is not None:
            uses["kafka"] = ProcessUse.of(process_tree(kafka))
        for name, use in uses.items():
            if name in PLACES:
                found[f"{name} memory (PSS)", BYTES] = use.pss
                found[f"{name} memory (RSS)", BYTES] = use.rss
            else:  # a server's processes fill their shared memory up to its limit
                found[f"{name} memory of its own", BYTES] = use.own
            found[f"{name} files", DESCRIPTORS] = use.descriptors
        files = await asyncio.to_thread(folder, there.data)
        for what, unit, amounts in (
            ("table", ROWS, await tables(self.shared.pool)),
            ("topic", RECORDS, await topics(self.shared.broker, self.shared.pool)),
            ("folder", FILES, {"data": files}),
        ):
            for name, amount in amounts.items():
                found[f"{what} {name}", unit], found[f"{what} {name}", BYTES] = amount
        self.looks.append((at_s, found))

    @property
    def series(self) -> list[Series]:
        """All there ever were."""
        return list(dict.fromkeys(each for _, found in self.looks for each in found))

    def judged(self, warm_s: float) -> Iterator[tuple[str, Growth]]:
        """Of each series that has changed since the warm-up. What was not there was nothing."""
        for name, unit in self.series:
            samples = [Sample(at_s, found.get((name, unit), 0.0)) for at_s, found in self.looks]
            if len({each.value for each in samples if each.at_s >= warm_s}) > 1:
                yield name, judge_growth(samples, unit, warm_s=warm_s)


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    own = asked.own
    keep_s = own.keep or min(300.0, max(120.0, own.minutes * 60 / 6))
    keep, kept = timedelta(seconds=keep_s), f"{keep_s:g}s"
    specs = [replace(each, tombstones=keep) for each in topic_specs(SHARDS, keep)]
    settings = dict.fromkeys(_KEPT, kept)
    async with AsyncExitStack() as stack:
        shared = await stack.enter_async_context(
            open_shared(asked, specs, role_module="tests.faults.processes.soaked_process", settings=settings)
        )
        if isinstance(shared.broker, KafkaBroker):
            for topic in ALL_TOPICS:  # Kafka deletes and compacts segments as a whole, but never the newest
                await change(shared.broker, topic, {"segment.ms": _SEGMENT_MS})
        servers = tasks, nodes, changes = CountingServer(), CountingServer(), CountingServer()
        standing = StandingLoad(shared.client, tasks.seen, nodes.seen, changes.seen)
        await standing.begin(*(stack.enter_context(each.on_thread()) for each in servers))
        measures = Measures(shared)
        enough = asyncio.Event()
        sending, measuring = (asyncio.create_task(each) for each in (standing.run(enough), measures.run(own.every)))
        stack.push_async_callback(cancel, sending, measuring)

        async def close(into: Judgement) -> None:
            enough.set()
            await sending
            if measuring.done():
                measuring.result()
            await cancel(measuring)
            into.add(left := await settle(StandingTrial(standing)))
            into.missing += left.missing
            into.excess += left.excess
            _judge_growth(measures, asked, keep_s, into)

        yield Site(partial(SoakTrial, shared), _FOREVER, close)


class StandingTrial(Trial):
    """What goes on beside the rounds, when it has stopped."""

    def __init__(self, standing: StandingLoad) -> None:
        self._standing = standing

    async def judge(self) -> Judgement:
        return await self._standing.judge()

    def progress(self) -> object:
        return self._standing.progress()


class SoakTrial(InstallationTrial):
    """One round: an app that is deleted when it is judged."""

    def __init__(self, shared: Shared, number: int) -> None:
        super().__init__(shared, number)
        self.rate = shared.asked.own.rate

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        async with super().site():
            yield
        app = self._generated.app
        await ask(self._shared.client, "DELETE", f"/v1/apps/{app.namespace}/{app.app}")

    async def faults(self) -> AsyncIterator[str]:
        """None, for the time of a round."""
        until = time.monotonic() + _ROUND_S
        while time.monotonic() < until:
            await asyncio.sleep(_LOOK_S)
            await self._log.look(quiet_s=0.1)
        for nothing in ():
            yield nothing


def _judge_growth(measures: Measures, asked: Asked, keep_s: float, into: Judgement) -> None:
    """Prints the table; what grows is a deviation."""
    soaked_s = time.monotonic() - measures.began
    warm_s = max(soaked_s / 3, keep_s + _DROPPED_S)
    into.kinds = (*into.kinds, GROWS)
    if sum(at_s >= warm_s for at_s, _ in measures.looks) < 2 * WINDOWS:
        sys.stdout.write(f"too short to say what grows: the warm-up takes {warm_s:.0f} of {soaked_s:.0f} s\n")
        return
    found = list(measures.judged(warm_s))
    lines = [
        f"{platform.processor() or platform.machine()}, Python {platform.python_version()}, log on {asked.broker}",
        f"{soaked_s / 60:.1f} minutes, {warm_s / 60:.1f} of it warm-up; {asked.own.rate:g} events/s; kept {keep_s:g} s",
        f"{'':<44}{'first':>18}{'last':>18}  verdict",
    ]
    for name, growth in found:
        first, last = growth.unit.shown(growth.first), growth.unit.shown(growth.last)
        lines.append(f"{name:<44}{first:>18}{last:>18}  {growth}")
        if growth.verdict is Verdict.GROWS:
            into.note(GROWS, f"{name}: {growth}, from {first} to {last}")
    lines.append(f"{len(measures.series) - len(found)} other series have not changed at all")
    sys.stdout.write("\n".join(lines) + "\n")
