"""Owners of tasks killed, paused and stopped under load, trial after trial, and judged by what arrived.

Launchers and the API of an installation, as processes. In each trial tasks of many lanes become due within seconds, two
or three owners are killed, paused or stopped meanwhile, one lane in a hundred is stuck for most of it, and tasks are
repeated, replaced and dropped. With the log in PostgreSQL tasks are registered over HTTP and delivered over HTTP. With
Kafka they arrive as records of PagerDuty's clients; half of the lanes are delivered over HTTP, the others as events,
which are read back from the log. `tests.faults.judges.tasks` says what the words of the verdict mean.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import asyncpg
import httpx

from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool
from tests.faults.judges.tasks import Registration, Watched, judge_tasks, task_judgement
from tests.faults.sites.counting_server import url_of
from tests.faults.sites.installation_site import site
from tests.faults.tasks.load import CALLED, PUBLISHED, TaskLoad
from tests.faults.tasks.owners import OwnerFault, Owners
from tests.faults.tasks.published import PublishedTasks
from tests.faults.tasks.receiver import Delivery, TaskReceiver
from tests.faults.tasks.watched import WatchingTriggers
from tests.faults.tasks.ways_in import ApiArrival, TopicArrival
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

#: Requests after which owners meet faults.
_BEGUN: Final = 100


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lanes", type=int, default=10_000)
    parser.add_argument("--owners", type=int, default=3)


@dataclass(frozen=True, slots=True)
class TaskSite:
    """What the trials of a run share. `broker`: the log, if tasks arrive by it."""

    asked: Asked
    owners: Owners
    client: httpx.AsyncClient
    pool: asyncpg.Pool
    triggers: WatchingTriggers
    broker: Broker | None


class TaskTrial(Trial):
    """Registrations of many lanes, and a fault for two or three owners."""

    patience_s = 120.0

    def __init__(self, shared: TaskSite, number: int) -> None:
        self._shared = shared
        seed = f"{shared.asked.seed}-{number + 1}"
        self.rng_of = lambda what: random.Random(f"{seed}-{what}")
        self._rng = random.Random(seed)
        self._receiver = TaskReceiver(self.rng_of("far"))
        self._arrival, self._published = ApiArrival(shared.client), None
        if shared.broker is not None:
            self._published = PublishedTasks(shared.broker, shared.pool)
            self._arrival = TopicArrival(shared.client, shared.broker, shared.pool, shared.triggers)
        name = f"{number + 1}-{shared.asked.seed}"
        self._load = TaskLoad(self._arrival, name, self.rng_of("load"), self._published is not None)
        self._registrations: Sequence[Registration] = ()
        self._events: Sequence[Delivery] = ()
        self._watched = Watched()
        self._left = -1

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        """The far side, and what triggers record of this trial."""
        server = await self._receiver.listen()
        await self._shared.triggers.begin()
        await self._set_queues(url_of(server))
        await self._arrival.begin(CALLED, PUBLISHED)
        if self._published is not None:
            await self._published.begin()
        gc.disable()  # a pause of the far side makes many deliveries late; what a trial leaves goes at its end
        try:
            yield
        finally:
            gc.enable()
            server.close()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(each) for each in (self._arrival.watch(), self.beside())]
            sending = [group.create_task(self._load.register(self._shared.asked.own.lanes))]
            meddling = group.create_task(self._load.meddle(stop))
            yield
            await asyncio.gather(*sending)
            stop.set()
            await meddling
            await cancel(*beside)
        self._receiver.released = True
        self._registrations = await self._arrival.registrations()

    async def beside(self) -> None:
        """Something that goes on until the faults are over."""

    async def faults(self) -> AsyncIterator[str]:
        """Two or three owners meet a fault each once tasks are delivered, at about the same time."""
        rng, many = self._rng, min(self._shared.owners.many, self._rng.choice((2, 3)))
        faults = [rng.choice(list(OwnerFault)) for _ in range(many)]
        places = rng.sample(range(self._shared.owners.many), many)

        async def strike(place: int, fault: OwnerFault, after_s: float) -> None:
            while len(self._receiver.deliveries) < _BEGUN:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            await asyncio.sleep(after_s)
            await self._shared.owners.strike(place, fault, rng)

        async with asyncio.TaskGroup() as group:
            for place, fault in zip(places, faults, strict=True):
                group.create_task(strike(place, fault, rng.uniform(0, 4)))
        for fault in faults:
            yield fault

    async def judge(self) -> Judgement:
        verdict = task_judgement()
        self._left = await tasks_left(self._shared.client, CALLED, PUBLISHED)
        if self._left or (self._published is not None and not await self._published.all_relayed()):
            verdict.miss(f"{self._left} tasks are left", max(1, self._left))
            return verdict
        self._watched = await self._shared.triggers.watched()
        self._events = () if self._published is None else await self._published.deliveries()
        deliveries = [*self._receiver.deliveries, *self._events]
        return judge_tasks(self._registrations, self._load.dropped, deliveries, self._watched)

    def progress(self) -> object:
        return len(self._receiver.deliveries)

    def counts(self) -> Counts:
        kinds = Counter(each.verdict for each in self._registrations)
        return {
            "lanes": self._shared.asked.own.lanes,
            "tasks": kinds["made"],
            "repeats": self._load.repeats,
            "replaced": kinds["replaced"],
            "dropped": len(self._load.dropped),
            "requests": len(self._receiver.deliveries),
            "events": len(self._events),
            "in flight at takeovers": len(self._watched.takeovers),
            "left": self._left,
        }

    async def _set_queues(self, url: str) -> None:
        """Retries after a second without a bound."""
        shared: dict[str, Any] = {
            "retry": {"type": "period", "period": "1s"},
            "identity": "key_and_due" if self._arrival.keeps_due else "key",
        }
        targets: dict[str, Any] = {
            CALLED: {"type": "http", "url": url, "timeout": "2s"},
            PUBLISHED: {"type": "publish", "event": "faults.published"},
        }
        for queue, target in targets.items():
            answer = await self._shared.client.put(f"/v1/queues/{queue}", json={"target": target, **shared})
            answer.raise_for_status()


@asynccontextmanager
async def open_site(asked: Asked, trial: Callable[[TaskSite, int], Trial] = TaskTrial) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        there = stack.enter_context(site(asked.folder, asked.broker))
        pool = await stack.enter_async_context(await open_pool(there.database, max_size=3))
        triggers = WatchingTriggers(pool)
        await triggers.make()
        topics = (CALLED, PUBLISHED) if there.cluster else ()
        owners = stack.enter_context(Owners(there, pool, asked.own.owners, topics))
        fresh = httpx.Limits(max_keepalive_connections=0)  # the API may close one at the moment that it is used again
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=there.api, limits=fresh, timeout=60))
        await owners.start_all(client)
        broker = None
        if there.cluster is not None:
            broker = await open_broker(there.log)
            stack.push_async_callback(broker.close)
        yield Site(partial(trial, TaskSite(asked, owners, client, pool, triggers, broker)), asked.n)


async def tasks_left(client: httpx.AsyncClient, *queues: str) -> int:
    """How many have not ended."""
    answers = [await client.get(f"/v1/queues/{each}") for each in queues]
    return sum(each.raise_for_status().json()["tasks"] for each in answers)
