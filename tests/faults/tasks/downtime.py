"""A week of downtime: tasks that became due while no owner ran are all delivered, in order within their lanes, and the
lanes that came last do not wait behind the backlogs of the others.

Real launchers and an API; a worker in this process does the tasks. N tasks are overdue: a quarter of them is in lanes
with a long backlog, the others are in lanes of five. While the launchers catch up, tasks of new lanes are registered:
each must go after one turn of the lanes before it, at most, or it is starved.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import httpx
import psutil

from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.task import TaskRequest
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.tasks.worker import ReceivedTask, TaskWorker
from tests.faults.sites.installation_site import InstallationSite, site
from tests.faults.tasks.owners import Owners
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

_QUEUE: Final = "late"
_WEEK: Final = timedelta(days=7)
_AT_ONCE: Final = 1000
_SHORT: Final = 5
_LONG: Final = 50
#: What a launcher starts in one transaction, for each of the partitions at most twice its share.
_BATCH: Final = 500
#: Seconds between two new lanes.
_EVERY_S: Final = 0.1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--owners", type=int, default=2)


@dataclass(slots=True)
class _New:
    """A lane that was registered while the launchers caught up. `before`: deliveries so far; `lanes`: lanes with tasks
    left then; `waited`: deliveries until its own.
    """

    at: float
    before: int
    lanes: int
    waited: int | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class _Seen:
    """What arrived, by lane, in order. `left`: lanes with tasks that have not."""

    expected: dict[str, list[str]]
    arrived: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    new: dict[str, _New] = field(default_factory=dict)
    count: int = 0
    last_at: float = 0.0
    left: int = 0

    def begin(self, expected: dict[str, list[str]]) -> None:
        self.expected, self.left = expected, len(expected)

    async def take(self, task: ReceivedTask) -> None:
        lane = self.arrived[task.lane]
        lane.append(task.key)
        self.count, self.last_at = self.count + 1, time.monotonic()
        self.left -= len(lane) == len(self.expected.get(task.lane, ()))
        new = self.new.get(task.lane)
        if new is not None and new.waited is None:
            new.waited, new.seconds = self.count - 1 - new.before, time.monotonic() - new.at


async def fill(site: InstallationSite, overdue: int) -> dict[str, list[str]]:
    """Registers tasks as of a week ago, due over the week; returns the keys of each lane in order."""
    pool = await open_pool(site.database, max_size=2)
    began = datetime.now(UTC) - _WEEK
    lanes: dict[str, list[str]] = defaultdict(list)
    shorts = max(1, overdue * 3 // 4 // _SHORT)
    try:
        await QueueStore(pool).set(_QUEUE, QueuePolicy(target=WorkerTarget()), "", now=began)
        registry, batch = TaskRegistry(pool), []
        for number in range(overdue):
            lane = f"long-{number // 4 % _LONG}" if number % 4 == 0 else f"short-{number % shorts}"
            key = f"{number:07}"
            lanes[lane].append(key)
            batch.append(TaskRequest(key=key, lane=lane, due_at=began + _WEEK * number / overdue))
            if len(batch) == _AT_ONCE or number == overdue - 1:
                await registry.register(_QUEUE, batch, now=began)
                batch = []
    finally:
        await pool.close()
    return dict(lanes)


async def add_lanes(client: httpx.AsyncClient, seen: _Seen) -> None:
    """Registers a task of a new lane, again and again, as long as lanes have tasks left."""
    while seen.left > 0:
        lane = f"new-{len(seen.new)}"
        seen.new[lane] = _New(time.monotonic(), seen.count, seen.left)
        answer = await client.post(f"/v1/queues/{_QUEUE}/tasks", json={"key": lane, "lane": lane})
        answer.raise_for_status()
        await asyncio.sleep(_EVERY_S)


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    with site(asked.folder, "postgres") as there:
        yield Site(lambda _: DowntimeTrial(there, asked))


class DowntimeTrial(Trial):
    """One week. Nothing befalls the launchers once they run."""

    patience_s = 60.0

    def __init__(self, there: InstallationSite, asked: Asked) -> None:
        self._there, self._overdue, self._owners = there, asked.n, asked.own.owners
        self._seen, self._began, self._memory = _Seen({}), 0.0, 0

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        self._seen.begin(await fill(self._there, self._overdue))
        async with AsyncExitStack() as stack:
            pool = await stack.enter_async_context(await open_pool(self._there.database, max_size=2))
            owners = stack.enter_context(Owners(self._there, pool, self._owners))
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=self._there.api, timeout=60))
            worker = TaskWorker(self._there.api, concurrency=1000)
            worker.task(_QUEUE)(self._seen.take)
            await owners.start_all(client)
            self._began = self._seen.last_at = time.monotonic()
            serving = asyncio.create_task(worker.serve())
            adding = asyncio.create_task(add_lanes(client, self._seen))
            yield
            self._memory = max(psutil.Process(each.pid).memory_info().rss for each in owners.running.values())
            worker.stop()
            await serving
            await cancel(adding)

    async def judge(self) -> Judgement:
        seen, verdict = self._seen, Judgement(("lost", "repeated", "unordered", "starved"))
        if seen.left or any(each.waited is None for each in seen.new.values()):
            verdict.miss(f"{seen.left} lanes are not done", max(1, self._overdue - seen.count))
            return verdict
        for lane, keys in seen.expected.items():
            if lost := set(keys) - set(seen.arrived[lane]):
                verdict.miss(f"of lane {lane} {sorted(lost)[:5]}", len(lost))
            if seen.arrived[lane] != keys:
                verdict.note("unordered", lane)
        for lane, keys in seen.arrived.items():
            if repeated := len(keys) - len(set(keys)):
                verdict.note("repeated", lane, repeated)
        for lane, each in seen.new.items():
            # A partition has at most twice its even share of a batch, and what is in flight goes first.
            if (each.waited or 0) > 2 * each.lanes + 2 * _BATCH * self._owners:
                verdict.note("starved", f"{lane} waited for {each.waited} deliveries, behind {each.lanes} lanes")
        return verdict

    def progress(self) -> object:
        return self._seen.count

    def counts(self) -> Counts:
        seen, took = self._seen, self._seen.last_at - self._began
        turns = max(((each.waited or 0) / each.lanes for each in seen.new.values() if each.lanes > _BATCH), default=0.0)
        return {
            "overdue": self._overdue,
            "lanes": len(seen.expected),
            "took": took,
            "per_s": round(seen.count / took),
            "new_lanes": len(seen.new),
            "new_wait": [each.seconds for each in seen.new.values()],
            "new_wait_turns_max": round(turns, 2),
            "rss_mb": round(self._memory / 1e6),
        }
