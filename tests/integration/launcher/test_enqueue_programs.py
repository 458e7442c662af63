"""Enqueue programs: a task in the transaction of its run's end, once for each job."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import EnqueueJob
from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.domain.tasks.task import MOST_DATA
from streamsched.store.tasks.queues import QueueStore

from .conftest import World, schedule
from .inline import Staffed, run

MAIL = EnqueueJob("mail", "lane {a}", "", timedelta(minutes=10), '{"why": "{trigger.job}", "a": "{a}"}')
QUICK = schedule("quick", overlap=Overlap.QUEUE)


async def satisfied(world: World, program: EnqueueJob, jobs: int = 1) -> Staffed:
    await world.define(QUICK)
    await world.execute(program)
    await world.satisfy(*(world.ready(QUICK, n) for n in range(1, jobs + 1)))
    return Staffed(world)


async def queue(world: World) -> None:
    policy = QueuePolicy(target=WorkerTarget())
    await QueueStore(world.pool).set("mail", policy, "test", now=world.clock.now())


async def test_each_job_makes_one_task_in_its_lane_at_its_time(world: World) -> None:
    await queue(world)
    staffed = await satisfied(world, MAIL, jobs=3)
    for number in (1, 2, 3):
        assert await staffed.until(run(number), "COMPLETED") == "made a task of queue 'mail'"
    while await staffed.inline_executor.run_once():
        pass

    assert world.runners.spawned == []
    found = await world.tasks()
    assert [each.key for each in found] == [f"default.app.quick.1.{n}" for n in (1, 2, 3)]
    assert {each.lane for each in found} == {"lane program"}
    assert {each.due_at for each in found} == {world.clock.now() + timedelta(minutes=10)}
    assert orjson.loads(found[0].data) == {"why": "default.app.quick.1.1", "a": "program"}
    assert found[0].content_type == "application/json"
    assert await world.size("task_lanes") == 1


async def test_a_run_that_is_ended_twice_makes_one_task(world: World) -> None:
    await queue(world)
    staffed = await satisfied(world, MAIL)
    await staffed.launcher.run_once()
    held = dict(staffed.inline_executor._held)
    await staffed.inline_executor.run_once()
    staffed.inline_executor.execute(list(held.values()))
    await staffed.inline_executor.run_once()

    assert len(await world.tasks()) == 1


async def test_without_key_lane_and_data_the_task_is_the_run(world: World) -> None:
    await queue(world)
    staffed = await satisfied(world, EnqueueJob("mail"))
    await staffed.until(run(), "COMPLETED")

    [task] = await world.tasks()
    assert (task.key, task.lane, task.due_at) == ("default.app.quick.1.1",) * 2 + (world.clock.now(),)
    assert orjson.loads(task.data)["program"] == "default.app.load"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (EnqueueJob("none"), "no task was made: queue 'none' was not found"),
        (EnqueueJob("mail", "{nothing}"), "the program cannot be started: the program asks for argument 'nothing'"),
        (EnqueueJob("mail", "x" * 601), "no task was made: "),
        (EnqueueJob("mail", data="x" * (MOST_DATA + 1)), "the program cannot be started: $.data: must have at most"),
    ],
)
async def test_what_cannot_be_made_fails_with_its_reason(world: World, program: EnqueueJob, why: str) -> None:
    await queue(world)
    staffed = await satisfied(world, program)

    assert (await staffed.until(run(), "FAILED")).startswith(why)
    assert await world.tasks() == []


async def test_a_bad_task_fails_its_run_alone(world: World) -> None:
    await queue(world)
    staffed = await satisfied(world, EnqueueJob("mail", key="{a}"), jobs=2)
    await staffed.launcher.run_once()
    await world.execute(EnqueueJob("none"))
    await world.satisfy(world.ready(QUICK, 3))
    for number, state in ((1, "COMPLETED"), (2, "COMPLETED"), (3, "FAILED")):
        await staffed.until(run(number), state)

    assert [each.key for each in await world.tasks()] == ["program"], "the same key replaces before it is started"
