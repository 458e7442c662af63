"""Benchmark of known event ids: a worker's memory, changelog bytes and CPU time per id, and the time of a takeover.

A worker process runs all shards of a new installation on the postgres broker, without verdicts; events are appended to
`signals`, as ingest does. Its resident memory is read before the first event with an id (after 200,000 events without
ids to warm up), after the last one, and in a second worker after a takeover. Changelog bytes are keys and values after
compaction.

    python -m bench.known_ids [--ids N]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import orjson
import psutil
import structlog
import uvloop

from bench.installation import SHARDS, Installation, about, fresh_installation, server
from streamsched.admin.changelog import lags, table
from streamsched.codec.events.native import LOG_ID
from streamsched.domain.signals.home import home
from streamsched.log.drivers import open_broker
from streamsched.log.topics import SEEN_CHANGELOG, SIGNALS
from streamsched.ports.broker import Outgoing
from streamsched.ports.leases import LeaseHolder
from streamsched.process.memory import configure_memory
from streamsched.store.connections import open_pool
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.worker import Worker

KEYS = 100
APPEND = 5_000
#: Most events that wait before more are appended.
AHEAD = 100_000
WARM = 200_000
#: Prefix of ids derived from a position in the log, which are not remembered.
NAMELESS = LOG_ID


async def work(url: str) -> None:
    """Runs a worker until standard input ends."""
    pool, broker = await open_pool(url), await open_broker(url)
    identity = LeaseHolder(f"bench-{os.getpid()}", "localhost", os.getpid())
    settings = ShardSettings(verdicts=False)
    worker = Worker(broker, PostgresLeases(pool), identity, ttl=timedelta(seconds=5), settings=settings)
    running = asyncio.create_task(worker.run())
    await asyncio.to_thread(sys.stdin.read)
    await worker.stop()
    await running
    await broker.close()
    await pool.close()


@asynccontextmanager
async def worker(url: str) -> AsyncIterator[psutil.Process]:
    command = (sys.executable, "-m", "bench.known_ids", "--work", url)
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    try:
        yield psutil.Process(process.pid)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def event(name: str, number: int) -> Outgoing:
    key = f"go-{number % KEYS}"
    head = f'{{"id":"{name}{number:032d}","source":"bench","time":"2026-01-01T00:00:00Z"'
    value = f'{head},"type":"custom","data":{{"name":"{key}"}}}}'
    address = f"event:default.{key}"
    return Outgoing(SIGNALS, home(address, SHARDS), address.encode(), value.encode())


async def drain(site: Installation, most: int) -> None:
    """Waits until at most `most` records are unprocessed."""
    while sum(sum(each.values()) for each in (await lags(site.broker, SHARDS)).values()) > most:
        await asyncio.sleep(0.2)


async def push(site: Installation, name: str, count: int) -> None:
    for start in range(0, count, APPEND):
        await site.broker.append([event(name, n) for n in range(start, min(start + APPEND, count))])
        if start % AHEAD == 0:
            await drain(site, AHEAD)
    await drain(site, 0)


async def measure(url: str, ids: int) -> None:
    async with fresh_installation(url) as site:
        async with worker(site.url) as process:
            await push(site, NAMELESS, WARM)
            before = process.memory_info().rss
            began, cpu = time.perf_counter(), sum(process.cpu_times()[:2])
            await push(site, "e", ids)
            took, cpu = time.perf_counter() - began, sum(process.cpu_times()[:2]) - cpu
            after = process.memory_info().rss
            print(f"memory before {before / 2**20:.1f} MiB, after {ids:,} ids {after / 2**20:.1f} MiB")
            print(f"{(after - before) / ids:.1f} bytes an id; {1e6 * cpu / ids:.1f} us of CPU an event; {took:.0f} s")
        await site.broker.maintain()
        held = [await table(site.broker, SEEN_CHANGELOG, shard) for shard in range(SHARDS)]
        size = sum(len(key) + len(value) for rows in held for key, value in rows.items())
        print(f"changelog: {sum(map(len, held)):,} records, {size / ids:.1f} bytes an id")
        del held
        began = time.perf_counter()
        async with worker(site.url) as process:
            await push(site, NAMELESS, SHARDS)
            took = time.perf_counter() - began
            memory = process.memory_info().rss
        print(f"taken over {took:.1f} s after the start of the process; {memory / 2**20:.1f} MiB")
        each, logged = round((after - before) / ids, 1), round(size / ids, 1)
        print("RESULT", orjson.dumps({"memory_bytes_per_id": each, "changelog_bytes_per_id": logged}).decode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ids", type=int, default=5_000_000)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(20))
    if args.work:
        configure_memory()
        uvloop.run(work(args.work))
        return
    print(about(["asyncpg", "faust-streaming", "orjson", "uvloop"]))
    with server() as url:
        uvloop.run(measure(url, args.ids))


if __name__ == "__main__":
    main()
