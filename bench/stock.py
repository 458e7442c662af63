"""Takeover time of a stock Faust app, for comparison in `bench.cluster`.

The app follows Faust's documentation: a topic with 4 partitions, a table with a changelog in Kafka and an in-memory
store, an agent that stores the events of a key in the table and sends a record at the second one. Two workers; one is
killed. No standby replicas, so the survivor must read the changelog, as in streamsched.

    python -m bench.stock SERVERS PREFIX SESSION_SECONDS          one worker (started by `takeovers`)
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import faust
import orjson
import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.partitioner import murmur2

PARTITIONS = 4
#: Payload of each event; makes a key's row about as large as in streamsched.
BODY = "x" * 220

#: Consecutive polls without a change after which the app is idle.
QUIET = 6


def app(servers: str, prefix: str, session_s: float) -> Any:
    """The Faust app, without code of streamsched."""
    app_ = faust.App(
        f"{prefix}-app",
        broker=";".join(f"kafka://{each}" for each in servers.split(",")),
        store="memory://",
        topic_partitions=PARTITIONS,
        topic_disable_leader=True,
        web_enabled=False,
        table_standby_replicas=0,
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 4,
    )
    events = app_.topic(f"{prefix}-events", key_type=bytes, value_serializer="json")
    open_keys = app_.Table("open", default=list, partitions=PARTITIONS)

    @app_.agent(events)
    async def count(stream: Any) -> None:
        async for key, event in stream.items():
            name = key.decode()
            known = [*open_keys[name], event]
            if len(known) >= 2:
                await app_.topic(f"{prefix}-launch").send(key=name, value=[each["id"] for each in known])
                known = []
            open_keys[name] = known

    @app_.on_partitions_assigned.connect
    async def print_assignment(_app: Any, assigned: Any, *_: Any, **__: Any) -> None:
        own = sorted(tp.partition for tp in assigned if tp.topic == f"{prefix}-events")
        sys.stdout.write(f"@assigned {time.time()} {own}\n")
        sys.stdout.flush()

    return app_


async def topics(servers: str, prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    await admin.create_topics(
        [
            *(NewTopic(f"{prefix}-{name}", PARTITIONS, 1) for name in ("events", "launch")),
            NewTopic(f"{prefix}-app-open-changelog", PARTITIONS, 1, topic_configs={"cleanup.policy": "compact"}),
        ]
    )
    await admin.close()


def partition_of(key: str) -> int:
    return (murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS


def probe(partition: int, number: int) -> str:
    """A key of that partition."""
    return next(name for n in range(1000) if partition_of(name := f"probe{number}-{n}") == partition)


async def takeovers(servers: str, prefix: str, *, keys: int, rounds: int, session_s: float, scratch: Path) -> Any:
    """For each round the seconds from the kill, and from the assignment, to the first correct record of the last of the
    killed worker's partitions, which had that many keys."""
    await topics(servers, prefix)
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5, acks="all")
    consumer = AIOKafkaConsumer(f"{prefix}-launch", bootstrap_servers=servers, auto_offset_reset="earliest")
    await producer.start()
    await consumer.start()
    workers: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
    for core in (0, 1):
        workers[core] = start(servers, prefix, session_s, core, scratch)
    try:
        await until(lambda: is_shared(workers), 120)
        await load(producer, servers, prefix, 2 * keys)
        found = []
        for number in range(rounds):
            found.append(await takeover(producer, consumer, workers, prefix, number))
            dead = next(core for core in (0, 1) if core not in workers)
            workers[dead] = start(servers, prefix, session_s, dead, scratch)
            await until(lambda: is_shared(workers), 180)
        return found
    finally:
        for process, _ in workers.values():
            process.kill()
            process.wait()
        await producer.stop()
        await consumer.stop()


def start(servers: str, prefix: str, session_s: float, core: int, scratch: Path) -> Any:
    log = scratch / f"stock-{prefix}-{core}-{time.time_ns()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            (sys.executable, "-m", "bench.stock", servers, prefix, str(session_s)), stdout=out, stderr=out
        )
    psutil.Process(process.pid).cpu_affinity([core])
    return process, log


def assignments(log: Path) -> list[tuple[float, list[int]]]:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("@assigned ")]
    arguments = [line.split(" ", 2) for line in lines]
    return [(float(at), orjson.loads(own)) for _, at, own in arguments]


def is_shared(workers: dict[int, tuple[Any, Path]]) -> bool:
    """Whether each worker has half of the partitions."""
    last = [assignments(log)[-1][1] if assignments(log) else [] for _, log in workers.values()]
    return sorted(map(len, last)) == [PARTITIONS // 2, PARTITIONS // 2]


async def until(holds: Any, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)


def event(key: str, number: int) -> bytes:
    return orjson.dumps({"id": f"{key}.{number}", "body": BODY})


async def load(producer: AIOKafkaProducer, servers: str, prefix: str, keys: int) -> None:
    """Sends one event per key, and waits until the app is idle; it drops a few when assignments change."""
    for number in range(keys):
        key = f"key-{number}"
        await producer.send(f"{prefix}-events", event(key, 1), key=key.encode(), partition=partition_of(key))
    await producer.flush()
    reader = AIOKafkaConsumer(bootstrap_servers=servers, group_id=None)
    await reader.start()
    partitions = [TopicPartition(f"{prefix}-app-open-changelog", n) for n in range(PARTITIONS)]
    reader.assign(partitions)
    counted, unchanged = -1, 0
    while unchanged < QUIET:
        now = sum((await reader.end_offsets(partitions)).values())
        unchanged, counted = (unchanged + 1 if now == counted else 0), now
        await asyncio.sleep(0.5)
    await reader.stop()


async def takeover(
    producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, workers: dict[int, Any], prefix: str, number: int
) -> tuple[float, float]:
    """Kills one worker, and measures with events that are sent right after it."""
    dead = number % 2
    own = assignments(workers[dead][1])[-1][1]
    probes = {partition: probe(partition, number) for partition in own}
    for partition, key in probes.items():
        await producer.send_and_wait(f"{prefix}-events", event(key, 1), key=key.encode(), partition=partition)
    await asyncio.sleep(3)  # counted, and the offsets committed (every 2.8 s)
    process, _ = workers.pop(dead)
    killed = time.time()
    process.kill()
    for partition, key in probes.items():
        await producer.send_and_wait(f"{prefix}-events", event(key, 2), key=key.encode(), partition=partition)
    waiting: set[str] = set(probes.values())
    decided = killed
    async with asyncio.timeout(300):
        while waiting:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                for record in records:
                    assert record.key is not None
                    assert record.value is not None
                    key = orjson.loads(record.key) if record.key.startswith(b'"') else record.key.decode()
                    if key in waiting and orjson.loads(record.value) == [f"{key}.1", f"{key}.2"]:
                        waiting.discard(key)
                        decided = time.time()
    process.wait()
    (_, log), *_ = workers.values()
    taken = min(at for at, own in assignments(log) if at > killed and len(own) == PARTITIONS)
    return decided - killed, decided - taken


def main(arguments: Sequence[str]) -> None:
    servers, prefix, session_s = arguments
    with suppress(KeyboardInterrupt):
        faust.Worker(
            app(servers, prefix, float(session_s)), loglevel="info", redirect_stdouts=False
        ).execute_from_commandline()


if __name__ == "__main__":
    main(sys.argv[1:])
