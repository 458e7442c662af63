"""Graphs on a real PostgreSQL: nodes down, up, failed, skipped and again; their jobs run as all others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.dialects.stolos.codec.tasks import stolos_from_json
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.graph.graph import NodeId
from streamsched.domain.jobs.job import JobState
from streamsched.graph.retention import NodeRetention
from streamsched.launcher.retention import ArchiveLoop
from streamsched.store.jobs.archive import Archive
from tests.unit.codec.test_stolos_tasks import TASKS as SEED

from .conftest import World
from .graphs import APP, CHAIN, Graphs, task

pytestmark = pytest.mark.postgres


@pytest.fixture
async def graphs(world: World) -> Graphs:
    return Graphs(world)


async def test_work_bubbles_down_and_each_node_runs_once(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("a", "1", "2")
    await graphs.submit("a", "1")
    await graphs.work()
    assert graphs.done == ["a 1", "a 2", "b 1", "b 2", "c 1", "c 2"]
    assert set((await graphs.states()).values()) == {"COMPLETED"}


async def test_a_diamond_runs_in_the_order_of_its_edges(graphs: Graphs) -> None:
    """As in the scenarios of Stolos' README: b and c need a, d needs c, and e needs d and b."""
    diamond = {"a": task("{n}"), "b": task("{n}", "a"), "c": task("{n}", "a"), "d": task("{n}", "c")}
    await graphs.put({**diamond, "e": task("{n}", "d", "b")})
    await graphs.submit("a", "1")

    async def queued_after(name: str) -> list[str]:
        (run,) = [each for each in await graphs.launch() if each.split(".")[2] == name]
        await graphs.end(run)
        await graphs.progress()
        return [node for node, state in (await graphs.states()).items() if state == "QUEUED"]

    assert await queued_after("a") == ["b 1", "c 1"]
    assert await queued_after("c") == ["b 1", "d 1"], "whether b has run or not"
    assert await queued_after("d") == ["b 1"]
    assert await queued_after("b") == ["e 1"]


async def test_one_leaf_starts_its_nearest_incomplete_ancestors(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    assert await graphs.submit("c", "1") == 1
    assert await graphs.submit("c", "1") == 0, "what is queued is joined"
    assert await graphs.states() == {"a 1": "QUEUED", "b 1": "WAITING", "c 1": "WAITING"}
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1"]
    assert await graphs.submit("c", "1") == 0, "what is completed does not run again"
    assert await graphs.submit("b", "1", again=True) == 1
    await graphs.progress()
    assert await graphs.states() == {"a 1": "COMPLETED", "b 1": "QUEUED", "c 1": "WAITING"}
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1", "b 1", "c 1"]


async def test_the_graph_of_the_stolos_documentation(graphs: Graphs) -> None:
    await graphs.put(tuple(each.task for each in stolos_from_json(SEED).tasks))
    await graphs.submit("modelBuild", "c1_purchaseRevenue", "c1_numberOfPageviews")
    await graphs.work()
    assert sorted(graphs.done) == [
        "modelBuild c1_numberOfPageviews",
        "modelBuild c1_purchaseQuantity",
        "modelBuild c1_purchaseRevenue",
        "otherPreprocess 20120101_c1",
        "otherPreprocess 20130101_c1",
        "preprocess 20140401_c1",
        "preprocess 20140501_c1",
        "preprocess 20140601_c1",
        "preprocess 20140615_c1",
    ]
    after = graphs.done.index("modelBuild c1_purchaseRevenue")
    assert {each for each in graphs.done[:after] if each.startswith("otherPreprocess")}


async def test_one_side_of_an_alternative_is_enough(graphs: Graphs) -> None:
    either = {"job_id": "{d}", "depends_on": {"left": {"task": ["a"]}, "right": {"task": ["b"]}}}
    await graphs.put({"a": task("{d}"), "b": task("{d}"), "c": either})
    await graphs.submit("c", "1")
    for run in await graphs.launch():
        if ".b." in run:
            await graphs.end(run)
    await graphs.progress()
    assert (await graphs.states())["c 1"] == "QUEUED"
    await graphs.work()
    assert graphs.done.count("c 1") == 1


async def test_failed_and_skipped_parents_are_seen_in_their_children(graphs: Graphs) -> None:
    skipping = task("{d}", valid_if_or={"d": ["1"]})
    await graphs.put({**CHAIN, "s": skipping, "t": task("{d}", "s"), "u": task("{d}", "t", "c")})
    await graphs.submit("c", "1")
    await graphs.submit("u", "2")
    await graphs.work(failing=lambda run: ".a." in run)
    assert await graphs.states() == {
        "a 1": "FAILED",
        "a 2": "FAILED",
        "b 1": "UPSTREAM_FAILED",
        "b 2": "UPSTREAM_FAILED",
        "c 1": "UPSTREAM_FAILED",
        "c 2": "UPSTREAM_FAILED",
        "s 2": "SKIPPED",
        "t 2": "UPSTREAM_SKIPPED",
        "u 2": "UPSTREAM_FAILED",
    }
    await graphs.submit("c", "1")
    await graphs.work()
    assert graphs.done == ["a 1", "a 2"], "what has failed runs again only when asked to"
    await graphs.submit("c", "1", again=True)
    await graphs.work()
    assert graphs.done == ["a 1", "a 2", "a 1", "b 1", "c 1"]


async def test_a_job_that_never_started_fails_its_node_or_is_made_again(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("b", "1")
    await graphs.world.end_jobs(JobState.OBSOLETE, graphs.world.clock.now(), "default.app.a.node-1-1")
    await graphs.put(CHAIN, generation=2)
    await graphs.progress()
    [node] = await graphs.world.nodes("a")
    assert (node.state, node.job, node.round) == ("QUEUED", "default.app.a.node-1-2", 2)
    await graphs.world.end_jobs(JobState.ABORTED, graphs.world.clock.now(), node.job)
    await graphs.progress()
    assert await graphs.states() == {"a 1": "FAILED", "b 1": "UPSTREAM_FAILED"}


async def test_nodes_of_a_disabled_schedule_wait_until_it_is_enabled(graphs: Graphs) -> None:
    await graphs.put(CHAIN, enabled=False)
    assert await graphs.submit("b", "1") == 0
    await graphs.work()
    assert await graphs.states() == {"a 1": "WAITING", "b 1": "WAITING"}
    report = await graphs.desk.report(APP, NodeId("a", "1"))
    assert report.view is not None
    assert report.view.reason == "schedule default.app.a is paused or disabled"
    await graphs.world.enable("default.app.a")
    await graphs.work()
    assert graphs.done == ["a 1"]
    assert await graphs.states() == {"a 1": "COMPLETED", "b 1": "WAITING"}
    await graphs.world.enable()
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1"]


async def test_a_node_that_runs_again_while_its_schedule_is_paused_waits_for_it(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("b", "1")
    await graphs.work()
    await graphs.world.disable("default.app.a")
    await graphs.submit("a", "1", again=True)
    await graphs.work()
    assert await graphs.states() == {"a 1": "WAITING", "b 1": "WAITING", "c 1": "WAITING"}
    await graphs.world.enable()
    await graphs.work()
    assert graphs.done[3:] == ["a 1", "b 1", "c 1"]


async def test_a_blocked_node_that_runs_again_waits_at_once(graphs: Graphs) -> None:
    await graphs.put({**CHAIN, "d": task("{d}", "c")})
    await graphs.submit("c", "1")
    await graphs.submit("d", "1")
    await graphs.work(failing=lambda run: ".a." in run)
    assert (await graphs.states())["c 1"] == "UPSTREAM_FAILED"
    assert await graphs.submit("c", "1", again=True) == 1
    assert await graphs.states() == {"a 1": "QUEUED", "b 1": "WAITING", "c 1": "WAITING", "d 1": "WAITING"}
    await graphs.work()
    assert graphs.done == ["a 1", "a 1", "b 1", "c 1", "d 1"]


async def test_a_node_whose_schedule_is_deleted_fails_with_the_reason(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.world.delete_schedule("default.app.a")
    await graphs.submit("b", "1")
    await graphs.progress()
    assert await graphs.states() == {"a 1": "FAILED", "b 1": "UPSTREAM_FAILED"}
    report = await graphs.desk.report(APP, NodeId("a", "1"))
    assert report.view is not None
    assert report.view.reason == "schedule default.app.a is deleted"


async def test_a_job_that_is_obsolete_because_its_schedule_was_disabled_is_made_again_later(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("a", "1")
    await graphs.world.disable()
    await graphs.world.end_jobs(JobState.OBSOLETE, graphs.world.clock.now(), reason="disabled")
    await graphs.progress()
    assert await graphs.states() == {"a 1": "WAITING"}
    await graphs.world.enable()
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1"]


async def test_a_submission_before_nodes_are_counted_anew_does_not_prevent_that(graphs: Graphs) -> None:
    await graphs.put({**CHAIN, "d": task("{d}", "a")})
    await graphs.submit("d", "1")
    await graphs.work(failing=lambda run: ".d." in run)
    await graphs.put({**CHAIN, "d": task("{d}", "b")})
    assert await graphs.submit("d", "1", again=True) == 1, "its counts are still those of the former definition"
    await graphs.progress()
    assert {node.generation for node in await graphs.world.nodes()} == {2}


async def test_a_changed_definition_counts_waiting_nodes_anew(graphs: Graphs) -> None:
    await graphs.put({**CHAIN, "d": task("{d}", "a", "c")})
    await graphs.submit("d", "1")
    for run in await graphs.launch():
        await graphs.end(run)
    await graphs.put({**CHAIN, "d": task("{d}", "a")})
    await graphs.progress()
    assert (await graphs.states())["d 1"] == "QUEUED"


async def test_a_loop_that_has_a_former_graph_in_memory_reads_the_changed_one(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("a", "1")
    await graphs.work()
    await graphs.put({**CHAIN, "d": task("{d}", "a")})
    await graphs.progress()
    await graphs.submit("a", "2")
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1", "a 2", "b 2", "d 2", "c 2"]


async def test_waiting_nodes_are_cancelled_and_queued_ones_named(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("c", "1")
    jobs = await graphs.desk.cancel(APP, [NodeId("b", "1"), NodeId("a", "1"), NodeId("a", "nothing")], "no need")
    assert jobs == ["default.app.a.node-1-1"]
    await graphs.progress()
    assert await graphs.states() == {"a 1": "QUEUED", "b 1": "FAILED", "c 1": "UPSTREAM_FAILED"}


async def test_a_parent_that_runs_again_meanwhile_makes_a_queued_child_wait_again(graphs: Graphs) -> None:
    await graphs.put({"a": task("{d}"), "b": task("{d}", "a")})
    await graphs.submit("a", "1")
    await graphs.end((await graphs.launch())[0])
    await graphs.progress()
    (run,) = await graphs.launch()
    await graphs.submit("a", "1", again=True)
    await graphs.progress()
    await graphs.end(run)
    await graphs.progress()
    assert await graphs.states() == {"a 1": "QUEUED", "b 1": "WAITING"}
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "a 1", "b 1"]


async def test_descendants_run_again_also_when_the_parent_completes_before_they_counted_that(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("a", "1")
    await graphs.work()
    await graphs.submit("a", "1", again=True)
    for run in await graphs.launch():
        await graphs.end(run)
    await graphs.work()
    assert graphs.done == ["a 1", "b 1", "c 1"] * 2


async def test_old_nodes_leave_by_day_unless_a_child_waits_for_them(graphs: Graphs) -> None:
    wide = {"e": task("{d}", "a", "b")}
    await graphs.put({"a": task("{d}"), "b": task("{d}"), "c": task("{d}", "b"), **wide})
    await graphs.submit("c", "1")
    await graphs.submit("a", "2")
    await graphs.work()
    assert set(await graphs.states()) == {"a 2", "b 1", "c 1", "e 1", "e 2"}
    retention = NodeRetention(graphs.store, graphs.world.clock, keep=timedelta(days=30))
    graphs.world.clock.advance(timedelta(days=30))
    assert await retention.run_once() == 0, "the day has not ended"
    graphs.world.clock.advance(timedelta(days=1))
    assert await retention.run_once() == 1
    assert await graphs.states() == {
        "a 2": "COMPLETED",
        "b 1": "COMPLETED",
        "e 1": "WAITING",
        "e 2": "WAITING",
    }
    assert await graphs.submit("e", "2") == 1
    await graphs.work()
    assert sorted(graphs.done[-3:]) == ["b 2", "c 2", "e 2"], "a 2 is still there, and does not run again"


async def test_a_job_whose_end_no_node_has_counted_does_not_leave_for_the_history(graphs: Graphs) -> None:
    await graphs.put(CHAIN)
    await graphs.submit("a", "1")
    await graphs.end((await graphs.launch())[0])
    graphs.world.clock.advance(timedelta(days=2))
    archive = ArchiveLoop(Archive(graphs.world.pool), Retention(), graphs.world.clock)
    assert await archive.run_once() == 0
    await graphs.progress()
    assert await archive.run_once() == 1
    assert (await graphs.states())["a 1"] == "COMPLETED"
