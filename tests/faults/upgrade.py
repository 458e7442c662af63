"""A rolling upgrade under load: two workers of this release, then of both, then two of the next, and one that comes too
late. Nothing is lost, and no event waits for more than five seconds.

`rows`: those of the changelogs in the end, by the version of their encoding.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Final

import orjson

from streamsched.admin.changelog import table
from streamsched.codec.records.state import SEPARATOR
from streamsched.log.drivers import open_broker
from streamsched.log.topics import TRIGGERS_CHANGELOG, topic_specs
from streamsched.ports.broker import Broker
from tests.faults.judges.log import Log
from tests.faults.judges.plain import PlainTrial
from tests.faults.load.plain_load import PlainLoad
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.installation_site import SHARDS, InstallationSite, site
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site

LEASE_S: Final = "6"
RATE: Final = 200


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stage", type=float, default=8.0, help="seconds for each mixture of releases")
    parser.add_argument("--longest", type=float, default=5.0, help="seconds that an event may wait")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        there = stack.enter_context(site(asked.folder, asked.broker))
        broker = await open_broker(there.log)
        stack.push_async_callback(broker.close)
        await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
        processes = PlacedProcesses(asked.folder, environ())
        stack.push_async_callback(processes.stop)
        yield Site(lambda _: UpgradeTrial(there, broker, processes, asked))


class UpgradeTrial(PlainTrial):
    """One upgrade."""

    patience_s = 60.0

    def __init__(self, there: InstallationSite, broker: Broker, processes: PlacedProcesses, asked: Asked) -> None:
        super().__init__(Log(broker), PlainLoad(0, random.Random(asked.seed)))
        self._there, self._broker, self._processes, self._own = there, broker, processes, asked.own
        self._before: list[Counter[int]] = []
        self._rows: Counter[int] = Counter()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        (load,), done = self.loads, asyncio.Event()
        for number in (1, 2):
            self._hire("this", number)
        await self._broker.append(list(load.control()))
        load.acknowledged()
        await self._stage()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._emit(done))
            yield
            await self._stage()
            done.set()

    async def faults(self) -> AsyncIterator[str]:
        """Not before this release has written something."""
        await self._stage()
        async with asyncio.timeout(self.patience_s):
            while not await self._versions():  # noqa: ASYNC110 - other processes are at it
                await asyncio.sleep(0.2)
        for number in (1, 2):
            self._hire("next", number)
            yield f"next {number} comes"
            await self._stage()
            self._before.append(await self._versions())
            leaving = asyncio.create_task(self._processes.end(f"this-{number}"))
            yield f"this {number} goes"
            await self._stage()
            await leaving
        self._hire("this", 3)
        yield "this 3 comes too late"

    async def judge(self) -> Judgement:
        verdict = await super().judge()
        self._rows = await self._versions()
        newest = max(self._rows, default=0)
        if any(newest in each for each in self._before):
            verdict.spoil("the newer encoding was written while a worker that cannot read it was alive")
        if newest <= min(self._before[0], default=newest):
            verdict.spoil("the newer encoding was never written")
        if (waited := self._longest_wait()) > self._own.longest:
            verdict.spoil(f"an event waited for {waited:.1f} s")
        return verdict

    def counts(self) -> Counts:
        return {**super().counts(), "rows": dict(self._rows), "longest wait": self._longest_wait()}

    def _longest_wait(self) -> float:
        return max((came - sent for _, sent, came in self.arrivals()), default=0.0)

    def _hire(self, release: str, number: int) -> None:
        name, there = f"{release}-{number}", self._there
        arguments = (release, there.database, there.log, name, LEASE_S)
        self._processes.start(name, module("tests.faults.processes.release_process", *arguments))

    async def _stage(self) -> None:
        await asyncio.sleep(self._own.stage)

    async def _emit(self, done: asyncio.Event) -> None:
        (load,), began, ticks = self.loads, time.monotonic(), 0
        while not done.is_set():
            await self._broker.append([load.event() for _ in range(10)])
            ticks += 1
            await asyncio.sleep(max(0.0, began + ticks * 10 / RATE - time.monotonic()))

    async def _versions(self) -> Counter[int]:
        """Of the rows in the changelogs."""
        found: Counter[int] = Counter()
        for shard in range(SHARDS):
            rows = (await table(self._broker, TRIGGERS_CHANGELOG, shard)).items()
            found.update(orjson.loads(raw)["v"] for row, raw in rows if SEPARATOR not in row)
        return found
