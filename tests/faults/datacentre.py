"""A datacentre lost under load: a Kafka broker, the PostgreSQL primary and a launcher are cut off, and the standby is
promoted. Needs root.

All the while tasks are registered, half of them over HTTP and half as records of PagerDuty's clients, each sent again
until it is acknowledged, and are delivered over HTTP to this side. The line says how long after the loss registrations
were acknowledged and tasks delivered again; `tests.faults.judges.tasks` what the words of the verdict mean.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import asyncpg
import httpx

from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool, translate_errors
from tests.faults.judges.tasks import Name, Registration, judge_tasks, task_judgement
from tests.faults.sites.datacentres import Datacentres, datacentres
from tests.faults.sites.far_side import refuse_without_root
from tests.faults.tasks.owners import all_own_lanes
from tests.faults.tasks.receiver import TaskReceiver
from tests.faults.tasks.trial import tasks_left
from tests.faults.tasks.watched import WatchingTriggers
from tests.faults.tasks.ways_in import ApiArrival, Arrival, SentTask, TopicArrival
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

_BY_API: Final = "direct"
_BY_TOPIC: Final = "scheduler"
#: Lanes of each queue, and tasks in a batch; a batch is sent every so many seconds.
_LANES: Final = 400
_BATCH: Final = 20
_EVERY_S: Final = 0.1
#: How long the load lasts before the loss, how long people need to promote the standby, and how long the load goes on
#: after both ways in acknowledge again.
_BEFORE_S: Final = 6.0
_DECIDED_S: Final = 3.0
_AFTER_S: Final = 4.0
#: Seconds after which what does not come is lost.
_PATIENCE_S: Final = 120.0
_AWAY: Final = (UnavailableError, httpx.HTTPError, TimeoutError)


@dataclass(slots=True)
class Sender:
    """Sends batches of one way in until each is acknowledged.

    Attributes:
        acknowledged: of each batch, when it was, and when it was sent first.
    """

    arrival: Arrival
    queue: str
    rng: random.Random
    acknowledged: list[tuple[float, float]] = field(default_factory=list)
    open: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, stop: asyncio.Event) -> None:
        """A batch every moment until it is to stop; returns when all are acknowledged."""
        while not stop.is_set():
            sending = asyncio.create_task(self._send(self._batch()))
            self.open.add(sending)
            sending.add_done_callback(self.open.discard)
            await asyncio.sleep(_EVERY_S)
        await asyncio.gather(*self.open)

    def again_after(self, moment: float) -> float | None:
        """When the first batch that was sent after this moment was acknowledged."""
        return min((at for at, sent in self.acknowledged if sent > moment), default=None)

    def _batch(self) -> list[SentTask]:
        now = time.time()
        return [
            SentTask(
                Name(f"{self.queue}-{self.rng.randrange(_LANES)}", f"{self.rng.getrandbits(64):016x}"),
                1,
                round(now + self.rng.uniform(0.5, 3), 3),
            )
            for _ in range(_BATCH)
        ]

    async def _send(self, batch: list[SentTask]) -> None:
        sent = time.time()
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                with suppress(*_AWAY):
                    await self.arrival.send(self.queue, batch)
                    break
                await asyncio.sleep(0.2)
        self.acknowledged.append((time.time(), sent))


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    refuse_without_root()
    with datacentres(asked.folder, task_topics=_BY_TOPIC) as there:
        there.start()
        async with AsyncExitStack() as stack:
            pool = await open_pool(there.database, max_size=3)
            stack.callback(pool.terminate)
            fresh = httpx.Limits(max_keepalive_connections=0)
            client = await stack.enter_async_context(httpx.AsyncClient(base_url=there.api, limits=fresh, timeout=30))
            await all_own_lanes(client, pool, 3)
            yield Site(lambda _: DatacentreTrial(there, pool, client, asked.seed))


class DatacentreTrial(Trial):
    """One loss of a datacentre."""

    patience_s = _PATIENCE_S

    def __init__(self, there: Datacentres, pool: asyncpg.Pool, client: httpx.AsyncClient, seed: int) -> None:
        self._there = there
        self._client = client
        self._seed = seed
        self._pool = pool
        self._triggers = WatchingTriggers(pool)
        self._receiver = TaskReceiver(random.Random(f"{seed}-far"))
        self._senders: list[Sender] = []
        self._registrations: list[Registration] = []
        self._lost_at = self._promoted_at = 0.0

    @asynccontextmanager
    async def site(self) -> AsyncIterator[None]:
        await self._triggers.make()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self._receiver.connection, self._there.here, 0, backlog=4096)
        try:
            await self._set_queues(f"http://{self._there.here}:{server.sockets[0].getsockname()[1]}/")
            yield
        finally:
            server.close()

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        """Registrations on both ways in."""
        async with AsyncExitStack() as stack:
            broker = await open_broker(self._there.cluster.url)
            stack.push_async_callback(broker.close)
            topic = TopicArrival(self._client, broker, self._pool, self._triggers)
            await topic.begin(_BY_TOPIC)
            api = ApiArrival(self._client)
            self._senders = [
                Sender(arrival, queue, random.Random(f"{self._seed}-{queue}"))
                for arrival, queue in ((api, _BY_API), (topic, _BY_TOPIC))
            ]
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_always(topic.watch))
                sending = [group.create_task(each.run(stop)) for each in self._senders]
                yield
                stop.set()
                await asyncio.gather(*sending)
                await cancel(watching)
            self._registrations = [
                *(replace(each, verdict="made") for each in await api.registrations()),
                *_first(await _settled(topic)),
            ]

    async def faults(self) -> AsyncIterator[str]:
        """The loss, and the promotion; until both ways in acknowledge again."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(self._receiver.deliveries) < 500:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(_BEFORE_S)
        await asyncio.to_thread(self._there.cut_off)
        self._lost_at = time.time()
        yield "a datacentre lost"
        await asyncio.sleep(_DECIDED_S)
        await asyncio.to_thread(self._there.standby.promote)
        self._promoted_at = time.time()
        yield "standby promoted"
        async with asyncio.timeout(_PATIENCE_S):
            while not all(each.again_after(self._promoted_at) for each in self._senders):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(_AFTER_S)

    async def judge(self) -> Judgement:
        left = -1
        with suppress(*_AWAY):
            left = await tasks_left(self._client, _BY_API, _BY_TOPIC)
        if left:
            verdict = task_judgement()
            verdict.miss(f"{left} tasks are left", abs(left))
            return verdict
        return judge_tasks(self._registrations, {}, self._receiver.deliveries, await self._triggers.watched())

    def progress(self) -> object:
        return len(self._receiver.deliveries)

    def counts(self) -> Counts:
        deliveries, lost_at = self._receiver.deliveries, self._lost_at
        api, topic = ((each.again_after(lost_at) or 0.0) - lost_at for each in self._senders)
        delivered = min((each.arrived for each in deliveries if each.due > lost_at + 3), default=0.0)
        return {
            "tasks": len(self._registrations),
            "promoted": self._promoted_at - lost_at,
            "acknowledged again api": api,
            "topic": topic,
            "delivered again": delivered - lost_at,
            "longest wait": max((each.arrived - each.due for each in deliveries), default=0.0),
        }

    async def _set_queues(self, url: str) -> None:
        policy = {"target": {"type": "http", "url": url, "timeout": "2s"}, "retry": {"type": "period", "period": "1s"}}
        for queue, identity in ((_BY_API, "key"), (_BY_TOPIC, "key_and_due")):
            answer = await self._client.put(f"/v1/queues/{queue}", json={**policy, "identity": identity})
            answer.raise_for_status()


def _first(registrations: Sequence[Registration]) -> list[Registration]:
    """Records that were sent twice, because their acknowledgement did not arrive, are one registration."""
    found: dict[Name, Registration] = {}
    for each in registrations:
        found.setdefault(each.name, replace(each, verdict="made") if each.stored else each)
    return list(found.values())


async def _settled(arrival: Arrival) -> Sequence[Registration]:
    """What became of all that was sent; asked again while a leader is elected."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            with suppress(UnavailableError):
                return await arrival.registrations()
            await asyncio.sleep(0.2)


async def _always(watch: Callable[[], Awaitable[None]]) -> None:
    while True:
        with suppress(UnavailableError), translate_errors():
            await watch()
        await asyncio.sleep(0.2)
