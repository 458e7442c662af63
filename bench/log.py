"""Benchmark of the log on PostgreSQL: cost of a commit, throughput of writes and reads, wake-up time of a reader.

    make bench NAME=log             python -m bench.log --rounds 7 [--url postgresql://…]

Records have keys of 28 bytes and values of 250, like signals, in four partitions of one topic. Commits are fenced,
durable (`synchronous_commit` on) and sequential. Reads include decoding to `Record`. Wake-up: from the return of a
commit to the return of a waiting read on another broker's connections. Wall-clock times: run it on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import asyncpg
import orjson
from streamsched_brokers.postgres.driver import PostgresBroker, open_broker

from streamsched.ports.broker import Outgoing, TopicPartition, TopicSpec
from streamsched.store.server.embedded_server import start_server, stop_server

PARTITIONS = 4
VALUE = b'{"id":"0b9f6a","source":"pfs/default.sales","type":"partitions"}'.ljust(250, b".")


def records(topic: str, count: int) -> list[Outgoing]:
    return [
        Outgoing(topic, number % PARTITIONS, b"schedule:default.sales.n%04d" % number, VALUE) for number in range(count)
    ]


async def time_calls(work: Callable[[], Awaitable[object]], times: int) -> list[float]:
    """Seconds of each of `times` calls, after one to warm up."""
    await work()
    taken: list[float] = []
    for _ in range(times):
        started = perf_counter()
        await work()
        taken.append(perf_counter() - started)
    return taken


async def read_all(broker: PostgresBroker, topic: str, max_records: int) -> int:
    reader = await broker.reader({TopicPartition(topic, number): 0 for number in range(PARTITIONS)})
    count = 0
    while chunks := await reader.read(max_records=max_records, timeout=0):
        count += sum(len(chunk.records) for chunk in chunks)
    await reader.close()
    return count


async def wake_ups(writer_side: PostgresBroker, reader_side: PostgresBroker, topic: str, times: int) -> list[float]:
    ends = await reader_side.ends([TopicPartition(topic, number) for number in range(PARTITIONS)])
    reader, writer = await reader_side.reader(ends), await writer_side.writer("bench-wake")
    taken: list[float] = []
    for _ in range(times):
        waiting = asyncio.create_task(reader.read(max_records=100, timeout=10))
        await asyncio.sleep(0.005)
        await writer.commit(records(topic, 1))
        started = perf_counter()
        await waiting
        taken.append(perf_counter() - started)
    return taken


def show(name: str, values: Sequence[float], unit: str) -> float:
    """Prints median and spread; returns the median."""
    middle = statistics.median(values)
    print(f"{name:<44} {middle:>12,.2f} {unit:<11} ({min(values):,.2f} – {max(values):,.2f})")
    return middle


async def measure(url: str, rounds: int) -> dict[str, float]:
    broker, other = await open_broker(url), await open_broker(url)
    await broker.create_topics([TopicSpec(name, PARTITIONS) for name in ("small", "large", "many", "wake")])
    writer = await broker.writer("bench")
    small, large, hundred = records("small", 10), records("large", 1000), [records("many", 1)] * 100
    found: dict[str, list[float]] = {"commit_10": [], "write": [], "appends": [], "read_1000": [], "read_4000": []}
    for _ in range(rounds):
        found["commit_10"] += [1e3 * s for s in await time_calls(lambda: writer.commit(small), 100)]
        found["write"] += [1000 / s for s in await time_calls(lambda: writer.commit(large), 20)]
        found["appends"] += [
            100 / s for s in await time_calls(lambda: asyncio.gather(*(broker.append(one) for one in hundred)), 10)
        ]
    for _ in range(rounds):
        for limit in (1000, 4000):
            started = perf_counter()
            count = await read_all(other, "large", limit)
            found[f"read_{limit}"].append(count / (perf_counter() - started))
    waking = [1e3 * s for s in await wake_ups(broker, other, "wake", 40 * rounds)]
    result = {
        "commit_10_ms": show("a commit of 10 records in 4 partitions", found["commit_10"], "ms"),
        "write_per_s": show("written in commits of 1,000", found["write"], "records/s"),
        "appends_per_s": show("appends of one record, 100 callers", found["appends"], "appends/s"),
        "read_per_s_by_1000": show("read by 1,000", found["read_1000"], "records/s"),
        "read_per_s_by_4000": show("read by 4,000", found["read_4000"], "records/s"),
        "wake_ms": show("from commit to a waiting reader", waking, "ms"),
        "wake_p99_ms": statistics.quantiles(waking, n=100)[98],
    }
    await broker.close()
    await other.close()
    return {name: round(value, 3) for name, value in result.items()}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--url", help="a database to use (its log grows); default: a temporary server")
    args = arguments.parse_args()
    with nullcontext(args.url) if args.url else server() as url:
        print(f"machine  {platform.machine()} {platform.system()} {platform.release()}, {os.cpu_count()} cores")
        print(
            f"versions streamsched {version('streamsched')}, Python {platform.python_version()},"
            f" asyncpg {asyncpg.__version__}, PostgreSQL {asyncio.run(server_version(url))}"
        )
        print(f"command  python -m bench.log {' '.join(sys.argv[1:])}".rstrip())
        print(f"rounds   {args.rounds}; median (least – most); load {os.getloadavg()[0]:.1f} when it began\n")
        result = asyncio.run(measure(url, args.rounds))
    print(f"\nRESULT {orjson.dumps(result).decode()}")


@contextmanager
def server() -> Iterator[str]:
    """URL of a temporary PostgreSQL server."""
    with TemporaryDirectory(prefix="ss-bench-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)  # as root the server runs as another user
        folder = Path(scratch) / "pg"
        try:
            yield start_server(folder).url
        finally:
            stop_server(folder)


async def server_version(url: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        return str(await connection.fetchval("SHOW server_version"))
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
