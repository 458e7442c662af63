"""PostgreSQL commits, and its answer is lost: what was started without being held goes again, and nothing else does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from streamsched.domain.errors import UnavailableError
from streamsched.domain.tasks.attempt import AttemptFailed, StartedTask, after_attempt
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.store.tasks.delivery import EndedAttempt
from streamsched.store.tasks.queues import QueueVersion
from tests.integration.tasks.task_world import HTTP, TaskWorld

_SECOND: Final = timedelta(seconds=1)
POLICY: Final = replace(HTTP, retry=BackoffRetry(retries=5, delay=_SECOND, longest=_SECOND, jitter=0))


def lose_answer(world: TaskWorld, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The next call of this method of the store is committed and raises."""
    real = getattr(world.store, name)

    async def lost(*args: Any, **named: Any) -> Any:
        monkeypatch.undo()
        await real(*args, **named)
        raise UnavailableError("PostgreSQL: the connection was lost")

    monkeypatch.setattr(world.store, name, lost)


async def test_of_a_start_goes_again_beside_what_is_held(world: TaskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.queue()
    world.receiver.held = asyncio.Event()
    await world.add("held", "one")
    async with world.owning() as owner:
        await owner.run_once()
        await asyncio.sleep(0)
        await world.add("first", "two")
        await world.add("second", "two")
        lose_answer(world, monkeypatch, "start")
        with pytest.raises(UnavailableError):
            await owner.run_once()
        assert world.receiver.keys == ["held"]

        world.receiver.held.set()
        await world.settle(owner)

        assert world.receiver.keys == ["held", "first", "second"]
        assert [task.attempt for task in world.receiver.received] == [1, 1, 1]


async def test_of_a_takeover_is_taken_again(world: TaskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.queue()
    await world.add("only")
    owner = world.owner()
    lose_answer(world, monkeypatch, "fence")
    with pytest.raises(UnavailableError):
        await owner.step_ownership()

    await owner.step_ownership()
    await world.settle(owner)

    assert world.receiver.keys == ["only"]
    await owner.stop(0)


async def test_of_an_end_is_not_stored_twice(world: TaskWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.queue()
    task = await world.add("first", "lane")
    await world.add("second", "lane")
    async with world.owning() as owner:
        await owner.run_once()
        await owner.wait_until_delivered()
        lose_answer(world, monkeypatch, "store")
        with pytest.raises(UnavailableError):
            await owner.run_once()
        await world.settle(owner)

    assert world.receiver.keys == ["first", "second"]
    assert len((await world.registry.get(task)).attempts) == 1


async def test_the_end_of_an_earlier_start_is_not_that_of_the_next(world: TaskWorld) -> None:
    """As when the answer to the storing of an end was lost, and its task was started again before the repetition."""
    await world.queue(policy=POLICY)
    await world.add("only", "lane")
    owner = world.owner()
    await owner.step_ownership()
    epochs = dict(owner._ownership.writing)
    (queue,) = await world.queues.all()
    ((first,), failed) = await started(world, queue, epochs), AttemptFailed(world.clock.now(), "HTTP 500")
    ended = EndedAttempt(first, failed, after_attempt(first, failed, POLICY.retry))
    assert await world.store.store([ended], epochs, now=world.clock.now()) == 1
    world.pass_time(10)
    (second,) = await started(world, queue, epochs)
    assert (second.id, second.generation, second.failures) == (first.id, first.generation, 1)

    assert await world.store.store([ended], epochs, now=world.clock.now()) == 0
    held = "SELECT count(*) FROM task_lanes WHERE in_flight IS NOT NULL"
    assert await world.pool.fetchval(held) == 1, "the second attempt is in flight"
    await world.store.fence(epochs, now=world.clock.now(), held=[second])
    assert await world.pool.fetchval(held) == 1
    await world.store.fence(epochs, now=world.clock.now(), held=[first])
    assert await world.pool.fetchval(held) == 0, "what holds the first attempt does not hold the second"
    await owner.stop(0)


async def started(world: TaskWorld, queue: QueueVersion, epochs: Mapping[int, int]) -> Sequence[StartedTask]:
    return await world.store.start(queue, epochs, limit=10, most_bytes=1000, now=world.clock.now())


async def test_a_task_that_is_started_again_before_the_answer_to_its_end_is_held_anew(
    world: TaskWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is stored, which frees the lane, and the owner hears of it after it has started the lane again."""
    await world.queue(policy=POLICY)
    await world.add("only", "lane")
    real, answered = world.store.store, asyncio.Event()
    world.receiver.answer = lambda task: None if task.failures else "HTTP 500"

    async def slow(*args: Any, **named: Any) -> int:
        stored = await real(*args, **named)
        await answered.wait()
        return stored

    async with world.owning() as owner:
        await owner.run_once()
        await owner.wait_until_delivered()
        monkeypatch.setattr(world.store, "store", slow)
        storing = asyncio.create_task(owner._ends.store_all())
        while not await world.pool.fetchval("SELECT bool_and(in_flight IS NULL) FROM task_lanes"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        world.pass_time(10)
        world.receiver.held = asyncio.Event()
        assert (await owner._advance())[0] == 1
        await asyncio.sleep(0)
        answered.set()
        await storing
        assert [held.task.failures for _, held in owner._held] == [1], "the second attempt goes on"
        world.receiver.held.set()
        await world.settle(owner)

    assert [task.failures for task in world.receiver.received] == [0, 1]
    assert await world.size("tasks") == 0
