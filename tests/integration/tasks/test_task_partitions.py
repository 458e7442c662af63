"""The number of partitions of lanes changes while tasks are delivered: grown, shrunk, killed half way, with owners that
come, and with lanes in flight.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.errors import InvalidDefinitionError
from streamsched.domain.tasks.identity import TaskLane, partition_of
from streamsched.domain.tasks.layout import LayoutStep, TaskLayout
from streamsched.domain.tasks.task import TaskRequest
from streamsched.store.tasks.partitions import MoveResult
from streamsched.tasks.loop import TaskLoop
from tests.integration.tasks.task_world import TaskWorld


async def fill(world: TaskWorld, lanes: int, tasks: int = 2) -> None:
    requests = [
        TaskRequest(key=f"{number}-{lane:04}", lane=f"lane-{lane}", due_at=world.clock.now())
        for lane in range(lanes)
        for number in range(tasks)
    ]
    for begin in range(0, len(requests), 1000):
        await world.registry.register("q", requests[begin : begin + 1000], now=world.clock.now())


async def change(world: TaskWorld, *owners: TaskLoop) -> None:
    """Steps the owners and the mover until the change is done."""
    mover = world.mover()
    while not (await world.partitions.get()).layout.settled:
        for owner in owners:
            await owner.step_ownership()
        await mover.step()
    for owner in owners:
        await owner.step_ownership()


async def spread(world: TaskWorld) -> dict[int, int]:
    rows = await world.pool.fetch("SELECT partition, count(*) AS lanes FROM task_lanes GROUP BY partition")
    return {row["partition"]: row["lanes"] for row in rows}


@pytest.mark.parametrize("partitions", [1, 3, 17, 64, 256])
async def test_all_lanes_go_to_as_many_partitions_as_wanted_and_back(world: TaskWorld, partitions: int) -> None:
    await world.queue()
    await fill(world, 1500)
    async with world.owning(capacity=2000) as owner:
        await world.partitions.want(partitions)
        await change(world, owner)
        found = await world.partitions.get()
        assert list(found.served) == list(range(partitions))
        assert sorted(owner._ownership.starting) == list(range(partitions))
        expected = Counter(partition_of(TaskLane("q", f"lane-{n}").id, partitions) for n in range(1500))
        assert await spread(world) == expected
        await world.settle(owner)
        assert len(world.receiver.keys) == 3000
        await world.partitions.want(16)
        await change(world, owner)
        await fill(world, 50)
        assert max(await spread(world)) < 16


async def test_no_lane_waits_while_new_partitions_have_no_owner(world: TaskWorld) -> None:
    await world.queue()
    async with world.owning() as owner:
        await world.partitions.want(64)
        mover = world.mover()
        await mover.step()
        assert (await world.partitions.get()).step is LayoutStep.AWAIT_OWNERS
        await fill(world, 100, 1)
        assert max(await spread(world)) < 16, "nobody would serve it there"
        await world.settle(owner)
        assert len(world.receiver.keys) == 100


async def test_a_lane_in_flight_stays_until_its_delivery_has_ended(world: TaskWorld) -> None:
    await world.queue()
    world.receiver.held = asyncio.Event()
    await fill(world, 60)
    async with world.owning() as owner:
        await owner.run_once()
        await world.partitions.want(2)
        mover = world.mover()
        for _ in range(5):
            await mover.step()
        assert len(await spread(world)) > 2
        assert len((await world.partitions.get()).served) == 16, "they are served where they are"
        world.receiver.held.set()
        await owner.wait_until_delivered()
        await owner.run_once()
        assert set(await spread(world)) == {0, 1}, "the end of a delivery sends its lane home"
        await owner.wait_until_delivered()
        await change(world, owner)
        await world.settle(owner)

    assert Counter(world.receiver.keys) == Counter(f"{n}-{lane:04}" for lane in range(60) for n in range(2))


async def test_two_owners_share_the_new_partitions_and_what_one_had_in_flight_goes_on(world: TaskWorld) -> None:
    await world.queue()
    world.receiver.held = asyncio.Event()
    await fill(world, 200)
    one = world.owner(capacity=50)
    await one.step_ownership()
    await one.run_once()
    two = world.owner(capacity=300)
    await world.partitions.want(32)
    stepping = asyncio.create_task(change(world, one, two))
    await asyncio.sleep(0)
    world.receiver.held.set()
    await one.wait_until_delivered()
    await stepping
    for _ in range(30):  # a partition is handed over when its deliveries have ended
        for owner in (one, two):
            await owner.step_ownership()
            await owner.run_once()
            await owner.wait_until_delivered()
    assert len(one._ownership.starting) == len(two._ownership.starting) == 16
    assert (await world.queues.get("q")).tasks == 0
    for lane in range(200):
        mine = [key for key in world.receiver.keys if key.endswith(f"-{lane:04}")]
        assert mine == sorted(set(mine)), "in order, each once"
    for owner in (one, two):
        await owner.stop(0)


async def test_a_mover_that_was_killed_is_followed_by_another(world: TaskWorld) -> None:
    await world.queue()
    await fill(world, 2500, 1)
    async with world.owning() as owner:
        await world.partitions.want(64)
        await owner.step_ownership()
        first = world.mover()
        await first.step()
        await first.step()
        moved = sum(lanes for partition, lanes in (await spread(world)).items() if partition >= 16)
        assert 0 < moved < 1500, "half way"
        await change(world, owner)
        assert len(await spread(world)) == 64


async def test_the_last_change_that_was_asked_for_counts(world: TaskWorld) -> None:
    await world.queue()
    await fill(world, 1200, 1)
    async with world.owning(capacity=2000) as owner:
        mover = world.mover()
        for wanted in (64, 5, 40, 7):
            await world.partitions.want(wanted)
            await owner.step_ownership()
            await mover.step()
            await mover.step()
        await change(world, owner)
        assert list((await world.partitions.get()).served) == list(range(7))
        assert len(await spread(world)) == 7
        await world.settle(owner)
        assert len(world.receiver.keys) == 1200


async def test_a_partition_that_was_given_up_and_added_between_two_heartbeats_is_fenced_again(world: TaskWorld) -> None:
    await world.queue()
    async with world.owning() as owner:
        mover = world.mover()
        await world.partitions.want(2)
        while not (await world.partitions.get()).layout.settled:
            await mover.step()
        await world.partitions.want(16)
        await change(world, owner)
        await fill(world, 100, 1)
        await world.settle(owner)
        assert len(world.receiver.keys) == 100


async def test_an_owner_starts_no_lane_that_left_its_partition_after_it_was_read(world: TaskWorld) -> None:
    """The statement of a start reads the due lanes, then waits here for the row of a partition; meanwhile they move."""
    await world.queue()
    await fill(world, 40, 1)
    async with world.owning() as owner:
        epochs = dict(owner._ownership.starting)
        await world.partitions.want(64)
        await owner.step_ownership()
        await world.partitions.switch(64)
        (queue,) = await world.queues.all()
        async with world.pool.acquire() as other:
            held = other.transaction()
            await held.start()
            await other.execute("SELECT FROM task_partitions WHERE partition = 0 FOR UPDATE")
            starting = asyncio.create_task(
                world.store.start(queue, epochs, limit=99, most_bytes=9999, now=world.clock.now())
            )
            await waiting_for_a_lock(world.pool)
            assert (await world.partitions.move("", limit=1000))[1] > 10
            await held.commit()
        started = await starting

        where = await world.pool.fetch("SELECT id, partition FROM task_lanes")
        assert {task.partition for task in started} <= set(range(16))
        assert {task.lane_id for task in started} == {row["id"] for row in where if row["partition"] < 16}


async def waiting_for_a_lock(pool: asyncpg.Pool) -> None:
    async with asyncio.timeout(20):
        while not await pool.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_registration_that_began_before_the_switch_keeps_its_partition_from_being_given_up(
    world: TaskWorld,
) -> None:
    await world.queue()
    await fill(world, 40, 1)
    async with world.owning() as owner, world.pool.acquire() as other:
        late = other.transaction()
        await late.start()
        await other.execute(
            "INSERT INTO task_lanes (id, partition, queue, name, ready_at) VALUES (md5('x'), 15, 'q', 'x', now())"
        )
        await world.partitions.want(2)
        mover = world.mover()
        for _ in range(3):
            await mover.step()
        assert await world.partitions.settle(2) is MoveResult.BUSY, "it waits for a second, and lets the others go on"
        await late.commit()
        assert await world.partitions.settle(2) is MoveResult.LEFT
        await change(world, owner)
        assert set(await spread(world)) == {0, 1}


@pytest.mark.parametrize("partitions", [0, 257, -1])
async def test_other_numbers_are_refused(world: TaskWorld, partitions: int) -> None:
    with pytest.raises(InvalidDefinitionError, match=r"^\$\.partitions: must be from 1 to 256"):
        await world.partitions.want(partitions)


async def test_sql_and_python_agree_about_partitions(world: TaskWorld) -> None:
    lanes = [TaskLane("q", f"l{n}").id for n in range(2000)] + ["f" * 32, "0" * 32, "80000000" + "0" * 24]
    for partitions in (1, 16, 100, 256):
        rows = await world.pool.fetch(
            "SELECT task_partition_v1(l, $2) AS p FROM unnest($1::text[]) l", lanes, partitions
        )
        assert [row["p"] for row in rows] == [partition_of(lane, partitions) for lane in lanes]


@given(st.integers(1, 256), st.integers(1, 256), st.booleans(), st.sets(st.integers(0, 255)))
def test_lanes_go_only_where_there_are_owners(partitions: int, wanted: int, settled: bool, taken: set[int]) -> None:
    step = TaskLayout(partitions, wanted, settled).step(taken)

    assert (step is LayoutStep.NOTHING) == (settled and partitions == wanted)
    assert (step is LayoutStep.SWITCH) == (partitions != wanted and all(n in taken for n in range(wanted)))
    assert (step is LayoutStep.MOVE) == (partitions == wanted and not settled)


async def test_a_silent_owner_writes_nothing_in_the_partition_that_a_lane_has_left(world: TaskWorld) -> None:
    await world.queue()
    await fill(world, 40, 2)
    silent = world.owner()
    await silent.step_ownership()
    await silent.run_once()
    await world.expire()
    async with world.owning() as owner:
        await world.partitions.want(64)
        await change(world, owner)
        await silent.wait_until_delivered()
        await silent.run_once()
        world.pass_time(1)
        await world.settle(owner)
        assert (await world.queues.get("q")).tasks == 0
    for lane in range(40):
        mine = [key for key in world.receiver.keys if key.endswith(f"-{lane:04}")]
        assert mine == sorted(mine)
        assert set(mine) == {f"0-{lane:04}", f"1-{lane:04}"}
