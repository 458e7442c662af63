"""A datacentre lost under load: a Kafka broker, the PostgreSQL primary and a launcher are cut off, and the standby is
promoted. Needs root.

    make datacentre SEED=1

All the while tasks are registered, half of them over HTTP and half as records of PagerDuty's clients, each sent again
until it is acknowledged, and are delivered over HTTP to this side. The last line is the verdict: what was acknowledged
and did not arrive (lost), what arrived early, out of order or beside another of its lane, and what was repeated though
it was not in flight when another owner took its lane, must be 0; and how long after the loss registrations were
acknowledged and tasks delivered again.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import asyncpg
import httpx
import structlog

from streamsched.domain.errors import UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.process.cancellation import cancel
from streamsched.store.connections import open_pool, translated
from tests.faults.judges.tasks import Name, Registration, judge
from tests.faults.sites.datacentres import Datacentres, datacentres
from tests.faults.sites.far_side import possible
from tests.faults.tasks.receiver import TaskReceiver
from tests.faults.tasks.watched import WatchingTriggers
from tests.faults.tasks.ways_in import ApiArrival, Arrival, SentTask, TopicArrival

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


class Play:
    """One loss of a datacentre."""

    def __init__(self, there: Datacentres, pool: asyncpg.Pool, client: httpx.AsyncClient, seed: int) -> None:
        self._there = there
        self._pool = pool
        self._client = client
        self._seed = seed
        self._receiver = TaskReceiver(random.Random(f"{seed}-far"))

    async def run(self) -> tuple[str, bool]:
        """The last line, and whether all is well."""
        loop = asyncio.get_running_loop()
        triggers = WatchingTriggers(self._pool)
        await triggers.make()
        server = await loop.create_server(self._receiver.connection, self._there.here, 0, backlog=4096)
        await self._set_queues(f"http://{self._there.here}:{server.sockets[0].getsockname()[1]}/")
        async with AsyncExitStack() as stack:
            broker = await open_broker(self._there.cluster.url)
            stack.push_async_callback(broker.close)
            topic = TopicArrival(self._client, broker, self._pool, triggers)
            await topic.begin(_BY_TOPIC)
            api = ApiArrival(self._client)
            senders = [
                Sender(arrival, queue, random.Random(f"{self._seed}-{queue}"))
                for arrival, queue in ((api, _BY_API), (topic, _BY_TOPIC))
            ]
            stop = asyncio.Event()
            watching = asyncio.create_task(_always(topic.watch))
            sending = [asyncio.create_task(each.run(stop)) for each in senders]
            stack.push_async_callback(cancel, watching, *sending)
            lost_at, promoted_at = await self._cut_off(senders)
            stop.set()
            await asyncio.gather(*sending)
            registrations = [
                *(replace(each, verdict="made") for each in await api.registrations()),
                *_first(await _settled(topic)),
            ]
            left = await self._settled()
            server.close()
            watched = await triggers.watched()
        verdict = judge(registrations, {}, self._receiver.deliveries, watched)
        acked = [each.again_after(lost_at) or 0.0 for each in senders]
        delivered = min((each.arrived for each in self._receiver.deliveries if each.due > lost_at + 3), default=0.0)
        _say(*verdict.words)
        line = (
            f"tasks {len(registrations)} {verdict.line()} left {left} promoted {promoted_at - lost_at:.1f} s "
            f"acknowledged again api {acked[0] - lost_at:.1f} s topic {acked[1] - lost_at:.1f} s "
            f"delivered again {delivered - lost_at:.1f} s longest wait {self._longest_wait():.1f} s"
        )
        return line, verdict.well and not left

    async def _cut_off(self, senders: list[Sender]) -> tuple[float, float]:
        """Returns when both ways in acknowledge again: when the datacentre was lost, and when the standby was the
        primary.
        """
        async with asyncio.timeout(_PATIENCE_S):
            while len(self._receiver.deliveries) < 500:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(_BEFORE_S)
        await asyncio.to_thread(self._there.cut_off)
        lost_at = time.time()
        await asyncio.sleep(_DECIDED_S)
        await asyncio.to_thread(self._there.servers.promote)
        promoted_at = time.time()
        async with asyncio.timeout(_PATIENCE_S):
            while not all(each.again_after(promoted_at) for each in senders):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await asyncio.sleep(_AFTER_S)
        return lost_at, promoted_at

    async def _set_queues(self, url: str) -> None:
        policy = {"target": {"type": "http", "url": url, "timeout": "2s"}, "retry": {"type": "period", "period": "1s"}}
        for queue, identity in ((_BY_API, "key"), (_BY_TOPIC, "key_and_due")):
            answer = await self._client.put(f"/v1/queues/{queue}", json={**policy, "identity": identity})
            answer.raise_for_status()

    async def _settled(self) -> int:
        """How many tasks are left when all have ended, or after a while."""
        deadline, left = time.monotonic() + _PATIENCE_S, -1
        while left and time.monotonic() < deadline:
            with suppress(*_AWAY):
                answers = [await self._client.get(f"/v1/queues/{each}") for each in (_BY_API, _BY_TOPIC)]
                left = sum([each.raise_for_status().json()["tasks"] for each in answers])
            await asyncio.sleep(0.1)
        return left

    def _longest_wait(self) -> float:
        return max((each.arrived - each.due for each in self._receiver.deliveries), default=0.0)


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
        with suppress(UnavailableError), translated():
            await watch()
        await asyncio.sleep(0.2)


async def run(there: Datacentres, *, seed: int) -> tuple[str, bool]:
    """The last line, and whether all is well."""
    there.start(topics=_BY_TOPIC)
    async with AsyncExitStack() as stack:
        pool = await open_pool(there.database, max_size=3)
        stack.callback(pool.terminate)
        fresh = httpx.Limits(max_keepalive_connections=0)
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=there.api, limits=fresh, timeout=30))
        await _ready(client, pool)
        return await Play(there, pool, client, seed).run()


async def _ready(client: httpx.AsyncClient, pool: asyncpg.Pool) -> None:
    """Returns when the API answers and three launchers share the lanes."""
    owners = "SELECT count(DISTINCT owner) FROM leases WHERE name LIKE 'tasks-%' AND expires_at > now()"
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            with suppress(httpx.TransportError):
                if (await client.get("/health/ready")).status_code == 200 and await pool.fetchval(owners) == 3:
                    return
            await asyncio.sleep(0.1)


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--logs", type=Path, help="a folder to leave the processes' logs in")
    asked = parser.parse_args()
    if not possible():
        parser.error("needs root and iproute2")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="ss-centres-", ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        scratch.chmod(0o755)
        with datacentres(scratch) as there:
            try:
                line, well = asyncio.run(run(there, seed=asked.seed))
            finally:
                if asked.logs:
                    asked.logs.mkdir(parents=True, exist_ok=True)
                    for log in scratch.rglob("*.log"):
                        (asked.logs / log.name).write_bytes(log.read_bytes())
    _say(line)
    sys.exit(not well)


if __name__ == "__main__":
    main()
