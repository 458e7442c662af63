"""Owners of tasks killed, paused and stopped under load, trial after trial, and judged by what arrived.

    make task-faults TRIALS=20 SEED=1

Launchers and the API of an installation, as processes. In each trial tasks of 10,000 lanes become due within seconds
and are delivered over HTTP; one lane in a hundred is stuck for most of it, and tasks are repeated, replaced and
dropped. The last line is the verdict: lost, early, unordered (in a lane), together (two of a lane on their way), stale
(replaced) and unexplained (repeated, though not in flight when another owner took its lane) must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence

import httpx
import structlog

from streamsched.store.connections import open_pool
from tests.faults.sites.counting_server import url_of
from tests.faults.sites.installation_site import InstallationSite, temporary_site
from tests.faults.tasks.judge import TaskVerdict, judge
from tests.faults.tasks.load import TaskLoad
from tests.faults.tasks.owners import OwnerFault, Owners
from tests.faults.tasks.receiver import TaskReceiver

#: Seconds after which what has not arrived is lost.
_SETTLE_S = 120.0


async def play(owners: Owners, client: httpx.AsyncClient, number: int, seed: int, lanes: int) -> TaskVerdict:
    """One trial; prints a line."""
    rng, began = random.Random(f"{seed}-{number}"), time.monotonic()
    receiver = TaskReceiver(random.Random(f"{seed}-{number}-far"))
    load = TaskLoad(client, f"q{number}-{seed}", random.Random(f"{seed}-{number}-load"))
    server = await receiver.listen()
    await load.set_queue(url_of(server))
    await load.register(lanes)
    stop = asyncio.Event()
    met: list[OwnerFault] = []
    before = await owners.in_flight()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.meddle(stop))
        for _ in range(rng.choice((1, 2))):
            await asyncio.sleep(rng.uniform(0.5, 3))
            fault = rng.choice(list(OwnerFault))
            await owners.strike(fault, rng)
            met.append(fault)
        stop.set()
    receiver.released = True
    left = await _settled(client, load.queue)
    server.close()
    in_flight = await owners.in_flight()
    verdict = judge(load.registered, load.dropped, receiver.deliveries, in_flight)
    kinds = Counter(each.verdict for each in load.registered)
    _say(
        f"trial {number} {', '.join(met)}: {lanes} lanes, {kinds['made']} tasks, {load.repeats} repeats, "
        f"{kinds['replaced']} replacements, {len(load.dropped)} drops, {len(receiver.deliveries)} deliveries, "
        f"{len(in_flight - before)} in flight at takeovers, {left} left, took {time.monotonic() - began:.0f} s, "
        f"{verdict.line()}",
        *verdict.words,
    )
    return verdict


async def _settled(client: httpx.AsyncClient, queue: str) -> int:
    """How many tasks are left when none has ended for a while, or all have."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        left = (await client.get(f"/v1/queues/{queue}")).json()["tasks"]
        if not left or time.monotonic() > deadline:
            return left
        await asyncio.sleep(0.3)


async def run(site: InstallationSite, *, trials: int, seed: int, lanes: int, owners: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    pool = await open_pool(site.database, max_size=2)
    total, played = TaskVerdict(), 0
    processes = Owners(site, pool, owners)
    fresh = httpx.Limits(max_keepalive_connections=0)  # the API may close one at the moment that it is used again
    async with httpx.AsyncClient(base_url=site.api, limits=fresh, timeout=60) as client:
        try:
            await processes.start(client)
            for number in range(1, trials + 1):
                total.add(await play(processes, client, number, seed, lanes))
                played += 1
        finally:
            await processes.stop()
            await pool.close()
    return f"trials {played} {total.line()}", total.well


def _say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--owners", type=int, default=3)
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with temporary_site("postgres") as there:
        line, well = asyncio.run(
            run(there, trials=asked.trials, seed=asked.seed, lanes=asked.lanes, owners=asked.owners)
        )
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
