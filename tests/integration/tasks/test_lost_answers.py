"""PostgreSQL commits, and its answer is lost: what was started without being held goes again, and nothing else does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from streamsched.domain.errors import UnavailableError
from tests.integration.tasks.task_world import TaskWorld


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
        await owner.delivered()
        lose_answer(world, monkeypatch, "store")
        with pytest.raises(UnavailableError):
            await owner.run_once()
        await world.settle(owner)

    assert world.receiver.keys == ["first", "second"]
    assert len((await world.registry.get(task)).attempts) == 1
