"""Ends of parents, exit codes and arguments from times, on a real PostgreSQL."""

from __future__ import annotations

from typing import Any

import pytest

from streamsched.domain.graph.graph import NodeId

from .conftest import World
from .graphs import APP, Graphs, task

pytestmark = pytest.mark.postgres


@pytest.fixture
async def graphs(world: World) -> Graphs:
    return Graphs(world)


def on(*tasks: str, ends: list[str] | None = None) -> dict[str, Any]:
    return {"job_id": "{d}", "depends_on": {"task": list(tasks), **({} if ends is None else {"ends": ends})}}


async def test_a_failure_reaches_what_waits_for_it_through_what_does_not_run(graphs: Graphs) -> None:
    await graphs.put({"a": task("{d}"), "b": on("a"), "alert": on("b", ends=["failed"]), "well": on("a")})
    await graphs.submit("a", "1")
    await graphs.work(failing=lambda run: ".a." in run)

    assert await graphs.states() == {"a 1": "FAILED", "b 1": "UPSTREAM_FAILED", "alert 1": "COMPLETED"}
    assert graphs.done == ["a 1", "alert 1"]


async def test_a_submission_upwards_does_not_run_what_has_failed_as_wanted(graphs: Graphs) -> None:
    await graphs.put({"a": task("{d}"), "tidy": on("a", ends=["complete", "failed"])})
    await graphs.submit("a", "1")
    await graphs.work(failing=lambda run: ".a." in run)
    await graphs.submit("tidy", "1", again=True)
    await graphs.work()

    assert graphs.done == ["a 1", "tidy 1", "tidy 1"]
    report = await graphs.desk.report(APP, NodeId("tidy", "1"))
    assert report.lacks == {0: []}


BRANCH = {
    "choose": task("{d}", exit_codes={"11": ["left"], "12": ["right"], "99": "skip"}),
    "left": on("choose"),
    "right": on("choose"),
    "join": on("left", "right", ends=["complete", "skipped"]),
}


async def test_an_exit_code_skips_its_node(graphs: Graphs) -> None:
    await graphs.put(BRANCH)
    await graphs.submit("choose", "1")
    await graphs.work(codes={"choose": 99})

    states = await graphs.states()
    assert (states["choose 1"], states["left 1"]) == ("SKIPPED", "UPSTREAM_SKIPPED")


async def test_a_branch_that_runs_again_chooses_again(graphs: Graphs) -> None:
    await graphs.put(BRANCH)
    await graphs.submit("choose", "1")
    await graphs.work(codes={"choose": 11})
    await graphs.submit("choose", "1", again=True)
    await graphs.work(codes={"choose": 12})

    states = await graphs.states()
    assert (states["left 1"], states["right 1"], states["join 1"]) == ("SKIPPED", "COMPLETED", "COMPLETED")


async def test_arguments_are_made_from_the_time_of_the_job_id(graphs: Graphs) -> None:
    arguments = {
        "day": {"of": "due", "format": "%Y-%m-%d"},
        "before": {"of": "due", "format": "%d.%m. %H:%M", "previous": {"cronExpression": "0 6 * * 1-5"}},
    }
    await graphs.put({"a": task("{due}", components={"due": "time"}, arguments=arguments)})
    await graphs.submit("a", "20240304T060000")
    [run] = await graphs.launch()
    made = (await graphs.world.run(run)).arguments

    assert (made["day"], made["before"]) == ("2024-03-04", "01.03. 06:00")
