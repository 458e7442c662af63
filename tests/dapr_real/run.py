"""Dapr's Python SDK and its sidecar, both unchanged, with two of our launchers in place of its scheduler, which are
killed and started again.

Builds the sidecar first (see `compose.dapr.programs`). As root everything runs in a network namespace of its own. Lost,
early, unplanned (deleted jobs that arrive) and unexplained (repeated without a kill in between) must be 0, and no
stream of the sidecar may be cut while nothing is due.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from compose.dapr.namespace import enter_namespace
from compose.dapr.programs import VERSIONS, build
from tests.dapr_real.judge import judge
from tests.dapr_real.processes import LEASE_S, SCHEDULERS, Processes
from tests.dapr_real.traffic import Traffic
from tests.faults.sites.installation_site import site
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial, settle

#: Jobs of one tick, at most.
_MOST = 5000
#: Streams that a sidecar opens to each scheduler.
_STREAMS = 3
_KINDS = ("lost", "early", "unplanned", "unexplained", "repeated", "streams_cut")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeating", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=30)
    parser.add_argument("--quiet", type=float, default=60, help="seconds in which nothing is due")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    build("daprd")
    enter_namespace("tests.trial", sys.argv[1:])
    _say(f"daprd {VERSIONS['daprd']}, SDK {version('dapr')}, two launchers in place of its scheduler")
    with site(asked.folder, "postgres") as there:
        handlers = (f"once={_MOST}", f"often={asked.own.repeating}", "fails=3", "deleted=3", "quiet=1")
        processes = Processes(there, handlers)
        try:
            processes.start()
            await processes.connected(_STREAMS * len(SCHEDULERS))
            yield Site(lambda _: DaprTrial(asked, processes))
        finally:
            processes.stop()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class DaprTrial(Trial):
    """Jobs of many kinds while launchers are killed, then quiet seconds and one more job."""

    def __init__(self, asked: Asked, processes: Processes) -> None:
        self._asked, self._processes = asked, processes
        self._rng = random.Random(asked.seed)
        self._traffic = Traffic(self._rng)
        self._cut, self._late, self._ticks = 0, [0.0], 0

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        own, traffic, stop = self._asked.own, self._traffic, asyncio.Event()
        _say(f"surface: refused with {', '.join(await traffic.surface())}; HTTP 204, 200, 204, 500")
        await traffic.repeating(own.repeating, own.ticks, 5)
        async with asyncio.TaskGroup() as group:
            group.create_task(traffic.one_shots(_MOST, stop))
            yield
            stop.set()
        await traffic.failing(3)
        await traffic.strange()
        await settle(self)
        before = len(self._processes.disconnected())
        await asyncio.sleep(own.quiet)
        self._cut = len(self._processes.disconnected()) - before
        await traffic.one_quiet(time.time() + 2)

    async def faults(self) -> AsyncIterator[str]:
        """Kills launchers, one or both; each is back at once or when its lease has ended."""
        for _ in range(self._asked.n):
            await asyncio.sleep(self._rng.uniform(1, 4))
            victims = self._rng.choice(([0], [1], [0, 1]))
            dead_s = self._rng.choice((0.0, 1.5 * LEASE_S))
            for place in victims:
                self._processes.kill_launcher(place)
            await asyncio.sleep(dead_s)
            for place in victims:
                self._processes.start_launcher(place)
            for place in victims:
                await self._processes.back(place)
            yield f"{len(victims)} of 2 killed, started again after {dead_s:g} s"

    async def judge(self) -> Judgement:
        """Not before the last tick is some seconds old."""
        planned, processes = self._traffic.planned, self._processes
        last = max(tick for each in planned.values() for tick in each.ticks)
        await asyncio.sleep(max(0.0, last + 3 - time.time()))
        found = judge(planned, processes.read_deliveries(), [*processes.kills, *processes.disconnected()])
        self._late, self._ticks = list(found.late), found.ticks
        counts = Counter({**{kind: getattr(found, kind) for kind in _KINDS[:-1]}, "streams_cut": self._cut})
        return Judgement(_KINDS, frozenset({"repeated"}), counts)

    def counts(self) -> Counts:
        return {
            "ticks": self._ticks,
            "jobs": len(self._traffic.planned),
            "kills": len(self._processes.kills),
            "requests repeated": self._traffic.retried,
            "late": self._late,
        }
