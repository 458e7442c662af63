"""100,000 tasks wait for workers, and a neighbour queue does not wait behind them."""

from __future__ import annotations

import asyncio

import pytest

from streamsched.domain.tasks.queue import QueuePolicy, WorkerTarget
from streamsched.tasks.loop import TaskLoop
from streamsched.tasks.worker_streams import WorkerStream
from tests.integration.tasks.task_world import TaskWorld

MANY = 100_000
_FILL = """
WITH lanes AS (
    INSERT INTO task_lanes (id, partition, queue, name, ready_at)
    SELECT id, task_partition_v1(id, 16), 'big', n::text, $2
    FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT md5(n::text) AS id) AS named
)
INSERT INTO tasks (id, lane_id, queue, lane, key, state, due_at, planned_at, next_at, generation, data, content_type,
    created_at)
SELECT md5('t' || n), md5(n::text), 'big', n::text, 'k', 'WAITING', $2, $2, $2, n, '', '', $2
FROM generate_series(1, $1) n
"""


@pytest.fixture
async def filled(world: TaskWorld) -> TaskWorld:
    for name in ("big", "small"):
        await world.queue(name, QueuePolicy(target=WorkerTarget()))
    await world.pool.execute(_FILL, MANY, world.clock.now())
    await world.pool.execute("VACUUM ANALYZE tasks, task_lanes")
    world.pass_time(3600)
    return world


async def given(owner: TaskLoop, stream: WorkerStream, many: int) -> list[tuple[str, str]]:
    """What the worker gets in one step of the owner, as queue and token."""
    await owner.run_once()
    found = [await stream.next_task() for _ in range(many)]
    return [(task.queue, task.token) for task in found]


async def end(owner: TaskLoop, stream: WorkerStream, token: str) -> None:
    """The worker ends a task, and its owner hears of it."""
    stream.acknowledge(token)
    while not owner._ends:  # noqa: ASYNC110
        await asyncio.sleep(0)


async def test_a_worker_of_both_queues_does_the_neighbours_task_next(filled: TaskWorld) -> None:
    async with filled.owning(capacity=2000) as owner:
        with filled.workers.connect(["big", "small"], credit=20) as stream:
            doing = await given(owner, stream, 20)
            assert {queue for queue, _ in doing} == {"big"}
            for number in range(10):
                await filled.add(f"n{number}", queue="small")
                await end(owner, stream, doing.pop(0)[1])
                ((queue, token),) = await given(owner, stream, 1)
                assert queue == "small", "the next free place is the neighbour's"
                await end(owner, stream, token)
                doing += await given(owner, stream, 1)
                assert {queue for queue, _ in doing} == {"big"}, "in between the backlog goes on"
            assert len(owner._held) == 20


async def test_a_neighbour_with_a_worker_of_its_own_does_not_wait_while_all_others_hang(filled: TaskWorld) -> None:
    async with filled.owning(capacity=2000) as owner:
        with filled.workers.connect(["big"], credit=5000), filled.workers.connect(["small"], credit=1) as stream:
            for _ in range(10):
                await owner.run_once()
            assert len(owner._held) == 1000, "half of the places are left to others"
            for number in range(20):
                await filled.add(f"n{number}", queue="small")
                ((queue, token),) = await given(owner, stream, 1)
                assert queue == "small"
                await end(owner, stream, token)
    left = await filled.pool.fetchval("SELECT count(*) FROM tasks WHERE queue = 'big'")
    assert left == MANY, "what hung is given back"
