"""Benchmark of a flood: one namespace sends ten times what the installation can process, another one goes on as usual.

    make bench NAME=flood           python -m bench.flood --through api --seconds 180 [--broker kafka] [--quota 500]

One worker, one launcher and one API as processes, at first without a load. The capacity is measured with a backlog of
`--probe` events, each of which starts a job: events/s from their append to the last job's end. Then namespace `flood`
sends `--times` as many a second for `--seconds`, through the API in lists of 100 (`--through api`), or straight into
the log. Every second namespace `quiet` posts one event to the API (a canary), from before the flood until it is over
and everything is done. Both have schedules that each event starts; programs publish an event. Jobs of the flood join a
waiting one, those of the canaries do not.

- `lost`, `doubled`: acknowledged events of either without a job, or with more than one.
- `rss_growth_mb`: by how much the three roles were larger than before at the most; `rss_kept_mb`: at the end.
- `recovery_s`: from the end of the flood until no event and no job waits, and no run goes on. A flood of ten times what
  there is room for takes at least nine times its own length, unless it is refused.
- `others_p99_s`: from a canary's acknowledgement to the start of its run, of those during the flood and the recovery;
  `others_before_s`: their median before.
- `refused`: events answered with 429. `--quota` sets `events_per_second` of namespace `flood`; through the API alone.
- `offered_per_s`: what was sent, refused events too: two cores may not manage ten times as much.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

import aiohttp
import orjson
import structlog
import uvloop

from bench.installation import about
from bench.role_processes import ROLES, SHARDS, RoleProcesses, role_processes
from streamsched import App, event
from streamsched.admin.changelog import lags
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import EventName
from streamsched.domain.signals.home import home
from streamsched.log.topics import EVENTS, LAUNCH
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.process.cancellation import cancel
from streamsched.store.jobs.intake import PostgresIntake

SCHEDULES = 20
#: Events in one request or append, and how many are on their way at the most.
BATCH, AT_ONCE = 100, 32
#: Records or jobs on their way where only canaries are sent.
FEW = 20
#: How long canaries are sent before the flood, in seconds.
BEFORE_S = 10.0
_WAITING = (
    "SELECT (SELECT count(*) FROM jobs WHERE state IN ('PENDING_CONSTRAINT', 'PENDING_LAUNCH'))"
    " + (SELECT count(*) FROM runs WHERE state IN ('PENDING', 'STARTING', 'RUNNING', 'SUSPENDED'))"
)
_JOBS = (
    "SELECT event ->> 'id' AS id, coalesce(r.started_at, r.created_at) AS at FROM jobs j"
    " LEFT JOIN runs r ON r.job = j.id AND r.attempt = 1, jsonb_array_elements(j.ready -> 'events') AS event"
    " WHERE starts_with(j.id, $1)"
)


@dataclass(slots=True)
class Sent:
    """Attributes:
    accepted: ids of events that were acknowledged.
    refused: how many events were not, for a quota.
    """

    accepted: set[str] = field(default_factory=set)
    refused: int = 0
    offered: int = 0


class Flood:
    """Sends batches at a rate, however long they take, up to a limit of those on their way."""

    def __init__(self, site: RoleProcesses, through: str) -> None:
        self.sent = Sent()
        self._site = site
        self._send = self._append if through == "log" else self._post
        self._numbers = itertools.count()

    async def run(self, rate: float, seconds: float) -> float:
        """Returns the seconds it took, with what was still on its way."""
        room, pending = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()
        began = time.perf_counter()

        async def one(batch: Sequence[Event]) -> None:
            try:
                await self._send(batch)
            finally:
                room.release()

        for number in itertools.count():
            due = began + number * BATCH / rate
            if due > began + seconds or time.perf_counter() > began + seconds:
                break
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            await room.acquire()
            batch = [self._event(next(self._numbers)) for _ in range(BATCH)]
            pending.add(task := asyncio.create_task(one(batch)))
            task.add_done_callback(pending.discard)
        await asyncio.gather(*pending)
        return time.perf_counter() - began

    async def _append(self, batch: Sequence[Event]) -> None:
        self.sent.offered += len(batch)
        await self._site.broker.append(
            [Outgoing(EVENTS, home(each.key, SHARDS), each.key.encode(), event_codec.encode(each)) for each in batch]
        )
        self.sent.accepted.update(each.id for each in batch)

    async def _post(self, batch: Sequence[Event]) -> None:
        self.sent.offered += len(batch)
        body = b"[" + b",".join(map(event_codec.encode, batch)) + b"]"
        headers = {"Content-Type": "application/json"}
        with suppress(aiohttp.ClientConnectionError, TimeoutError):
            async with self._site.client.post("/v1/events?check=none", data=body, headers=headers) as answer:
                if answer.status == 429:
                    self.sent.refused += len(batch)
                elif answer.ok:
                    self.sent.accepted.update(each.id for each in batch)

    def _event(self, number: int) -> Event:
        return custom_event(f"f{number}", "flood", f"e{number % SCHEDULES}")


def custom_event(name: str, namespace: str, kind: str) -> Event:
    return Event(name, "bench", datetime.now(UTC), CustomHappened(EventName(namespace, kind)))


@dataclass(slots=True)
class Canaries:
    """One event a second.

    Attributes:
        sent: id → when it was acknowledged, in seconds since the epoch.
    """

    site: RoleProcesses
    sent: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled."""
        began = time.monotonic()
        for number in itertools.count():
            await asyncio.sleep(max(0.0, began + number - time.monotonic()))
            canary = custom_event(f"c{number}", "quiet", "canary")
            await self.site.ask("POST", "/v1/events?check=none", orjson.loads(event_codec.encode(canary)))
            self.sent[canary.id] = time.time()


async def define(site: RoleProcesses, quota: float) -> None:
    flood = App("flood", namespace="flood")
    done = flood.publish("done", "flood.done")
    for number in range(SCHEDULES):
        flood.schedule(f"s{number}", done, when=event(f"flood.e{number}"), overlap="coalesce")
    quiet = App("quiet", namespace="quiet")
    quiet.schedule("canary", quiet.publish("seen", "quiet.seen"), when=event("quiet.canary"), overlap="queue")
    await site.deploy(flood)
    await site.deploy(quiet)
    if quota:
        await site.ask("PUT", "/v1/namespaces/flood/quotas/events_per_second", {"limit": int(quota)})


async def until_idle(site: RoleProcesses, few: int = 0) -> None:
    """Until no event and no job waits and no run goes on; or at most so `few`, as canaries go on."""
    intake, launch = PostgresIntake(site.pool), [TopicPartition(LAUNCH, n) for n in range(SHARDS)]
    while True:
        ends = await site.broker.ends(launch)
        read = await intake.positions(LAUNCH, SHARDS)
        left = sum(ends[at] - read.get(at.partition, 0) for at in launch)
        left += sum(sum(each.values()) for each in (await lags(site.broker, SHARDS)).values())
        if left <= few and await site.pool.fetchval(_WAITING) <= few:
            return
        await asyncio.sleep(0.5)


async def judge(site: RoleProcesses, app: str, accepted: set[str]) -> tuple[int, int, dict[str, float]]:
    """How many were lost, how many doubled, and when the run of each started, in seconds since the epoch."""
    rows = await site.pool.fetch(_JOBS, f"{app}.", timeout=300)
    ids = {row["id"] for row in rows}
    starts = {row["id"]: row["at"].timestamp() for row in rows if row["at"] is not None}
    return len(accepted - ids), len(rows) - len(ids), starts


async def measure(args: argparse.Namespace) -> dict[str, object]:
    async with role_processes(args.broker, launches_per_second=0, retention="1d", log_level="warning") as site:
        await define(site, 0.0)
        probe = Flood(site, "log")
        await probe.run(1e9, 1.0)  # warms up
        await until_idle(site)
        began, many = time.perf_counter(), len(probe.sent.accepted)
        while len(probe.sent.accepted) - many < args.probe:
            await probe._append([probe._event(next(probe._numbers)) for _ in range(BATCH)])
        await until_idle(site)
        capacity = args.probe / (time.perf_counter() - began)
        print(f"capacity {capacity:,.0f} events/s, each with a job", flush=True)
        if args.through == "api" and args.quota is None:
            args.quota = capacity / 2
        if args.quota:
            await define(site, args.quota)
            await asyncio.sleep(1.5)  # then it holds
        return await measure_flood(site, args, capacity, probe)


async def measure_flood(
    site: RoleProcesses, args: argparse.Namespace, capacity: float, probe: Flood
) -> dict[str, object]:
    canaries, before, most = Canaries(site), resident(site), 0

    def look() -> None:
        nonlocal most
        most = max(most, resident(site))

    singing = asyncio.create_task(canaries.run())
    await asyncio.sleep(BEFORE_S)
    flood = Flood(site, args.through)
    flood._numbers = probe._numbers  # ids go on
    looking = asyncio.create_task(every_second(look))
    began = time.time()
    took = await flood.run(args.times * capacity, args.seconds)
    ended = time.perf_counter()
    offered = flood.sent.offered / took
    print(f"flood of {took:.0f} s: {offered:,.0f} events/s offered, {len(flood.sent.accepted):,} accepted", flush=True)
    await until_idle(site, few=FEW)
    recovery = time.perf_counter() - ended
    await cancel(looking, singing)
    await until_idle(site)
    lost, doubled, _ = await judge(site, "flood.flood", flood.sent.accepted | probe.sent.accepted)
    quiet_lost, quiet_doubled, starts = await judge(site, "quiet.quiet", set(canaries.sent))
    waits = {name: starts[name] - at for name, at in canaries.sent.items() if name in starts}
    calm = [wait for name, wait in waits.items() if canaries.sent[name] < began]
    meanwhile = sorted(wait for name, wait in waits.items() if canaries.sent[name] >= began)
    result: dict[str, object] = {"broker": args.broker, "through": args.through, "seconds": round(took)}
    result |= {"capacity_per_s": round(capacity), "offered_per_s": round(offered)}
    result |= {"times_capacity": round(offered / capacity, 1)}
    result |= {"accepted": len(flood.sent.accepted), "refused": flood.sent.refused}
    result |= {"lost": lost + quiet_lost, "doubled": doubled + quiet_doubled, "canaries": len(canaries.sent)}
    result |= {"rss_growth_mb": round((most - before) / 1e6, 1)}
    result |= {"rss_kept_mb": round((resident(site) - before) / 1e6, 1), "recovery_s": round(recovery, 1)}
    result |= {"others_before_s": round(statistics.median(calm), 3)}
    result |= {"others_p50_s": round(statistics.median(meanwhile), 3)}
    result |= {"others_p99_s": round(meanwhile[int(0.99 * len(meanwhile))], 3)}
    return result


def resident(site: RoleProcesses) -> int:
    """Bytes of the three roles."""
    return sum(use.rss for name, use in site.uses().items() if name in ROLES)


async def every_second(look: Callable[[], None]) -> None:
    while True:
        look()
        await asyncio.sleep(1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--through", choices=("api", "log"), default="log")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the flood; 180 for the whole")
    parser.add_argument("--times", type=float, default=10.0, help="the capacity")
    parser.add_argument("--probe", type=int, default=5_000, help="events by which the capacity is measured")
    parser.add_argument("--quota", type=float, help="events a second of the flood through the API; 0: none")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(about(["asyncpg", "aiokafka", "faust-streaming", "uvloop"]))
    print("command: python -m bench.flood", *sys.argv[1:], flush=True)
    print("RESULT", orjson.dumps(uvloop.run(measure(args))).decode())


if __name__ == "__main__":
    main()
