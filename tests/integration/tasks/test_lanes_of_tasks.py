"""Lanes: one task in flight, in order; retries wait inside; a stuck lane delays no other; nothing is early or lost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError
from streamsched.domain.names import EventName
from streamsched.domain.schedules.schedule import Misfire
from streamsched.domain.tasks.attempt import Acknowledged, StartedTask, after_attempt
from streamsched.domain.tasks.queue import QueuePolicy, TaskIdentity, TopicTarget, WorkerTarget
from streamsched.domain.tasks.recurrence import Recurrence
from streamsched.domain.tasks.registration import RegistrationVerdict
from streamsched.domain.tasks.task import OnExisting, TaskRequest, TaskState
from streamsched.domain.tasks.task_retry import BackoffRetry, PeriodRetry
from streamsched.domain.triggers.trigger import Every
from streamsched.store.tasks.delivery import EndedAttempt
from tests.integration.tasks.task_world import HTTP, TaskWorld

SECOND = timedelta(seconds=1)


async def test_a_lane_goes_in_order_of_due_time_and_key(world: TaskWorld) -> None:
    await world.queue()
    for key, after in (("c", 0), ("b", 5), ("a", 5), ("d", 2)):
        await world.add(key, "lane", after=after)
    async with world.owning() as owner:
        await world.settle(owner)
        assert world.receiver.keys == ["c"], "none is early"
        world.pass_time(60)
        await world.settle(owner)

    assert world.receiver.keys == ["c", "d", "a", "b"]
    assert (await world.queues.get("q")).tasks == 0


async def test_a_retry_waits_inside_its_lane_and_delays_no_other(world: TaskWorld) -> None:
    await world.queue(policy=replace(HTTP, retry=PeriodRetry(30 * SECOND)))
    stuck = await world.add("stuck", "bad")
    await world.add("then", "bad")
    await world.add("free", "good")
    world.receiver.answer = lambda task: (
        "HTTP 503" if task.key == "stuck" and len(world.receiver.received) < 4 else None
    )
    async with world.owning() as owner:
        await world.settle(owner)
        assert sorted(world.receiver.keys) == ["free", "stuck"]
        record, reasons = await world.registry.explain(stuck, now=world.clock.now())
        assert (record.state, record.failures) == (TaskState.RETRYING, 1)
        assert "failed once" in reasons[0].text
        await world.add("early", "bad", after=-100)
        for _ in range(3):
            world.pass_time(30)
            await world.settle(owner)

    assert world.receiver.keys[-4:] == ["stuck", "stuck", "early", "then"], "a started task keeps its place"
    assert [task.attempt for task in world.receiver.received if task.key == "stuck"] == [1, 2, 3]


async def test_a_task_that_always_fails_ends_and_its_lane_goes_on(world: TaskWorld) -> None:
    await world.queue(policy=replace(HTTP, retry=BackoffRetry(2, SECOND, SECOND)))
    bad = await world.add("bad", "lane")
    await world.add("next", "lane")
    world.receiver.answer = lambda task: "HTTP 500: \0 odd" if task.key == "bad" else None
    async with world.owning() as owner:
        for _ in range(4):
            await world.settle(owner)
            world.pass_time(1)

    assert world.receiver.keys == ["bad", "bad", "bad", "next"]
    found = await world.registry.get(bad)
    assert (found.state, found.failures, found.final) == (TaskState.FAILED, 2, True)
    assert [each["attempt"] for each in found.attempts] == [1, 2, 3]


async def test_the_same_key_replaces_before_it_started_and_does_nothing_after_it_ended(world: TaskWorld) -> None:
    await world.queue(policy=replace(HTTP, dedupe=timedelta(days=1)))

    async def verdict(data: bytes) -> RegistrationVerdict:
        request = TaskRequest(key="k", data=data, due_at=world.clock.now() + SECOND)
        (found,) = await world.registry.register("q", [request], now=world.clock.now())
        return found.verdict

    assert await verdict(b"1") is RegistrationVerdict.MADE
    assert await verdict(b"2") is RegistrationVerdict.REPLACED
    async with world.owning() as owner:
        world.pass_time(2)
        await owner.run_once()
        assert await verdict(b"3") is RegistrationVerdict.STARTED
        await owner.wait_until_delivered()
        await world.settle(owner)
        assert await verdict(b"4") is RegistrationVerdict.ENDED
        await world.settle(owner)
        world.pass_time(86_401)
        assert await verdict(b"5") is RegistrationVerdict.MADE
        world.pass_time(2)
        await world.settle(owner)

    assert [task.data for task in world.receiver.received] == [b"2", b"5"]


async def test_a_late_end_of_an_older_generation_frees_the_lane_and_changes_nothing_else(world: TaskWorld) -> None:
    await world.queue()
    task = await world.add("k", "lane", data=b"old")
    now, epochs = world.clock.now(), dict.fromkeys(range(16), 1)
    assert await world.store.fence(epochs, now=now) == set(epochs)
    (queue,) = await world.queues.all()

    async def started() -> list[StartedTask]:
        return list(await world.store.start(queue, epochs, limit=9, most_bytes=999, now=now))

    (old,) = await started()
    await world.add("k", "lane", data=b"new", on_existing=OnExisting.OVERWRITE)
    assert (await world.registry.get(task)).state is TaskState.WAITING
    assert await started() == [], "its lane is in flight until the old delivery has ended"
    end = Acknowledged(now)
    ended = EndedAttempt(old, end, after_attempt(old, end, HTTP.retry))
    assert await world.store.store([ended], dict.fromkeys(epochs, 0), now=now) == 0, "a former owner writes nothing"
    assert await world.store.store([ended], epochs, now=now) == 1
    (new,) = await started()

    assert new.data == b"new"
    assert new.generation > old.generation
    assert await world.registry.ends(task, limit=9) == []


async def test_a_delivery_that_is_outdated_is_stopped(world: TaskWorld) -> None:
    await world.queue()
    await world.add("k", "lane", data=b"old")
    world.receiver.held = asyncio.Event()
    async with world.owning() as owner:
        await owner.run_once()
        await world.add("k", "lane", data=b"new", on_existing=OnExisting.OVERWRITE)
        await owner.run_once()
        world.receiver.held.set()
        await owner.wait_until_delivered()
        await world.settle(owner)

    assert [each.data for each in world.receiver.received] == [b"old", b"new"]


async def test_refuse_stores_nothing_while_there_is_a_live_one(world: TaskWorld) -> None:
    await world.queue()
    for expected in (RegistrationVerdict.MADE, RegistrationVerdict.EXISTS):
        request = TaskRequest(key="k", on_existing=OnExisting.REFUSE)
        (found,) = await world.registry.register("q", [request], now=world.clock.now())
        assert found.verdict is expected


async def test_what_was_in_flight_when_its_owner_died_is_repeated_by_the_next(world: TaskWorld) -> None:
    await world.queue()
    first = world.owner()
    await first.step_ownership()
    keys = [f"k{number}" for number in range(50)]
    for key in keys:
        await world.add(key, f"lane-{key[-1]}")
    await first.run_once()
    in_flight = 10
    await world.expire()
    async with world.owning() as second:
        await first.wait_until_delivered()
        assert len(world.receiver.received) == in_flight
        await first.run_once()  # its ends come too late
        await world.settle(second)

    assert sorted(world.receiver.keys[in_flight:]) == sorted(keys), "all again, but none of those twice"
    assert (await world.queues.get("q")).tasks == 0


async def test_an_owner_whose_lease_may_have_ended_sends_nothing(world: TaskWorld) -> None:
    await world.queue()
    task = await world.add("k")
    async with world.owning(ttl=timedelta(microseconds=1)) as paused:
        assert await paused.run_once() == 1, "its epoch is still the newest"
        await paused.wait_until_delivered()
    left = await world.registry.get(task)
    async with world.owning() as owner:
        await world.settle(owner)

    assert (left.state, left.failures, left.interruptions) == (TaskState.RETRYING, 0, 1)
    assert [each.attempt for each in world.receiver.received] == [1]


async def test_a_worker_that_does_not_acknowledge_in_time_has_failed(world: TaskWorld) -> None:
    target = WorkerTarget(timedelta(milliseconds=1))
    await world.queue(policy=QueuePolicy(target=target, retry=BackoffRetry(retries=0)))
    task = await world.add("k")
    async with world.owning() as owner:
        with world.workers.connect(["q"], credit=1) as stream:
            await owner.run_once()
            await owner.wait_until_delivered()
            assert stream.free_room == 1
        await owner.run_once()

    ended = await world.registry.get(task)
    assert (ended.state, ended.reason) == (TaskState.FAILED, "its worker neither ended it nor sent a heartbeat for 1ms")


async def test_partitions_are_shared_and_handed_over(world: TaskWorld) -> None:
    await world.queue()
    one, two = world.owner(), world.owner()
    await one.step_ownership()
    for _ in range(4):
        await two.step_ownership()
        await one.step_ownership()
    for number in range(200):
        await world.add(f"k{number}")
    assert [await owner.run_once() for owner in (one, two)] == [50, 50], "half of what each can hold"
    for owner in (one, two):
        await owner.wait_until_delivered()
        await world.settle(owner)
        await owner.stop(0)

    assert len(set(world.receiver.keys)) == len(world.receiver.keys) == 200


async def test_staged_tasks_use_no_attempt_and_go_when_a_worker_connects(world: TaskWorld) -> None:
    await world.queue(policy=QueuePolicy(target=WorkerTarget(), retry=BackoffRetry(retries=0)))
    task = await world.add("k")
    async with world.owning() as owner:
        assert await owner.run_once() == 0
        assert (await world.registry.get(task)).failures == 0
        with world.workers.connect(["q"], credit=1) as stream:
            assert await owner.run_once() == 1
            received = await stream.next_task()
            assert received.attempt == 1
        await owner.wait_until_delivered()
        await owner.run_once()
        left = await world.registry.get(task)
        assert (left.state, left.failures, left.interruptions) == (TaskState.RETRYING, 0, 1), "its worker disconnected"
        with world.workers.connect(["q"], credit=1) as stream:
            await owner.run_once()
            received = await stream.next_task()
            assert received.attempt == 1
            stream.acknowledge("unknown")
            stream.acknowledge(received.token)
            await owner.wait_until_delivered()
        await owner.run_once()

    assert (await world.registry.get(task)).state is TaskState.SUCCEEDED


async def test_a_published_task_is_an_event_in_the_outbox_stored_with_its_end(world: TaskWorld) -> None:
    await world.queue(policy=QueuePolicy(target=TopicTarget(EventName("default", "welcome"))))
    task = await world.add("k", data=b'{"customer": "7", "n": 3}')
    bad = await world.add("bad", data=b"[1]", retry=BackoffRetry(retries=0))
    async with world.owning() as owner:
        await world.settle(owner)

    rows = await world.pool.fetch("SELECT key, value FROM outbox")
    assert [row["key"] for row in rows] == ["event:default.welcome"]
    assert b'"customer":"7"' in bytes(rows[0]["value"]).replace(b": ", b":")
    assert (await world.registry.get(task)).reason == "published default.welcome"
    assert (
        await world.registry.get(bad)
    ).reason == "$.data: must be a JSON object: its members become attributes of the event"


async def test_a_cap_and_a_rate_hold_for_all_owners(world: TaskWorld) -> None:
    policy = QueuePolicy(target=WorkerTarget(), max_in_flight=3, rate=1.0, burst=10)
    await world.queue(policy=policy)
    for number in range(12):
        await world.add(f"k{number}")
    one, two = world.owner(), world.owner()
    await one.step_ownership()
    for _ in range(4):
        await two.step_ownership()
        await one.step_ownership()
    with world.workers.connect(["q"], credit=100) as stream:
        assert await one.run_once() + await two.run_once() == 3
        for _ in range(3):
            stream.acknowledge((await stream.next_task()).token)
        for owner in (one, two):
            await owner.wait_until_delivered()
        assert await one.run_once() + await two.run_once() == 3
    for owner in (one, two):
        await owner.stop(0)


async def test_a_paused_queue_starts_nothing_and_goes_on_when_resumed(world: TaskWorld) -> None:
    await world.queue()
    task = await world.add("k")
    async with world.owning() as owner:
        await world.queues.pause("q", True, "deploy", now=world.clock.now())
        assert await owner.run_once() == 0
        _, reasons = await world.registry.explain(task, now=world.clock.now())
        assert [each.text for each in reasons] == ["queue 'q' is paused"]
        await world.queues.pause("q", False, "", now=world.clock.now())
        await world.settle(owner)

    assert world.receiver.keys == ["k"]


async def test_cancel_drop_and_move(world: TaskWorld) -> None:
    await world.queue()
    now = world.clock.now()
    waiting, stuck = await world.add("a", "lane", after=10), await world.add("b", "lane")
    await world.add("c", "lane", after=20)
    async with world.owning() as owner:
        await owner.run_once()
        with pytest.raises(ConflictError, match="is IN_FLIGHT; drop it instead"):
            await world.registry.cancel(stuck, "", now=now)
        with pytest.raises(ConflictError, match="IN_FLIGHT"):
            await world.registry.move(stuck, now, "", now=now)
        assert (await world.registry.drop(stuck, "stuck", now=now)).state is TaskState.DROPPED
        assert (await world.registry.drop(stuck, "again", now=now)).reason == "stuck"
        await owner.wait_until_delivered()
        assert (await world.registry.cancel(waiting, "no more", now=now)).state is TaskState.CANCELLED
        moved = await world.registry.move(await world.add("d", "lane", after=99), now, "now", now=now)
        assert moved.due_at == now
        await world.settle(owner)

    assert world.receiver.keys == ["b", "d"]
    with pytest.raises(NotFoundError):
        await world.registry.get("0" * 32)


async def test_a_recurring_task_ticks_without_drift_and_follows_its_misfire_policy(world: TaskWorld) -> None:
    await world.queue()
    begin = world.clock.now()
    for misfire in Misfire:
        recurrence = Recurrence(Every(60 * SECOND), misfire=misfire)
        await world.add(misfire.value, recurrence=recurrence, due_at=begin)
    async with world.owning() as owner:
        await world.settle(owner)
        world.pass_time(60 * 5 + 7)
        await world.settle(owner)

    planned = {
        misfire: [(each.planned_at - begin) / SECOND for each in world.receiver.received if each.key == misfire]
        for misfire in Misfire
    }
    assert planned[Misfire.ALL] == [0, 60, 120, 180, 240, 300]
    assert planned[Misfire.ONE] == planned[Misfire.SKIP] == [0, 300]


async def test_what_was_due_during_a_long_downtime_is_delivered_in_order(world: TaskWorld) -> None:
    await world.queue()
    week = 7 * 86_400
    for lane in range(20):
        requests = [
            TaskRequest(key=f"{lane}-{n:03}", lane=f"lane-{lane}", due_at=world.clock.now() + n * SECOND)
            for n in range(50)
        ]
        await world.registry.register("q", requests, now=world.clock.now())
    world.pass_time(week)
    await world.add("new", "newest")
    async with world.owning() as owner:
        await owner.run_once()
        await owner.wait_until_delivered()
        assert "new" in world.receiver.keys, "the newest lane has its turn at once"
        await world.settle(owner)

    assert len(world.receiver.keys) == len(set(world.receiver.keys)) == 1001
    for lane in range(20):
        mine = [key for key in world.receiver.keys if key.startswith(f"{lane}-")]
        assert mine == sorted(mine)


async def test_refusals_name_the_path_and_store_nothing(world: TaskWorld) -> None:
    await world.queue(policy=replace(HTTP, grace=10 * SECOND))
    now = world.clock.now()
    good, late = TaskRequest(key="a"), TaskRequest(key="b", due_at=now - 30 * SECOND)
    with pytest.raises(InvalidError, match=r"^\$\[1\]\.due: is .* too far in the past: the queue accepts 10s"):
        await world.registry.register("q", [good, late], now=now)
    with pytest.raises(InvalidError, match=r"^\$\[0\]\.lane: must have at most 600 characters"):
        await world.registry.register("q", [TaskRequest(key="a", lane="x" * 601)], now=now)
    with pytest.raises(NotFoundError, match="queue 'none' was not found"):
        await world.registry.register("none", [good], now=now)
    with pytest.raises(ConflictError, match="cannot be changed"):
        await world.queue(policy=replace(HTTP, identity=TaskIdentity.KEY_AND_DUE))
    assert (await world.queues.get("q")).tasks == 0


async def test_of_several_registrations_of_a_task_at_once_the_last_one_counts(world: TaskWorld) -> None:
    await world.queue()
    requests = [TaskRequest(key="k", data=data) for data in (b"1", b"2")]

    found = await world.registry.register("q", requests, now=world.clock.now())

    assert [each.verdict for each in found] == [RegistrationVerdict.MADE, RegistrationVerdict.REPLACED]
    async with world.owning() as owner:
        await world.settle(owner)
    assert [each.data for each in world.receiver.received] == [b"2"]
