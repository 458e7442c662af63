"""Owners, registrations, crashes, changes of partitions and time against a naive model of lanes: a state machine on
PostgreSQL.

The model keeps a list of tasks for each lane and says after every step what may be delivered next.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamsched.domain.tasks.attempt import StartedTask
from streamsched.domain.tasks.task_retry import BackoffRetry
from streamsched.store.connections import open_pool
from streamsched.tasks.loop import TaskLoop
from streamsched.testing.examples import examples
from tests.integration.tasks.task_world import HTTP, TaskWorld

RETRY = BackoffRetry(retries=2, delay=timedelta(seconds=10), longest=timedelta(seconds=10), jitter=0)
POLICY = replace(HTTP, retry=RETRY, dedupe=timedelta(days=1))
_CLEAR = (
    "TRUNCATE task_queues, task_lanes, tasks, tasks_history, task_owners, leases, task_partitions; "
    "INSERT INTO task_partitions (partition, epoch) SELECT n, 0 FROM generate_series(0, 15) n; "
    "UPDATE task_layout SET partitions = 16, wanted = 16, settled = true"
)


@dataclass
class _Task:
    """A task of the model. `data` grows with each registration, so a delivery can be matched with it."""

    key: str
    due: float
    data: int
    failures: int = 0
    started: bool = False
    next: float = 0.0


@dataclass
class _Model:
    """Lanes as lists; `ended`: when a task of this lane and key ended."""

    now: float = 0.0
    lanes: dict[str, list[_Task]] = field(default_factory=dict)
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    registrations: int = 0

    def add(self, lane: str, key: str, after: float) -> None:
        self.registrations += 1
        tasks = self.lanes.setdefault(lane, [])
        known = next((task for task in tasks if task.key == key), None)
        if (known is not None and known.started) or (known is None and (lane, key) in self.ended):
            return
        if known is not None:
            tasks.remove(known)
        due = self.now + after
        tasks.append(_Task(key, due, self.registrations, next=due))

    def head(self, lane: str) -> _Task | None:
        return min(self.lanes.get(lane, ()), key=lambda task: (not task.started, task.due, task.key), default=None)

    def delivered(self, lane: str, key: str, data: int, *, good: bool) -> None:
        head = self.head(lane)
        assert head is not None, f"{lane} has no task, and {key} was delivered"
        assert (head.key, head.data) == (key, data), "not the head of its lane"
        assert head.next <= self.now, "early"
        head.failures += not good
        head.started = True
        if good or head.failures > RETRY.retries:
            self.lanes[lane].remove(head)
            self.ended[lane, key] = self.now
        else:
            head.next = self.now + 10

    def interrupted(self) -> None:
        """What is due was started when its owner ended: it keeps its place, and is not replaced."""
        for lane in self.due():
            head = self.head(lane)
            assert head is not None
            head.started = True

    def due(self) -> list[str]:
        heads = {lane: self.head(lane) for lane in self.lanes}
        return sorted(lane for lane, head in heads.items() if head is not None and head.next <= self.now)


LANES, KEYS = st.sampled_from(["l1", "l2", "l3"]), st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), LANES, KEYS, st.sampled_from([-5, 0, 0, 5, 20])),
        st.tuples(st.just("deliver"), st.integers(0, 7)),
        st.tuples(st.just("crash"), st.booleans()),
        st.tuples(st.just("pass"), st.sampled_from([1, 10, 30])),
        st.tuples(st.just("reshard"), st.sampled_from([1, 2, 5, 16, 40])),
        st.tuples(st.just("move"), st.integers(1, 4)),
    ),
    max_size=40,
)


class _Run:
    """The steps on the real thing and on the model."""

    def __init__(self, world: TaskWorld) -> None:
        self.world = world
        self.model = _Model()
        self.failing = 0
        self.owner: TaskLoop | None = None

    async def begin(self) -> None:
        await self.world.pool.execute(_CLEAR)
        await self.world.queue(policy=POLICY)
        await self.take_over()

    async def take_over(self) -> None:
        await self.world.expire()
        self.owner = self.world.owner()
        await self.owner.step_ownership()

    async def step(self, step: tuple[Any, ...]) -> None:
        assert self.owner is not None
        match step:
            case ("add", lane, key, after):
                self.model.add(lane, key, after)
                await self.world.add(key, lane, after=after, data=str(self.model.registrations).encode())
            case ("deliver", failing):
                await self.deliver(failing)
            case ("crash", in_flight):
                await self.crash(in_flight=in_flight)
            case ("pass", seconds):
                self.model.now += seconds
                self.world.pass_time(seconds)
            case ("reshard", partitions):
                await self.world.partitions.want(partitions)
            case ("move", steps):
                mover = self.world.mover()
                for _ in range(steps):
                    await self.owner.step_ownership()
                    await mover.step()

    async def deliver(self, failing: int) -> None:
        """One task of each due lane; those of the lanes whose bit is set fail."""
        assert self.owner is not None
        expected, receiver = self.model.due(), self.world.receiver
        receiver.received.clear()

        def bad(task: StartedTask) -> bool:
            return bool(failing >> (int(task.lane[1]) - 1) & 1)

        receiver.answer = lambda task: "HTTP 500" if bad(task) else None
        await self.owner.run_once()
        await self.owner.wait_until_delivered()
        found, lanes = list(receiver.received), [task.lane for task in receiver.received]
        assert sorted(lanes) == expected, "one of each lane that is due, and of no other"
        for task in found:
            self.model.delivered(task.lane, task.key, int(task.data), good=not bad(task))
        await self.store_ends()

    async def store_ends(self) -> None:
        assert self.owner is not None
        await self.owner._ends.store_all()

    async def crash(self, *, in_flight: bool) -> None:
        """The owner ends, perhaps with deliveries on their way: those are delivered again, by the next one."""
        assert self.owner is not None
        if in_flight:
            self.model.interrupted()
            self.world.receiver.held = asyncio.Event()
            await self.owner.run_once()
            for partition in range(256):
                self.owner.forget(partition)
            await asyncio.sleep(0)
            self.world.receiver.held = None
        await self.take_over()

    async def finish(self) -> None:
        """In the end everything that was registered was delivered."""
        for _ in range(60):
            self.model.now += 30
            self.world.pass_time(30)
            await self.deliver(0)
        assert not any(self.model.lanes.values()), "lost"
        assert await self.world.size("tasks") == 0


@pytest.fixture
def many_examples(database: str) -> str:
    return database


@given(steps=STEPS)
@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_lanes_do_what_the_naive_model_says(many_examples: str, steps: list[tuple[Any, ...]]) -> None:
    async def run() -> None:
        pool = await open_pool(many_examples, max_size=2)
        try:
            trial = _Run(TaskWorld(pool))
            await trial.begin()
            for step in steps:
                await trial.step(step)
            await trial.finish()
        finally:
            await pool.close()

    asyncio.run(run())
