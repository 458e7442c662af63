"""Owners of tasks killed, paused and stopped under load, trial after trial, and judged by what arrived.

    make task-faults BROKER=postgres|kafka TRIALS=20 SEED=1

Three launchers and the API of an installation, as processes. In each trial tasks of 10,000 lanes become due within
seconds, two or three owners are killed, paused or stopped meanwhile, one lane in a hundred is stuck for most of it, and
tasks are repeated, replaced and dropped. With the log in PostgreSQL tasks are registered over HTTP and delivered over
HTTP. With Kafka they arrive as records of PagerDuty's clients; half of the lanes are delivered over HTTP, the others as
events, which are read back from the log. The last line is the verdict: lost, early, unordered (in a lane), together
(two of a lane on their way), stale (replaced) and unexplained (repeated, though not in flight when another owner took
its lane) must be 0.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import asyncpg
import httpx
import structlog

from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool
from tests.faults.sites.counting_server import url_of
from tests.faults.sites.installation_site import InstallationSite, temporary_site
from tests.faults.tasks.judge import TaskVerdict, judge
from tests.faults.tasks.load import CALLED, PUBLISHED, TaskLoad
from tests.faults.tasks.owners import OwnerFault, Owners
from tests.faults.tasks.published import PublishedTasks
from tests.faults.tasks.receiver import TaskReceiver
from tests.faults.tasks.watched import WatchingTriggers
from tests.faults.tasks.ways_in import ApiArrival, Arrival, TopicArrival

#: Seconds after which what has not arrived is lost.
_SETTLE_S: Final = 120.0
#: Requests after which owners meet faults.
_BEGUN: Final = 100


async def _nothing() -> None:
    """What goes on beside a trial by default."""


@dataclass(slots=True)
class TaskTrials:
    """What the trials of a run share. `broker`: the log, if tasks arrive by it."""

    owners: Owners
    client: httpx.AsyncClient
    pool: asyncpg.Pool
    triggers: WatchingTriggers
    broker: Broker | None

    async def play(
        self, number: int, seed: int, lanes: int, beside: Callable[[], Awaitable[None]] = _nothing
    ) -> TaskVerdict:
        """One trial; prints a line. `beside` goes on until it is cancelled at the end of the faults."""
        rng, began = random.Random(f"{seed}-{number}"), time.monotonic()
        receiver = TaskReceiver(random.Random(f"{seed}-{number}-far"))
        published = None if self.broker is None else PublishedTasks(self.broker, self.pool)
        arrival = self._arrival()
        load = TaskLoad(arrival, f"{number}-{seed}", random.Random(f"{seed}-{number}-load"), published is not None)
        server = await receiver.listen()
        await self.triggers.begin()
        await self._set_queues(url_of(server), arrival)
        await arrival.begin(CALLED, PUBLISHED)
        if published is not None:
            await published.begin()
        stop, watching = asyncio.Event(), asyncio.create_task(arrival.watch())
        meddling, other = asyncio.create_task(load.meddle(stop)), asyncio.ensure_future(beside())
        try:
            met = await self._strike(rng, receiver, load.register(lanes))
            stop.set()
            await meddling
        finally:
            await cancel(meddling, watching, other)
        if not other.cancelled():
            other.result()
        receiver.released = True
        registrations = await arrival.registrations()
        left = await self._settled(published)
        server.close()
        watched = await self.triggers.watched()
        events = () if published is None else await published.deliveries()
        verdict = judge(registrations, load.dropped, [*receiver.deliveries, *events], watched)
        kinds = Counter(each.verdict for each in registrations)
        _say(
            f"trial {number} {', '.join(met)}: {lanes} lanes, {kinds['made']} tasks, {load.repeats} repeats, "
            f"{kinds['replaced']} of {load.replacements} replacements, {len(load.dropped)} drops, "
            f"{len(receiver.deliveries)} requests, {len(events)} events, {len(watched.takeovers)} in flight at "
            f"takeovers, {left} left, took {time.monotonic() - began:.0f} s, {verdict.line()}",
            *verdict.words,
        )
        return verdict

    def _arrival(self) -> Arrival:
        if self.broker is None:
            return ApiArrival(self.client)
        return TopicArrival(self.client, self.broker, self.pool, self.triggers)

    async def _set_queues(self, url: str, arrival: Arrival) -> None:
        """Retries after a second without a bound."""
        shared: dict[str, Any] = {
            "retry": {"type": "period", "period": "1s"},
            "identity": "key_and_due" if arrival.keeps_due else "key",
        }
        targets: dict[str, Any] = {
            CALLED: {"type": "http", "url": url, "timeout": "2s"},
            PUBLISHED: {"type": "publish", "event": "faults.published"},
        }
        for queue, target in targets.items():
            (await self.client.put(f"/v1/queues/{queue}", json={"target": target, **shared})).raise_for_status()

    async def _strike(
        self, rng: random.Random, receiver: TaskReceiver, registering: Coroutine[Any, Any, None]
    ) -> Sequence[OwnerFault]:
        """Two or three owners meet a fault each once tasks are delivered; returns when all is over."""
        many = min(self.owners.many, rng.choice((2, 3)))
        faults = [rng.choice(list(OwnerFault)) for _ in range(many)]
        places = rng.sample(range(self.owners.many), many)

        async def strike(place: int, fault: OwnerFault, after_s: float) -> None:
            while len(receiver.deliveries) < _BEGUN:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(after_s)
            await self.owners.strike(place, fault, rng)

        async with asyncio.TaskGroup() as group:
            group.create_task(registering)
            for place, fault in zip(places, faults, strict=True):
                group.create_task(strike(place, fault, rng.uniform(0, 4)))
        return faults

    async def _settled(self, published: PublishedTasks | None) -> int:
        """How many tasks are left when all have ended, or after a while."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            left = sum([(await self.client.get(f"/v1/queues/{each}")).json()["tasks"] for each in (CALLED, PUBLISHED)])
            if time.monotonic() > deadline or (not left and (published is None or await published.all_relayed())):
                return left
            await asyncio.sleep(0.1)


@asynccontextmanager
async def task_trials(site: InstallationSite, owners: int) -> AsyncIterator[TaskTrials]:
    """The processes run inside the block."""
    async with AsyncExitStack() as stack:
        pool = await open_pool(site.database, max_size=3)
        stack.push_async_callback(pool.close)
        triggers = WatchingTriggers(pool)
        await triggers.make()
        processes = Owners(site, pool, owners, (CALLED, PUBLISHED) if site.cluster else ())
        stack.push_async_callback(processes.stop)
        fresh = httpx.Limits(max_keepalive_connections=0)  # the API may close one at the moment that it is used again
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=site.api, limits=fresh, timeout=60))
        await processes.start(client)
        broker = None
        if site.cluster is not None:
            broker = await open_broker(site.log)
            stack.push_async_callback(broker.close)
        gc.disable()  # a pause of the far side makes many deliveries late; what a trial leaves goes at its end
        stack.callback(gc.enable)
        yield TaskTrials(processes, client, pool, triggers, broker)


async def run(site: InstallationSite, *, trials: int, seed: int, lanes: int, owners: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    total = TaskVerdict()
    async with task_trials(site, owners) as playing:
        for number in range(1, trials + 1):
            total.add(await playing.play(number, seed, lanes))
            gc.collect()
    return f"trials {trials} {total.line()}", total.well


def _say(*lines: str) -> None:
    sys.stdout.write("\n  ".join(lines) + "\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--owners", type=int, default=3)
    asked = parser.parse_args(argv)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with temporary_site(asked.broker) as there:
        line, well = asyncio.run(
            run(there, trials=asked.trials, seed=asked.seed, lanes=asked.lanes, owners=asked.owners)
        )
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
