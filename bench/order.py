"""Benchmark of the order of events: what is acknowledged first is judged first, and what that costs.

A pair is an event `a`, and an event `b` of another key that is sent when `a` has been acknowledged. A stream sends its
pairs one after the other, each event to a partition drawn by lot, as any producer may. Two schedules listen to it:
`then(a, b)` must start a job for each pair, and `2 × b unless a` none. `wrong` counts the jobs that are missing or too
many, `unknown` the findings that say that the order of events is unknown. Meanwhile other events come at a steady rate
for schedules that need no order. Two workers run the shards.

`p50_ms`, `p99_ms`: from the append of `b` to its job being read from the log; `other_p50_ms_…`: of the other events
before the pairs and while they come.

    make bench NAME=order ARGS="--pairs 5000 --broker kafka"
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import NamedTuple

import orjson
import structlog
import uvloop

from bench.cluster import CORES, await_balance
from bench.installation import about
from bench.probe import SHARDS, BareInstallation, bare_installation, partition_record
from bench.worker_processes import Servers, fresh_servers
from streamsched.codec import event as event_codec
from streamsched.codec.records import launch as launch_codec
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Then, Trigger, Unless
from streamsched.log.records import records
from streamsched.log.topics import EVENTS, LAUNCH, VERDICTS
from streamsched.ports.broker import Outgoing, TopicPartition

STREAMS = 8
#: Schedules that need no order, each with a job for every event.
OTHERS = 50
#: Appends a second of their events.
TICKS_S = 50


class Pairs(NamedTuple):
    """What came of the pairs: wrong jobs, events of unknown order, and milliseconds to each job and of the others."""

    wrong: int
    unknown: int
    ms: Sequence[float]
    other_ms: Mapping[str, Sequence[float]]


def schedules() -> list[tuple[str, Trigger]]:
    """Those of the streams, and the others."""
    made: list[tuple[str, Trigger]] = []
    for stream in range(STREAMS):
        first, second = (EventName("default", f"{name}{stream}") for name in "ab")
        made.append((f"then{stream}", Then(CustomEvent(first), CustomEvent(second))))
        made.append((f"unless{stream}", Unless(CustomEvent(second, 2), CustomEvent(first))))
    return made + [(f"other{n}", Partitions(DatasetRef("default", f"d{n}"), 1)) for n in range(OTHERS)]


def event_record(name: str, number: int, dice: random.Random) -> Outgoing:
    event = Event(f"{name}-{number}", "bench", datetime.now(UTC), CustomHappened(EventName("default", name)))
    return Outgoing(EVENTS, dice.randrange(SHARDS), None, event_codec.encode(event))


async def send_pairs(site: BareInstallation, stream: int, count: int, sent: dict[str, float]) -> None:
    """One stream of pairs; `sent` gets when each `b` was sent."""
    dice = random.Random(stream)
    for number in range(count):
        await site.broker.append([event_record(f"a{stream}", number, dice)])
        sent[f"b{stream}-{number}"] = time.time()
        await site.broker.append([event_record(f"b{stream}", number, dice)])


@asynccontextmanager
async def others(site: BareInstallation, rate: int, sent: dict[str, float], first: int) -> AsyncIterator[None]:
    """The other events at this rate, while the block runs."""

    async def send() -> None:
        began, number = time.time(), first
        for tick in range(sys.maxsize):
            await asyncio.sleep(max(0.0, began + tick / TICKS_S - time.time()))
            numbers = range(number, number + rate // TICKS_S)
            number = numbers.stop
            sent.update(dict.fromkeys((f"e{n}" for n in numbers), time.time()))
            await site.broker.append([partition_record(n, n % OTHERS) for n in numbers])

    sending = asyncio.create_task(send())
    try:
        yield
    finally:
        sending.cancel()
        with suppress(asyncio.CancelledError):
            await sending


async def poll(site: BareInstallation) -> None:
    while True:
        await site.poll()


async def measure(servers: Servers, pairs: int, rate: int, seconds: float) -> Pairs:
    """Runs all streams at the same time."""
    each = pairs // STREAMS
    alone, beside, sent = dict[str, float](), dict[str, float](), dict[str, float]()
    async with bare_installation(servers, 6.0) as site:
        for core in CORES:
            site.workers.start(core)
        await await_balance(site.workers)
        await site.put(schedules())
        await site.drain()
        site.jobs = []
        polling = asyncio.create_task(poll(site))
        async with others(site, rate, alone, 0):
            await asyncio.sleep(seconds)
        async with others(site, rate, beside, len(alone)):
            await asyncio.gather(*(send_pairs(site, stream, each, sent) for stream in range(STREAMS)))
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await site.drain()
        before = -1
        while site.counted > before:  # what waits for its order takes longer than what does not
            before = site.counted
            await site.poll(5.0)
        times = {last: at for at, last in site.jobs}
        jobs = Counter([launch_codec.decode(each).schedule async for each in values(site, LAUNCH)])
        started = Counter({"" if ref is None else ref.name: count for ref, count in jobs.items()})
        wrong = sum(abs(each - started[f"then{n}"]) + started[f"unless{n}"] for n in range(STREAMS))
        unknown = [b"order unknown" in each async for each in values(site, VERDICTS)]
        waited = sorted(1000 * (times[name] - at) for name, at in sent.items() if name in times)
        rest = {
            name: sorted(1000 * (times[event] - at) for event, at in some.items() if event in times)
            for name, some in (("alone", alone), ("beside", beside))
        }
        return Pairs(wrong, sum(unknown), waited, rest)


async def values(site: BareInstallation, topic: str) -> AsyncIterator[bytes]:
    """All of a topic."""
    for partition in range(SHARDS):
        async for record in records(site.broker, TopicPartition(topic, partition)):
            yield record.value or b""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--broker", choices=("postgres", "kafka"), default="postgres")
    parser.add_argument("--pairs", type=int, default=5_000)
    parser.add_argument("--rate", type=int, default=500, help="other events a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the other events alone")
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    print(about(["asyncpg", "aiokafka", "faust-streaming"]))
    print("command: python -m bench.order", *sys.argv[1:])
    with fresh_servers(args.broker, stock=False) as servers:
        found = uvloop.run(measure(servers, args.pairs, args.rate, args.seconds))
    result: dict[str, float | str] = {"broker": args.broker, "pairs": args.pairs // STREAMS * STREAMS}
    result |= {"wrong": found.wrong, "unknown": found.unknown}
    result["p50_ms"] = round(statistics.median(found.ms), 1)
    result["p99_ms"] = round(found.ms[int(len(found.ms) * 0.99)], 1)
    for name, ms in found.other_ms.items():
        result[f"other_p50_ms_{name}"] = round(statistics.median(ms), 1)
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
