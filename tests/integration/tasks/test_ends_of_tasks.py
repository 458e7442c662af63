"""Ends of tasks are events, stored with the ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from streamsched.codec.events import native
from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.events.event import CustomHappened
from streamsched.domain.names import EventName
from streamsched.domain.tasks.queue import QueuePolicy, TopicTarget
from streamsched.domain.tasks.recurrence import Recurrence
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.domain.triggers.trigger import Every
from tests.integration.tasks.task_world import HTTP, TaskWorld
from tests.integration.tasks.test_lanes_of_tasks import SECOND

DONE = EventName("default", "mail-done")
POLICY = replace(HTTP, ends=DONE, retry=BackoffRetry(retries=0))


async def published(world: TaskWorld) -> list[dict[str, Any]]:
    """Attributes of the events, in order."""
    rows = await world.published("events")
    facts = [native.from_json(orjson.loads(row)).fact for row in rows]
    assert all(isinstance(fact, CustomHappened) and fact.name == DONE for fact in facts)
    return [dict(fact.attributes) for fact in facts if isinstance(fact, CustomHappened)]


async def test_each_end_is_one_event_with_the_data_of_the_task(world: TaskWorld) -> None:
    await world.queue(policy=POLICY)
    world.receiver.answer = lambda task: "HTTP 500" if task.key == "bad" else None
    good = await world.add("good", "lane", data=b'{"customer": "7", "state": 3}')
    await world.add("bad", "lane", data=b"[1]")
    async with world.owning() as owner:
        await world.settle(owner)

    found = {each["key"]: each for each in await published(world)}
    own = {"task": good, "queue": "q", "lane": "lane", "key": "good", "state": "SUCCEEDED", "reason": ""}
    assert found["good"] == {"customer": "7", **own}
    assert (found["bad"]["state"], found["bad"]["reason"]) == ("FAILED", "HTTP 500")


async def test_retries_are_no_ends_and_ticks_are(world: TaskWorld) -> None:
    await world.queue(policy=replace(POLICY, retry=BackoffRetry(1, SECOND, SECOND)))
    world.receiver.answer = lambda task: "no" if len(world.receiver.received) == 1 else None
    await world.add("k", recurrence=Recurrence(Every(SECOND * 10), repeats=2))
    async with world.owning() as owner:
        while not world.receiver.received:
            await world.settle(owner)
            world.pass_time(1)
        assert await published(world) == [], "a failed attempt that is retried is no end"
        for _ in range(5):
            world.pass_time(11)
            await world.settle(owner)

    assert [each["state"] for each in await published(world)] == ["SUCCEEDED"] * 2


async def test_ends_by_hand_are_events_too_and_one_that_is_late_is_none(world: TaskWorld) -> None:
    await world.queue(policy=POLICY)
    cancelled, dropped = await world.add("a", after=60), await world.add("b", data=b'{"customer": "8"}')
    async with world.owning() as owner:
        await world.registry.cancel(cancelled, "not now", now=world.clock.now())
        await owner.run_once()
        await world.registry.drop(dropped, "stuck", now=world.clock.now())
        await owner.wait_until_delivered()
        await owner.run_once()

    found = [(each["key"], each["state"], each["reason"], each.get("customer")) for each in await published(world)]
    assert found == [("a", "CANCELLED", "not now", None), ("b", "DROPPED", "stuck", "8")]


def test_a_publishing_queue_has_no_ends() -> None:
    with pytest.raises(InvalidDefinitionError, match=r"\$\.ends"):
        QueuePolicy(target=TopicTarget(DONE), ends=DONE)
