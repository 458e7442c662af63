"""Dapr's Python SDK and its sidecar, both unchanged, with two of our launchers in place of its scheduler, which are
killed and started again.

    make dapr-real        python -m tests.dapr_real.run --kills 20

Builds the sidecar first (see `compose.dapr.programs`). As root everything runs in a network namespace of its own. The
last line is the verdict: lost, early, unplanned (deleted jobs that arrive) and unexplained (repeated without a kill in
between) must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version

from compose.dapr.namespace import enter_namespace
from compose.dapr.programs import VERSIONS, build
from tests.dapr_real.judge import DaprVerdict, judge
from tests.dapr_real.processes import LEASE_S, SCHEDULERS, Processes
from tests.dapr_real.traffic import Traffic
from tests.faults.sites.installation_site import InstallationSite, temporary_site

#: Seconds after which what has not arrived is lost.
_SETTLE_S = 90.0
#: Jobs of one tick, at most.
_MOST = 5000
#: Streams that a sidecar opens to each scheduler.
_STREAMS = 3


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def strike(processes: Processes, rng: random.Random, times: int) -> None:
    """Kills launchers, one or both; each is back at once or when its lease has ended."""
    began = time.monotonic()
    for _ in range(times):
        await asyncio.sleep(rng.uniform(1, 4))
        victims = rng.choice(([0], [1], [0, 1]))
        dead_s = rng.choice((0.0, 1.5 * LEASE_S))
        for place in victims:
            processes.kill_launcher(place)
        _say(f"  {time.monotonic() - began:5.1f} s: killed {len(victims)} of 2, started again after {dead_s:g} s")
        await asyncio.sleep(dead_s)
        for place in victims:
            processes.start_launcher(place)
        for place in victims:
            await processes.back(place)


async def settled(processes: Processes, traffic: Traffic) -> DaprVerdict:
    """The verdict, when nothing is missing or it is too late."""
    last = max(tick for each in traffic.planned.values() for tick in each.ticks)
    while True:
        verdict = judge(traffic.planned, processes.read_deliveries(), [*processes.kills, *processes.disconnected()])
        if (verdict.lost == 0 and time.time() > last + 3) or time.time() > last + _SETTLE_S:
            return verdict
        await asyncio.sleep(0.5)


async def play(site: InstallationSite, asked: argparse.Namespace) -> bool:
    rng = random.Random(asked.seed)
    handlers = (f"once={_MOST}", f"often={asked.repeating}", "fails=3", "deleted=3", "quiet=1")
    processes = Processes(site, handlers)
    try:
        processes.start()
        await processes.connected(_STREAMS * len(SCHEDULERS))
        traffic = Traffic(rng)
        _say(f"surface: refused with {', '.join(await traffic.surface())}; HTTP 204, 200, 204, 500")
        began = time.monotonic()
        await traffic.repeating(asked.repeating, asked.ticks, 5)
        _say(f"scheduled {asked.repeating} jobs of {asked.ticks} ticks; meanwhile some 20 jobs a second:")
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(traffic.one_shots(_MOST, stop))
            await strike(processes, rng, asked.kills)
            stop.set()
        await traffic.failing(3)
        await traffic.strange()
        verdict = await settled(processes, traffic)
        late = sorted(verdict.late) or [0.0]
        _say(
            f"{time.monotonic() - began:.0f} s, {len(processes.kills)} kills, {traffic.retried} requests repeated: "
            f"{verdict.ticks} ticks of {len(traffic.planned)} jobs, {len(processes.read_deliveries())} deliveries; "
            f"late half {statistics.median(late):.3f} s, longest {late[-1]:.1f} s"
        )
        before = len(processes.disconnected())
        await asyncio.sleep(asked.quiet)
        cut = len(processes.disconnected()) - before
        at = time.time() + 2
        await traffic.one_quiet(at)
        verdict = await settled(processes, traffic)
        _say(f"{asked.quiet:g} quiet seconds: {cut} of 6 streams lost; the next job {verdict.late[-1]:.3f} s late")
        await traffic.close()
    finally:
        processes.stop()
        if asked.keep:
            shutil.copytree(site.folder, asked.keep, ignore=shutil.ignore_patterns("pg"), dirs_exist_ok=True)
    _say(f"dapr-real ticks {verdict.ticks} {verdict.line()} streams_cut {cut}")
    return verdict.well and not cut


def main(argv: Sequence[str] | None = None) -> None:
    given = sys.argv[1:] if argv is None else list(argv)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeating", type=int, default=20)
    parser.add_argument("--ticks", type=int, default=30)
    parser.add_argument("--kills", type=int, default=10, help="times that launchers are killed")
    parser.add_argument("--quiet", type=float, default=60, help="seconds in which nothing is due")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", help="a folder for the logs")
    asked = parser.parse_args(given)
    build("daprd")
    enter_namespace("tests.dapr_real.run", given)
    _say(
        f"daprd {VERSIONS['daprd']}, SDK {version('dapr')}, two launchers in place of its scheduler, seed {asked.seed}"
    )
    with temporary_site("postgres") as there:
        well = asyncio.run(play(there, asked))
    sys.exit(not well)


if __name__ == "__main__":
    main()
