"""What owners and the API measure of queues."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.store.server.gauges import Gauges
from tests.integration.tasks.task_world import HTTP, TaskWorld


async def test_lanes_of_each_queue_are_counted(world: TaskWorld) -> None:
    await world.queue("http")
    await world.queue("work", QueuePolicy(target=WorkerTarget()))
    for number in range(3):
        await world.add(f"k{number}", "one", queue="http")
        await world.add(f"k{number}", queue="work")
    await world.add("later", queue="http", after=60)
    world.pass_time(5)
    world.receiver.held = asyncio.Event()
    async with world.owning() as owner:
        await owner.run_once()
        measures = await Gauges(world.pool).measure(now=world.clock.now())
        http, work = measures.queues["http"], measures.queues["work"]
        assert (http.in_flight, http.due, http.staged, http.late) == (1, 0, 0, 0.0)
        assert (work.in_flight, work.due, work.staged, work.late) == (0, 3, 3, 5.0)
        assert (http.stale, work.stale) == (0, 0)

        world.receiver.answer = lambda _: "HTTP 500"
        world.receiver.held.set()
        await owner.wait_until_delivered()
        await owner.run_once()
        assert (await Gauges(world.pool).measure(now=world.clock.now())).queues["http"].stuck == 1


async def test_attempts_exhausted_tasks_and_lateness_are_counted(world: TaskWorld) -> None:
    retry = BackoffRetry(retries=1, delay=timedelta(seconds=1), longest=timedelta(seconds=1), jitter=0)
    await world.queue(policy=QueuePolicy(target=HTTP.target, retry=retry))
    await world.add("good")
    await world.add("bad")
    world.receiver.answer = lambda task: "HTTP 500" if task.key == "bad" else None
    async with world.owning() as owner:
        await world.settle(owner)
        world.pass_time(2)
        await world.settle(owner)
    found = world.metrics.render().decode()

    assert 'streamsched_queue_attempts_total{queue="q",result="acknowledged"} 1.0' in found
    assert 'streamsched_queue_attempts_total{queue="q",result="failed"} 2.0' in found
    assert 'streamsched_queue_exhausted_total{queue="q"} 1.0' in found
    assert "streamsched_queue_start_late_seconds_count 2.0" in found


async def test_tasks_that_are_due_for_five_minutes_are_stale_until_they_end(world: TaskWorld) -> None:
    await world.queue()
    for number in range(4):
        await world.add(f"k{number}", "one", after=60 * number)

    async def stale() -> int:
        return (await Gauges(world.pool).measure(now=world.clock.now())).queues["q"].stale

    world.pass_time(300)
    assert await stale() == 0, "exactly five minutes are not more than that"
    world.pass_time(90)
    assert await stale() == 2
    async with world.owning() as owner:
        await world.settle(owner)
    assert await stale() == 0
