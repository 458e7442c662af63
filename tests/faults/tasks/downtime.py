"""A week of downtime: tasks that became due while no owner ran are all delivered, in order within their lanes, and the
lanes that came last do not wait behind the backlogs of the others.

    python -m tests.faults.tasks.downtime --overdue 200000

Real launchers and an API; a worker in this process does the tasks. A quarter of the overdue tasks is in lanes with a
long backlog, the others are in lanes of five. While the launchers catch up, tasks of new lanes are registered: each
must go after one turn of the lanes before it, at most. The last line is the verdict.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

import httpx
import psutil
import structlog

from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.task import TaskRequest
from streamsched.store.connections import open_pool
from streamsched.store.tasks.queues import QueueStore
from streamsched.store.tasks.registry import TaskRegistry
from streamsched.tasks.worker import ReceivedTask, TaskWorker
from tests.faults.sites.installation_site import InstallationSite, temporary_site
from tests.faults.tasks.owners import Owners

_QUEUE: Final = "late"
_WEEK: Final = timedelta(days=7)
_AT_ONCE: Final = 1000
_SHORT: Final = 5
_LONG: Final = 50
#: What a launcher starts in one transaction, for each of the partitions at most twice its share.
_BATCH: Final = 500
#: Seconds between two new lanes, and after which a check has failed in which nothing arrives any more.
_EVERY_S: Final = 0.1
_SILENCE_S: Final = 60.0


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
    """What arrived, by lane, in order."""

    expected: dict[str, list[str]]
    arrived: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    new: dict[str, _New] = field(default_factory=dict)
    count: int = 0
    last_at: float = 0.0
    left: int = 0

    def add(self, task: ReceivedTask) -> None:
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


async def run(site: InstallationSite, *, overdue: int, owners: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    began = time.monotonic()
    seen = _Seen(await fill(site, overdue))
    seen.left = len(seen.expected)
    _say(f"filled {overdue} overdue tasks in {len(seen.expected)} lanes in {time.monotonic() - began:.0f} s")
    pool = await open_pool(site.database, max_size=2)
    processes = Owners(site, pool, owners)
    worker = TaskWorker(site.api, concurrency=1000)
    worker.task(_QUEUE)(_adder(seen))
    async with httpx.AsyncClient(base_url=site.api, timeout=60) as client:
        try:
            await processes.start(client)
            began = seen.last_at = time.monotonic()
            serving = asyncio.create_task(worker.serve())
            adding = asyncio.create_task(add_lanes(client, seen))
            while not _over(seen) and time.monotonic() - seen.last_at < _SILENCE_S:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            took = seen.last_at - began
            memory = max(psutil.Process(each.pid).memory_info().rss for each in processes.running)
            worker.stop()
            await serving
            await adding
        finally:
            await processes.stop()
            await pool.close()
    return _verdict(seen, overdue, owners, took, memory)


def _adder(seen: _Seen):
    async def add(task: ReceivedTask) -> None:
        seen.add(task)

    return add


def _over(seen: _Seen) -> bool:
    return seen.left == 0 and all(each.waited is not None for each in seen.new.values())


def _verdict(seen: _Seen, overdue: int, owners: int, took: float, memory: int) -> tuple[str, bool]:
    lost = sum(len(set(keys) - set(seen.arrived[lane])) for lane, keys in seen.expected.items())
    repeated = sum(len(keys) - len(set(keys)) for keys in seen.arrived.values())
    unordered = sum(seen.arrived[lane] != keys for lane, keys in seen.expected.items())
    # A partition has at most twice its even share of a batch, and what is in flight goes first.
    starved = [
        each for each in seen.new.values() if each.waited is None or each.waited > 2 * each.lanes + 2 * _BATCH * owners
    ]
    waits = sorted(each.seconds for each in seen.new.values())
    share = max(((each.waited or 0) / each.lanes for each in seen.new.values() if each.lanes > _BATCH), default=0.0)
    line = (
        f"overdue {overdue} lanes {len(seen.expected)} took_s {took:.1f} per_s {seen.count / took:.0f} lost {lost} "
        f"repeated {repeated} unordered {unordered} new_lanes {len(waits)} starved {len(starved)} "
        f"new_wait_p50_s {waits[len(waits) // 2]:.2f} new_wait_max_s {waits[-1]:.2f} new_wait_turns_max {share:.2f} "
        f"rss_mb {memory / 1e6:.0f}"
    )
    return line, not (lost or repeated or unordered or starved)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--overdue", type=int, default=200_000)
    parser.add_argument("--owners", type=int, default=2)
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with temporary_site("postgres") as there:
        line, well = asyncio.run(run(there, overdue=asked.overdue, owners=asked.owners))
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
