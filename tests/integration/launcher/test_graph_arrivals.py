"""Nodes that wait for events or the clock beside parents, on a real PostgreSQL: what arrives counts once, whenever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from streamsched import App, event, partitions
from streamsched.codec.schedules.schedule import program_to_json
from streamsched.domain.errors import InvalidError
from streamsched.domain.events.event import Event, Ticked
from streamsched.domain.graph.graph import NodeId
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.triggers.trigger import leaf_id, leaves
from streamsched.store.sql import queries
from tests.integration.launcher.inline import Staffed

from .conftest import World
from .graphs import APP, Graphs

pytestmark = pytest.mark.postgres
SALES = "partitions-sales-date"


class Arriving(Graphs):
    """An app as it is deployed, and launchers that execute arrivals."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.staffed = Staffed(world)
        self.sequence = 0
        self.app = App("app")
        self.app.bash("say", "true")

    def task(self, name: str, job_id: str = "{date}", **more: object) -> None:
        self.app.task(name, "say", job_id=job_id, components={"date": "date"}, **more)  # type: ignore[arg-type]

    async def deploy(self, *, graph: bool = True) -> None:
        definition = self.app.definition()
        await self.world.define(*definition.schedules)
        for program in definition.programs:
            text, ref = program_to_json(program), str(program.ref)
            await self.world.put_text("programs", text, ref)
        if graph:
            await self.store.put(APP, definition.tasks, now=self.world.clock.now())

    async def launch(self) -> list[str]:
        while await self.staffed.launcher.run_once() or await self.staffed.inline_executor.run_once():
            pass
        return [run.id for run in await self.world.active() if run.executable["type"] == "bash"]

    async def work(
        self, failing: Callable[[str], bool] = lambda run: False, codes: Mapping[str, int] | None = None
    ) -> None:
        """Also what arrives without a process."""
        await super().work(failing, codes)
        while await self.progression.run_once():
            await super().work(failing, codes)

    async def satisfied(self, task: str, *, key: str = "", due_at: datetime | None = None) -> str:
        """The schedule of an arrival is satisfied; the id of its job."""
        schedule = next(each for each in self.app.definition().schedules if each.ref.name == task)
        self.sequence += 1
        leaf, now = next(leaves(schedule.trigger)), self.world.clock.now()
        part = ()
        if due_at is not None:
            fact = Ticked(schedule.ref, 1, leaf_id(leaf), due_at)
            part = (Contribution(leaf_id(leaf), 1, (Event("tick", "test", now, fact),)),)
        ready = ReadyJob(schedule.ref, 1, self.sequence, now, part, key)
        await self.world.satisfy(ready)
        return ready.id


@pytest.fixture
async def graphs(world: World) -> Arriving:
    return Arriving(world)


async def test_a_node_waits_for_a_partition_beside_its_parents(graphs: Arriving) -> None:
    graphs.task("clean")
    graphs.task("report", depends_on=["clean", partitions("sales").per("date")])
    await graphs.deploy()
    plan = await graphs.desk.submit(APP, [NodeId("report", "20140101")])
    assert plan.awaited == ("partition date=20140101 of sales",)
    await graphs.work()
    assert await graphs.states() == {"clean 20140101": "COMPLETED", "report 20140101": "WAITING"}
    report = await graphs.desk.report(APP, NodeId("report", "20140101"))
    assert report.awaited == {NodeId(SALES, "20140101"): "partition date=20140101 of sales"}

    await graphs.satisfied(SALES, key="2014-01-01")
    await graphs.work()
    assert graphs.done == ["clean 20140101", "report 20140101"]
    assert not [run for run in graphs.world.runners.spawned if SALES in run], "the arrival is no process"


async def test_what_arrived_before_counts_and_counts_once(graphs: Arriving) -> None:
    graphs.task("clean")
    graphs.task("report", depends_on=["clean", partitions("sales").per("date")])
    await graphs.deploy()
    for _ in range(3):
        await graphs.satisfied(SALES, key="20140101")
    await graphs.work()
    assert await graphs.states() == {f"{SALES} 20140101": "COMPLETED", "report 20140101": "WAITING"}
    await graphs.submit("report", "20140101")
    await graphs.satisfied(SALES, key="2014-01-01")
    await graphs.work()
    assert graphs.done == ["clean 20140101", "report 20140101"]
    await graphs.submit("report", "20140101", again=True)
    await graphs.work()
    assert graphs.done[2:] == ["report 20140101"], "it has arrived for the second time too"


async def test_an_event_runs_each_child_and_either_side_is_enough(graphs: Arriving) -> None:
    graphs.app.task(
        "load",
        "say",
        job_id="{date}_{shop}",
        autofill_values={"shop": ["a", "b"]},
        depends_on={"told": {"event": {"event": "closed", "by": ["date"]}}, "asked": {"event": "forced"}},
    )
    await graphs.deploy()
    await graphs.satisfied("event-closed-date", key="monday")
    await graphs.satisfied("event-forced-date-shop", key="tuesday/a")
    await graphs.work()
    assert sorted(graphs.done) == ["load monday_a", "load monday_b", "load tuesday_a"]


async def test_a_tick_completes_the_node_of_its_time(graphs: Arriving) -> None:
    clock = {"cronExpression": "0 6 * * *", "timeZone": "Europe/Berlin", "back": "1d"}
    graphs.task("report", depends_on={"cron": clock})
    await graphs.deploy()
    (name,) = (task.name for task in graphs.app.definition().tasks if task.arrives)
    await graphs.submit("report", "20140330")
    await graphs.satisfied(name, due_at=datetime(2014, 3, 31, 4, tzinfo=UTC))
    await graphs.work()
    assert graphs.done == ["report 20140330"]


async def test_an_arrival_before_its_graph_is_stored_is_tried_again(graphs: Arriving) -> None:
    graphs.task("report", depends_on=[partitions("sales")])
    await graphs.deploy(graph=False)
    job = await graphs.satisfied(SALES, key="2014-01-01")
    await graphs.launch()
    [run, *_] = await graphs.world.stored_runs(job)
    assert "app.partitions-sales-date" in run.reason
    await graphs.deploy()
    graphs.world.clock.advance(timedelta(seconds=2))
    await graphs.work()
    assert graphs.done == ["report 20140101"]


async def test_an_arrival_does_not_wait_for_the_lock_of_the_graph(graphs: Arriving) -> None:
    graphs.task("report", depends_on=[partitions("sales")])
    await graphs.deploy()
    await graphs.satisfied(SALES, key="2014-01-01")
    async with asyncio.timeout(60), graphs.world.pool.acquire() as other, other.transaction():
        await other.execute(queries("graph/nodes")["lock"], str(APP))
        await graphs.launch()
        assert await graphs.states() == {f"{SALES} 20140101": "COMPLETED"}
    await graphs.work()
    assert graphs.done == ["report 20140101"]


async def test_what_names_no_job_id_fails_its_run_alone(graphs: Arriving) -> None:
    graphs.task("report", depends_on=[partitions("sales")])
    await graphs.deploy()
    await graphs.satisfied(SALES, key="someday")
    await graphs.satisfied(SALES, key="2014-01-01")
    await graphs.work()
    assert graphs.done == ["report 20140101"]
    reasons = [run.reason for run in await graphs.world.stored_runs() if run.state == RunState.FAILED]
    assert "must be a day" in reasons[0]


async def test_an_arrival_is_not_submitted_and_a_crash_between_two_steps_repeats_nothing(graphs: Arriving) -> None:
    graphs.task("clean")
    graphs.task("report", depends_on=["clean", event("go").per("date")])
    await graphs.deploy()
    with pytest.raises(InvalidError, match="event go date=20140101 completes the node"):
        await graphs.submit("event-go-date", "20140101")
    await graphs.submit("report", "20140101")
    await graphs.satisfied("event-go-date", key="20140101")
    await graphs.staffed.launcher.run_once()
    held = dict(graphs.staffed.inline_executor._held)
    await graphs.staffed.inline_executor.run_once()
    graphs.staffed.inline_executor.execute(list(held.values()))  # as after a death before the end was known
    await graphs.staffed.inline_executor.run_once()
    await graphs.work()
    assert graphs.done == ["clean 20140101", "report 20140101"]
