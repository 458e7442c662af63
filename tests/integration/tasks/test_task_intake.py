"""Tasks that PagerDuty's clients write to a topic become tasks, each once, before the position moves."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import pytest

from streamsched.dialects.pagerduty.codec.partitioner import partition_of_id
from streamsched.dialects.pagerduty.codec.task import POLICY, SCHEDULER, Task, encode, time_text
from streamsched.dialects.pagerduty.intake import TaskIntake
from streamsched.dialects.pagerduty.views import task_view
from streamsched.domain.errors import ConfigurationError, ConflictError
from streamsched.domain.tasks.queue import TaskIdentity
from streamsched.domain.tasks.task import TaskState
from streamsched.log.drivers import open_broker
from streamsched.log.records import records
from streamsched.log.topics import DEAD_LETTER, topic_specs
from streamsched.ports.broker import Broker, Outgoing, TopicPartition
from streamsched.store.tasks.intake import PostgresTaskIntake
from tests.integration.tasks.task_world import TaskWorld
from tests.support.services import need

PARTITIONS = 3


@pytest.fixture
async def log(database: str) -> AsyncIterator[Broker]:
    """The log of the installation, in PostgreSQL; dead letters go there."""
    made = await open_broker(database)
    await made.create_topics(topic_specs(2, timedelta(days=1)))
    yield made
    await made.close()


@pytest.fixture(params=["postgres", pytest.param("kafka", marks=pytest.mark.kafka)])
async def source(request: pytest.FixtureRequest, log: Broker) -> AsyncIterator[Broker]:
    """The log with the topic of tasks."""
    if request.param == "postgres":
        yield log
        return
    made = await open_broker(request.getfixturevalue("kafka_log"))
    yield made
    await made.close()


def intake(world: TaskWorld, source: Broker, log: Broker, pool: asyncpg.Pool | None = None) -> TaskIntake:
    return TaskIntake(
        SCHEDULER,
        SCHEDULER,
        broker=source,
        letters=log,
        store=PostgresTaskIntake(pool or world.pool, SCHEDULER, SCHEDULER),
        queues=world.queues,
        clock=world.clock,
        partitions=PARTITIONS,
    )


def record(ordering_id: str, time: datetime, key: str = "k", data: str = "") -> Outgoing:
    task = Task(ordering_id, time, key, {"n": data})
    return Outgoing(SCHEDULER, partition_of_id(ordering_id, PARTITIONS), ordering_id.encode(), encode(task))


async def read_all(copying: TaskIntake) -> int:
    stored = 0
    while found := await copying.run_once(timeout=2):
        stored += found
    return stored


async def letters(log: Broker) -> list[bytes]:
    return [each.value or b"" for at in range(2) async for each in records(log, TopicPartition(DEAD_LETTER, at))]


async def test_a_queue_that_would_merge_tasks_of_several_times_stops_the_copy(
    world: TaskWorld, source: Broker, log: Broker
) -> None:
    await world.queues.set(SCHEDULER, replace(POLICY, identity=TaskIdentity.KEY), "by hand", now=world.clock.now())

    with pytest.raises(ConflictError, match=r"create another queue with `--identity key_and_due`"):
        await intake(world, source, log).run_once(timeout=0)


async def test_records_become_tasks_and_bad_ones_dead_letters(world: TaskWorld, source: Broker, log: Broker) -> None:
    copying, now = intake(world, source, log), world.clock.now()
    await copying.run_once(timeout=0)
    assert (await world.queues.get(SCHEDULER)).queue.policy == POLICY
    assert await source.partitions(SCHEDULER) == PARTITIONS
    good = [record(f"id {n % 7}", now + timedelta(seconds=n), f"k{n}") for n in range(50)]
    late = record("late", now - timedelta(days=20))
    bad = [
        Outgoing(SCHEDULER, 0, None, value)
        for value in (b"{", b"{}", b"\xff\0", good[0].value and good[0].value.replace(b"id 0", b"\\u0000"))
    ]
    await source.append([*good[:20], *bad, late, *good[20:]])

    assert await read_all(copying) == 51, "the grace is for clients; what was enqueued is not lost"
    assert (await world.queues.get(SCHEDULER)).tasks == 51
    assert len(await letters(log)) == 4
    assert sum(b'"$.orderingId"' in each for each in await letters(log)) == 2
    await copying.close()
    again = intake(world, source, log)
    assert await read_all(again) == 0, "positions are stored with the tasks"
    await source.append(good[:5])
    assert await read_all(again) == 5, "a repeat replaces what was not started"
    assert (await world.queues.get(SCHEDULER)).tasks == 51
    await again.close()


async def test_when_the_producer_enqueued_a_task_is_kept_to_its_end(
    world: TaskWorld, source: Broker, log: Broker
) -> None:
    copying, now = intake(world, source, log), world.clock.now()
    await copying.run_once(timeout=0)
    await source.append([record("a", now + timedelta(days=1))])
    world.pass_time(3600)
    await read_all(copying)
    await copying.close()
    (written,) = [
        each.time_ms
        for partition in range(PARTITIONS)
        async for each in records(source, TopicPartition(SCHEDULER, partition))
    ]

    (found,) = await world.registry.live_tasks(SCHEDULER, lane=None, after=None, limit=10)
    assert found.created_at == datetime.fromtimestamp(written / 1000, UTC), "not when it was stored"
    dropped = await world.registry.drop(found.id, "for the test", now=world.clock.now())
    assert (dropped.state, dropped.created_at) == (TaskState.DROPPED, found.created_at)
    assert task_view(dropped, None, PARTITIONS)["enqueueingTime"] == time_text(found.created_at)


async def test_an_ordering_id_is_delivered_in_the_order_of_its_keys(world: TaskWorld, log: Broker) -> None:
    copying, now = intake(world, log, log), world.clock.now()
    await copying.run_once(timeout=0)
    policy = (await world.queues.get(SCHEDULER)).queue.policy
    times = [now + timedelta(seconds=n) for n in (5, 1, 3, 1)]
    await log.append([record("one", time, f"k{n}", str(n)) for n, time in enumerate(times)])
    await read_all(copying)
    await copying.close()
    with world.workers.connect([SCHEDULER], credit=10) as stream:
        async with world.owning() as owner:
            world.pass_time(10)
            seen = []
            for _ in times:
                await owner.run_once()
                task = await asyncio.wait_for(stream.next_task(), 5)
                seen.append(task.key)
                stream.acknowledge(task.token)
                await owner.wait_until_delivered()
            await owner.run_once()

    assert seen == ["k1", "k3", "k2", "k0"]
    assert policy.retry == POLICY.retry


async def test_nothing_is_stored_and_no_position_moves_when_the_transaction_fails(
    world: TaskWorld, log: Broker
) -> None:
    copying, now = intake(world, log, log), world.clock.now()
    await copying.run_once(timeout=0)
    await log.append([record("a", now)])
    await world.pool.execute("ALTER TABLE task_queues RENAME TO away")
    with pytest.raises(ConfigurationError):
        await copying.run_once(timeout=1)
    await world.pool.execute("ALTER TABLE away RENAME TO task_queues")

    assert await letters(log) == []
    assert await read_all(copying) == 1
    await copying.close()


@pytest.mark.long
@pytest.mark.kafka
async def test_an_unchanged_java_producer_works(
    world: TaskWorld, log: Broker, kafka: str, kafka_log: str, tmp_path: Path
) -> None:
    """Its default partitioner puts each ordering id where ours does, and its compressed batches are read."""
    from compose.kafka.distribution import cache_folder

    need("a Java compiler", shutil.which("javac") is not None, "apt-get install default-jdk-headless")
    source = await open_broker(kafka_log)
    copying, now = intake(world, source, log), world.clock.now()
    await copying.run_once(timeout=0)
    tasks = [Task(f"incident-{n % 40}/ä", now + timedelta(seconds=n), f"k{n}") for n in range(200)]
    lines = tmp_path / "records"
    lines.write_text("".join(f"{task.ordering_id}\t{encode(task).decode()}\n" for task in tasks))
    prefix = kafka_log.rpartition("prefix=")[2]
    command = ["java", "-cp", f"{cache_folder(os.environ)}/*", str(Path(__file__).with_name("PlainProducer.java"))]
    servers = kafka.removeprefix("kafka://").partition("/")[0]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, servers, f"{prefix}{SCHEDULER}", str(lines)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert [int(each) for each in done.stdout.split()] == [
        partition_of_id(each.ordering_id, PARTITIONS) for each in tasks
    ]
    assert await read_all(copying) == 200
    assert (await world.queues.get(SCHEDULER)).tasks == 200
    await copying.close()
    await source.close()
