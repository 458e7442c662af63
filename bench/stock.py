"""What a stock Faust app needs to take over a table: the yardstick of `bench.cluster`.

As its documentation writes one: a topic of 4 partitions, a table with its changelog in Kafka and a store in memory, an
agent that keeps the events of a key in the table and sends a record when the second one came. Two workers; one is
killed. No standby replicas, so that the survivor must read the changelog back, as ours must.

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
#: What each event carries, so that a key's row is about as large as one of ours.
BODY = "x" * 220

#: So many looks in a row see nothing new.
QUIET = 6


def app(servers: str, prefix: str, session_s: float) -> Any:
    """The app; nothing of it is ours."""
    made = faust.App(
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
    events = made.topic(f"{prefix}-events", key_type=bytes, value_serializer="json")
    open_ones = made.Table("open", default=list, partitions=PARTITIONS)

    @made.agent(events)
    async def count(stream: Any) -> None:
        async for key, event in stream.items():
            name = key.decode()
            known = [*open_ones[name], event]
            if len(known) >= 2:
                await made.topic(f"{prefix}-launch").send(key=name, value=[each["id"] for each in known])
                known = []
            open_ones[name] = known

    @made.on_partitions_assigned.connect
    async def assigned(_app: Any, assigned: Any, **_: Any) -> None:
        mine = sorted(tp.partition for tp in assigned if tp.topic == f"{prefix}-events")
        sys.stdout.write(f"@assigned {time.time()} {mine}\n")
        sys.stdout.flush()

    return made


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
    """A key that lives there."""
    return next(name for n in range(1000) if partition_of(name := f"probe{number}-{n}") == partition)


async def takeovers(servers: str, prefix: str, *, keys: int, rounds: int, session_s: float, scratch: Path) -> Any:
    """For each round (seconds from the kill, seconds from the assignment) to the first correct decision in the last of
    the partitions of the worker that was killed, which held that many keys."""
    await topics(servers, prefix)
    producer = AIOKafkaProducer(bootstrap_servers=servers, linger_ms=5, acks="all")
    consumer = AIOKafkaConsumer(f"{prefix}-launch", bootstrap_servers=servers, auto_offset_reset="earliest")
    await producer.start()
    await consumer.start()
    crew: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}
    for core in (0, 1):
        crew[core] = start(servers, prefix, session_s, core, scratch)
    try:
        await until(lambda: shared(crew), 120)
        await load(producer, servers, prefix, 2 * keys)
        found = []
        for number in range(rounds):
            found.append(await takeover(producer, consumer, crew, prefix, number))
            dead = next(core for core in (0, 1) if core not in crew)
            crew[dead] = start(servers, prefix, session_s, dead, scratch)
            await until(lambda: shared(crew), 180)
        return found
    finally:
        for process, _ in crew.values():
            process.kill()
            process.wait()
        await producer.stop()
        await consumer.stop()


def start(servers: str, prefix: str, session_s: float, core: int, scratch: Path) -> Any:
    said = scratch / f"stock-{prefix}-{core}-{time.time_ns()}.log"
    with said.open("wb") as out:
        process = subprocess.Popen(
            (sys.executable, "-m", "bench.stock", servers, prefix, str(session_s)), stdout=out, stderr=out
        )
    psutil.Process(process.pid).cpu_affinity([core])
    return process, said


def assignments(said: Path) -> list[tuple[float, list[int]]]:
    lines = [line for line in said.read_text(errors="replace").splitlines() if line.startswith("@assigned ")]
    words = [line.split(" ", 2) for line in lines]
    return [(float(at), orjson.loads(mine)) for _, at, mine in words]


def shared(crew: dict[int, tuple[Any, Path]]) -> bool:
    """Each has half of the partitions."""
    last = [assignments(said)[-1][1] if assignments(said) else [] for _, said in crew.values()]
    return sorted(map(len, last)) == [PARTITIONS // 2, PARTITIONS // 2]


async def until(holds: Any, seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.05)


def event(key: str, number: int) -> bytes:
    return orjson.dumps({"id": f"{key}.{number}", "body": BODY})


async def load(producer: AIOKafkaProducer, servers: str, prefix: str, keys: int) -> None:
    """One event for each key, and until the app has counted what it will count: it drops a few when shares change."""
    for number in range(keys):
        key = f"key-{number}"
        await producer.send(f"{prefix}-events", event(key, 1), key=key.encode(), partition=partition_of(key))
    await producer.flush()
    reader = AIOKafkaConsumer(bootstrap_servers=servers, group_id=None)
    await reader.start()
    places = [TopicPartition(f"{prefix}-app-open-changelog", n) for n in range(PARTITIONS)]
    reader.assign(places)
    counted, still = -1, 0
    while still < QUIET:
        now = sum((await reader.end_offsets(places)).values())
        still, counted = (still + 1 if now == counted else 0), now
        await asyncio.sleep(0.5)
    await reader.stop()


async def takeover(
    producer: AIOKafkaProducer, consumer: AIOKafkaConsumer, crew: dict[int, Any], prefix: str, number: int
) -> tuple[float, float]:
    """One kill, judged by events that come right after it."""
    dead = number % 2
    mine = assignments(crew[dead][1])[-1][1]
    probes = {partition: probe(partition, number) for partition in mine}
    for partition, key in probes.items():
        await producer.send_and_wait(f"{prefix}-events", event(key, 1), key=key.encode(), partition=partition)
    await asyncio.sleep(3)  # counted, and the offsets committed (every 2.8 s)
    process, _ = crew.pop(dead)
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
                    key = orjson.loads(record.key) if (record.key or b"").startswith(b'"') else record.key.decode()
                    if key in waiting and orjson.loads(record.value) == [f"{key}.1", f"{key}.2"]:
                        waiting.discard(key)
                        decided = time.time()
    process.wait()
    (_, said), *_ = crew.values()
    taken = min(at for at, mine in assignments(said) if at > killed and len(mine) == PARTITIONS)
    return decided - killed, decided - taken


def main(words: Sequence[str]) -> None:
    servers, prefix, session_s = words
    with suppress(KeyboardInterrupt):
        faust.Worker(
            app(servers, prefix, float(session_s)), loglevel="info", redirect_stdouts=False
        ).execute_from_commandline()


if __name__ == "__main__":
    main(sys.argv[1:])
