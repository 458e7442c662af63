"""Benchmark of a worker's memory: bytes for each thing that a shard holds, and how long a start takes with all of them.

    make bench NAME=memory          python -m bench.memory [--ids N] [--counted N] [--open-keys N] [--schedules N] …

A worker process runs the only shard of a new installation on PostgreSQL, without verdicts; what it is given is appended
to `signals`, as the relay and ingest do. Its resident memory is read after a garbage collection: with what must be
there first (`before`), after N things that came one after another (`live`), and in a fresh process that has read them
from the changelogs (`restored`), less that of a fresh process before. Each divided by N:

- `bytes_per_id`: a known event id.
- `bytes_per_counted`: a partition that an accumulation has counted and that is still waiting, of 100 schedules.
- `bytes_per_key`: an open key of a schedule that accumulates `per` a column, with one event, of 100 schedules.
- `bytes_per_schedule`: an enabled schedule with a dataset of its own that nothing has happened to.

With the ids there, `warm_restart_s`: from the start of a process until it has processed an event; `takeover_s`: from
the SIGKILL of the shard's worker until another one, which runs, has; its lease of `--lease` seconds is most of a short
one. `restart_cpu_s`: what the started process has used by then, which a busy machine changes less; `empty_…`: the same
without the ids.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import NamedTuple

import orjson
import psutil
import structlog
import uvloop

from bench.installation import about, fresh_installation, server
from streamsched.admin.changelog import lags
from streamsched.codec.events.native import LOG_ID
from streamsched.codec.records import signal as signal_codec
from streamsched.domain.names import DatasetRef, EventName, ScheduleRef
from streamsched.domain.signals.signal import Put, Subscribe
from streamsched.domain.triggers.trigger import CustomEvent, Partitions, Per, Trigger, event_keys
from streamsched.log.drivers import open_broker
from streamsched.log.topics import SIGNALS
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.leases import LeaseHolder
from streamsched.process.memory import configure_memory
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.worker import Worker

MANY = 100
APPEND = 5_000
#: Most records that wait before more are appended.
AHEAD = 50_000
WARM = 20_000


class Kind(NamedTuple):
    """What is counted. `first`: what must be there; `nth`: the records of one."""

    name: str
    first: Callable[[int], Sequence[Outgoing]]
    nth: Callable[[int], Sequence[Outgoing]]


def signal_record(key: str, value: bytes) -> Outgoing:
    return Outgoing(SIGNALS, 0, key.encode(), value)


def event_record(name: str, kind: str, key: str, data: str) -> Outgoing:
    head = f'{{"id":"{name}","source":"bench","time":"2026-01-01T00:00:00Z","type":"{kind}","data":{data}}}'
    return signal_record(key, head.encode())


def partition(name: str, number: int) -> Outgoing:
    dataset, day = f"default.d{number % MANY}", f'"day":"{number}"'
    part = f'{{"key":"day={number}","values":{{{day}}},"bytes":1000000,"rows":10000}}'
    data = f'{{"dataset":"{dataset}","partitions":[{part}]}}'
    return event_record(name, "partitions.added", f"partition:{dataset}", data)


def customer(name: str, number: int) -> Outgoing:
    event, attributes = f"default.e{number % MANY}", f'{{"customer":"c{number:09}"}}'
    return event_record(name, "custom", f"event:{event}", f'{{"name":"{event}","attributes":{attributes}}}')


def other(name: str, number: int) -> Outgoing:
    """An event to which nothing listens."""
    event = f"default.go-{number % MANY}"
    return event_record(name, "custom", f"event:{event}", f'{{"name":"{event}"}}')


def schedule(name: str, trigger: Trigger) -> Sequence[Outgoing]:
    """An enabled one, as the relay appends it."""
    ref = ScheduleRef("default", "bench", name)
    signals = (*(Subscribe(key, ref, 1) for key in event_keys(trigger)), Put(ref, 1, True, trigger))
    return [Outgoing(SIGNALS, 0, *signal_codec.encode(each)) for each in signals]


def _of_datasets(_: int) -> Sequence[Outgoing]:
    triggers = [Partitions(DatasetRef("default", f"d{n}"), 1_000_000_000) for n in range(MANY)]
    return [each for n, trigger in enumerate(triggers) for each in schedule(f"s{n}", trigger)]


def _of_keys(keys: int) -> Sequence[Outgoing]:
    leaves = [CustomEvent(EventName("default", f"e{n}"), 2) for n in range(MANY)]
    triggers = [Per(each, ("customer",), expires=timedelta(days=10_000), at_most=keys) for each in leaves]
    return [each for n, trigger in enumerate(triggers) for each in schedule(f"s{n}", trigger)]


def _idle_schedule(number: int) -> Sequence[Outgoing]:
    return schedule(f"idle{number}", Partitions(DatasetRef("default", f"idle{number}"), 7))


#: Ids that are made from positions in the log are not remembered: an event costs what it is counted for alone.
KINDS = (
    Kind("id", lambda _: (), lambda n: [other(f"e{n:032d}", n)]),
    Kind("counted", _of_datasets, lambda n: [partition(f"{LOG_ID}{n:032d}", n)]),
    Kind("key", _of_keys, lambda n: [customer(f"{LOG_ID}{n:032d}", n)]),
    Kind("schedule", lambda _: (), _idle_schedule),
)


async def work(url: str, lease_s: float) -> None:
    """Runs a worker until standard input ends; for each line of it, prints its resident memory after a collection."""
    pool, broker = await open_pool(url), await open_broker(url)
    identity = LeaseHolder(f"bench-{os.getpid()}", "localhost", os.getpid())
    settings = ShardSettings(verdicts=False)
    worker = Worker(broker, PostgresLeases(pool), identity, ttl=timedelta(seconds=lease_s), settings=settings)
    running = asyncio.create_task(worker.run())
    while await asyncio.to_thread(sys.stdin.readline):
        gc.collect()
        print(psutil.Process().memory_info().rss, flush=True)
    await worker.stop()
    await running
    await broker.close()
    await pool.close()


class WorkerProcess:
    """A worker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def resident(self) -> int:
        """Bytes after a garbage collection."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        return int(await self._process.stdout.readline())

    def cpu_s(self) -> float:
        """Seconds of CPU since its start."""
        used = psutil.Process(self._process.pid).cpu_times()
        return used.user + used.system

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        if self._process.returncode is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
        await self._process.wait()


@asynccontextmanager
async def worker(url: str, lease_s: float) -> AsyncIterator[WorkerProcess]:
    command = (sys.executable, "-m", "bench.memory", "--work", url, "--lease", str(lease_s))
    pipe = asyncio.subprocess.PIPE
    process = WorkerProcess(await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe))
    try:
        yield process
    finally:
        await process.stop()


async def await_processed(broker: Broker, most: int = 0) -> None:
    """Waits until at most so many records are unprocessed."""
    while sum((await lags(broker, 1))[0].values()) > most:
        await asyncio.sleep(0.02)


async def push(broker: Broker, numbers: range, nth: Callable[[int], Sequence[Outgoing]]) -> None:
    for start in range(numbers.start, numbers.stop, APPEND):
        some = range(start, min(start + APPEND, numbers.stop))
        await broker.append([each for n in some for each in nth(n)])
        if start % AHEAD == 0:
            await await_processed(broker, AHEAD)
    await await_processed(broker)


async def probe(broker: Broker) -> None:
    """Waits until one more event has been processed."""
    await broker.append([other(f"{LOG_ID}probe", 0)])
    await await_processed(broker)


async def measure(server_url: str, kind: Kind, many: int, lease_s: float) -> dict[str, float]:
    async with fresh_installation(server_url, 1) as site:
        return await measure_kind(site.url, site.broker, kind, many, lease_s)


async def measure_kind(url: str, broker: Broker, kind: Kind, many: int, lease_s: float) -> dict[str, float]:
    async with worker(url, lease_s):
        await broker.append([*kind.first(many), *(other(f"{LOG_ID}{n}", n) for n in range(WARM))])
        await await_processed(broker)
    began = time.perf_counter()
    async with worker(url, lease_s) as process:  # as fresh as the one that will have restored them
        await probe(broker)
        empty_s, empty_cpu_s = time.perf_counter() - began, process.cpu_s()
        fresh = await process.resident()
        await push(broker, range(WARM), lambda n: [other(f"{LOG_ID}warm{n}", n)])
        before = await process.resident()
        await push(broker, range(many), kind.nth)
        live = await process.resident()
    await broker.maintain()
    began = time.perf_counter()
    async with worker(url, lease_s) as process:
        await probe(broker)
        restart_s, cpu_s = time.perf_counter() - began, process.cpu_s()
        restored = await process.resident()
        result = {
            f"bytes_per_{kind.name}": round((live - before) / many, 1),
            f"bytes_per_{kind.name}_restored": round((restored - fresh) / many, 1),
        }
        print(f"{many:,} of {kind.name}: live {mib(live - before)} over {mib(before)}, restored", end=" ")
        print(
            f"{mib(restored - fresh)} over {mib(fresh)}; started in {restart_s:.2f} s ({cpu_s:.2f} s of CPU),", end=" "
        )
        print(f"without them in {empty_s:.2f} s ({empty_cpu_s:.2f} s)", flush=True)
        if kind.name == "id":
            async with worker(url, lease_s) as standby:
                await standby.resident()  # it runs, and waits for the lease
                await asyncio.sleep(2 * lease_s)
                killed = time.perf_counter()
                await process.kill()
                await probe(broker)
                result |= {"warm_restart_s": round(restart_s, 2), "restart_cpu_s": round(cpu_s, 2)}
                result |= {"empty_restart_s": round(empty_s, 2), "empty_restart_cpu_s": round(empty_cpu_s, 2)}
                result |= {"takeover_s": round(time.perf_counter() - killed, 2)}
    return result


def mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=1_000_000)
    parser.add_argument("--counted", type=int, default=200_000)
    parser.add_argument("--open-keys", dest="keys", type=int, default=100_000)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--kind", choices=[kind.name for kind in KINDS], nargs="*", help="only these")
    parser.add_argument("--lease", type=float, default=2.0, help="seconds")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    if args.work:
        configure_memory()
        uvloop.run(work(args.work, args.lease))
        return
    print(about(["asyncpg", "faust-streaming", "orjson", "uvloop"]))
    print("command: python -m bench.memory", *sys.argv[1:], flush=True)
    result: dict[str, float] = {"ids": args.ids}
    with server() as url:
        for kind, many in zip(KINDS, (args.ids, args.counted, args.keys, args.schedules), strict=True):
            if args.kind is None or kind.name in args.kind:
                result |= uvloop.run(measure(url, kind, many, args.lease))
    print("RESULT", orjson.dumps(result).decode())


if __name__ == "__main__":
    main()
