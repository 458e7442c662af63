"""Registrations that arrive at the same time share transactions; each has its own result."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.tasks.queue import HttpTarget, QueuePolicy
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import TaskRequest
from tests.integration.tasks.task_world import TaskWorld

POLICY = QueuePolicy(target=HttpTarget("http://127.0.0.1:9/none"), grace=timedelta(hours=1))


async def test_one_that_is_refused_stops_no_other(world: TaskWorld) -> None:
    await world.queue(policy=POLICY)
    now = world.clock.now()
    requests = [TaskRequest(key=f"k{number}", lane="lane", due_at=now) for number in range(40)]
    requests[7] = TaskRequest(key="late", due_at=now - timedelta(days=1))

    found = await asyncio.gather(
        *(world.registry.register("q", [each], now=now) for each in requests), return_exceptions=True
    )

    assert isinstance(found[7], InvalidError)
    assert found[7].path == "$[0].due"
    stored = [each for number, each in enumerate(found) if number != 7]
    assert all(not isinstance(each, BaseException) and len(each) == 1 for each in stored)
    assert await world.size("tasks") == 39
    assert await world.pool.fetchval("SELECT count(DISTINCT xmin::text) FROM tasks") < 39, "they shared transactions"


async def test_the_last_of_the_same_task_counts(world: TaskWorld) -> None:
    await world.queue()
    now = world.clock.now() + timedelta(hours=1)
    requests = [TaskRequest(key="k", due_at=now, data=str(number).encode()) for number in range(10)]

    found = await asyncio.gather(*(world.registry.register("q", [each], now=now) for each in requests))

    verdicts = [each.verdict for (each,) in found]
    assert verdicts == [RegistrationVerdict.MADE] + [RegistrationVerdict.REPLACED] * 9
    assert [task.data for task in await world.tasks()] == [b"9"]


async def test_an_unknown_queue_refuses_all(world: TaskWorld) -> None:
    async def register(key: str) -> None:
        await world.registry.register("none", [TaskRequest(key=key)], now=world.clock.now())

    found = await asyncio.gather(*(register(f"k{number}") for number in range(5)), return_exceptions=True)
    assert all(isinstance(each, NotFoundError) for each in found)
    with pytest.raises(NotFoundError):
        await register("again")
