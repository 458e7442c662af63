"""Functions of users in graphs: pairs, those of `valid_if_or`, and what fails."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.errors import InvalidDefinitionError, InvalidError
from streamsched.domain.graph.graph import NodeId
from streamsched.domain.graph.node import NodeState, parent_outcome
from streamsched.domain.graph.progress import count_parents
from streamsched.domain.jobs.run import RunState

from .conftest import World
from .graphs import APP, Days, Graphs, Pairs, task

pytestmark = pytest.mark.postgres


@pytest.fixture
async def graphs(world: World) -> Graphs:
    return Graphs(world)


BY_FUNCTION = {"day": task("{d}"), "week": {"job_id": "{w}", "depends_on": {"task": ["day"], "function": "days"}}}


async def test_job_ids_that_a_pair_of_functions_relates(graphs: Graphs) -> None:
    await graphs.put(BY_FUNCTION)
    assert await graphs.submit("week", "w2") == 7
    await graphs.submit("day", "1")
    await graphs.work()
    assert sorted(graphs.done[:8]) == sorted(["day 1", *(f"day {n}" for n in range(8, 15))])
    assert graphs.done[8:] == ["week w2"]
    assert (await graphs.states())["week w1"] == "WAITING"


async def test_what_a_function_fails_on_holds_up_no_other_node(graphs: Graphs, monkeypatch: Any) -> None:
    await graphs.put({**BY_FUNCTION, "other": task("{d}", "day")})
    await graphs.submit("week", "w1")
    monkeypatch.setattr(Days, "broken", {"3"})
    await graphs.submit("day", "8")
    await graphs.work()
    assert {f"day {n}" for n in range(1, 9)} | {"other 8"} <= set(graphs.done)
    assert "week w1" not in graphs.done
    report = await graphs.desk.report(APP, NodeId("day", "3"))
    assert report.view is not None
    assert "children of '3' failed: ValueError: not today" in report.view.reason
    monkeypatch.setattr(Days, "broken", set())
    await graphs.work()
    assert "week w1" not in graphs.done, "it is tried again after a minute"
    graphs.world.clock.advance(timedelta(minutes=2))
    await graphs.work()
    assert graphs.done.count("week w1") == 1
    report = await graphs.desk.report(APP, NodeId("day", "3"))
    assert report.view is not None
    assert not report.view.reason


IN_PAIRS = {
    "n": task("{d}"),
    "pair": {"job_id": "{p}", "depends_on": {"task": ["n"], "function": "pairs"}},
    "other": task("{d}", "n"),
}


async def test_a_child_on_which_a_function_fails_holds_up_none_of_its_siblings(
    graphs: Graphs, monkeypatch: Any
) -> None:
    monkeypatch.setattr(Pairs, "broken", {"r3"})
    await graphs.put(IN_PAIRS)
    await graphs.submit("n", "3")
    await graphs.work()
    assert await graphs.states() == {"n 3": "COMPLETED", "other 3": "COMPLETED", "pair r4": "WAITING"}
    await graphs.submit("n", "4")
    await graphs.work()
    assert graphs.done == ["n 3", "other 3", "n 4", "other 4", "pair r4"]
    report = await graphs.desk.report(APP, NodeId("n", "3"))
    assert report.view is not None
    assert "of 'r3' failed: ValueError: no such pair today" in report.view.reason
    await graphs.submit("n", "2")
    await graphs.work()
    assert "pair r3" not in await graphs.states()
    monkeypatch.setattr(Pairs, "broken", set())
    graphs.world.clock.advance(timedelta(minutes=2))
    await graphs.work()
    assert graphs.done[-1] == "pair r3"
    assert len(graphs.done) == len(set(graphs.done)), "each once"
    report = await graphs.desk.report(APP, NodeId("n", "3"))
    assert (report.view is not None, report.view and report.view.reason) == (True, "")


async def test_counts_are_exact_when_a_parent_runs_again_while_it_is_stuck(graphs: Graphs, monkeypatch: Any) -> None:
    await graphs.put(IN_PAIRS)
    await graphs.submit("pair", "r3")
    await graphs.progress()
    monkeypatch.setattr(Pairs, "broken", {"r4"})
    await graphs.work()
    assert sorted(graphs.done) == ["n 2", "n 3", "other 2", "other 3", "pair r3"]
    await graphs.submit("n", "3", again=True)
    await graphs.progress()
    assert (await graphs.states())["n 3"] == "QUEUED"
    await graphs.work(failing=lambda run: ".n." in run)
    assert (await graphs.states())["pair r3"] == "UPSTREAM_FAILED"
    monkeypatch.setattr(Pairs, "broken", set())
    graphs.world.clock.advance(timedelta(minutes=2))
    await graphs.work()
    await graphs.submit("n", "3", "4", again=True)
    await graphs.work()
    assert graphs.done.count("pair r3") == 2
    assert graphs.done.count("pair r4") == 1
    assert {node.job_id: node.groups[1] for node in await graphs.world.nodes("pair")} == {
        "r2": 1,
        "r3": 0,
        "r4": 0,
        "r5": 1,
    }
    assert [node for node in await graphs.world.nodes() if node.stuck or node.unreported] == []


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_failed_in_between_all_counts_are_those_from_scratch(
    graphs: Graphs, monkeypatch: Any, seed: int
) -> None:
    """6 seeds of 25 steps: submissions, runs again, failing runs, and functions that break and are mended."""
    draw = random.Random(seed)
    await graphs.put({**IN_PAIRS, "last": task("{p}", "pair")})
    for _ in range(25):
        match draw.randrange(5):
            case 0:
                monkeypatch.setattr(Pairs, "broken", {f"r{n}" for n in range(1, 8) if draw.random() < 0.4})
            case 1:
                await graphs.submit("n", str(draw.randrange(1, 7)), again=draw.random() < 0.5)
            case 2:
                graphs.world.clock.advance(timedelta(seconds=draw.choice([5, 61])))
            case 3:
                for run in await graphs.launch():
                    if draw.random() < 0.6:
                        await graphs.end(run, draw.choice([RunState.COMPLETED, RunState.COMPLETED, RunState.FAILED]))
            case _:
                await graphs.progression.run_once()
    monkeypatch.setattr(Pairs, "broken", set())
    for _ in range(3):
        graphs.world.clock.advance(timedelta(minutes=2))
        await graphs.work()

    stored, graph = await graphs.desk.graph(APP)
    rows = await graphs.world.nodes()
    states = {NodeId(row.task, row.job_id): row.state for row in rows}
    reported = {node: parent_outcome(state) for node, state in states.items()}
    for row in rows:
        node = NodeId(row.task, row.job_id)
        expected = count_parents(node, graph.parents(node), reported, stored.reactions)
        flat = [number for group, count in expected.items() for number in (group, *count)]
        assert (row.groups, row.stuck, row.unreported) == (flat, [], False), node
    for node, state in states.items():
        if state is NodeState.COMPLETED:
            assert all(child in states for child, _ in graph.children(node)), node


async def test_a_function_says_which_job_ids_have_work_to_do(graphs: Graphs) -> None:
    await graphs.put({"a": task("{d}"), "b": task("{d}", "a", valid_if_or={"_func": "odd"})})
    await graphs.submit("a", "1", "2")
    await graphs.work()
    assert (await graphs.states())["b 1"] == "COMPLETED"
    assert (await graphs.states())["b 2"] == "SKIPPED"


async def test_a_validator_gives_each_job_id_one_spelling_and_refuses_others(graphs: Graphs) -> None:
    checked = {"validations": "shop"}
    await graphs.put({"a": task("{d}", **checked), "b": task("{d}", "a", **checked)})
    assert await graphs.submit("b", "007", "7", " 7") == 1
    assert await graphs.submit("b", "+7") == 0, "it is under way"
    assert await graphs.states() == {"a 7": "QUEUED", "b 7": "WAITING"}
    report = await graphs.desk.report(APP, NodeId("b", "07"))
    assert (report.node, report.view is not None) == (NodeId("b", "7"), True)
    await graphs.work()
    assert graphs.done == ["a 7", "b 7"]
    assert set(await graphs.desk.descendants(APP, [NodeId("a", "07")])) == {NodeId("b", "7")}
    found, states = await graphs.desk.ancestry(APP, NodeId("b", "07"), most=10)
    assert (len(found.nodes), set(states.values())) == (2, {"COMPLETED"})
    with pytest.raises(InvalidError, match="the validator of 'd' refuses 'seven': ValueError") as refused:
        await graphs.submit("a", "seven")
    assert refused.value.path == "$.job_ids"


@pytest.mark.parametrize(
    ("tasks", "path", "reason"),
    [
        (
            {**BY_FUNCTION, "week": {"job_id": "{w}", "depends_on": {"task": ["day"], "function": "weeks"}}},
            "$.tasks.week.depends_on.function",
            "no 'weeks' of group streamsched.graph_functions is installed here (known: days, pairs)",
        ),
        (
            {"a": task("{d}", valid_if_or={"_func": "even"})},
            "$.tasks.a.valid_if_or._func",
            "no 'even' of group streamsched.graph_validities is installed here (known: odd)",
        ),
        (
            {"a": task("{d}", validations="rack")},
            "$.tasks.a.validations",
            "no 'rack' of group streamsched.job_id_validations is installed here (known: shop)",
        ),
    ],
)
async def test_a_function_that_is_not_installed_is_refused(
    graphs: Graphs, tasks: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(InvalidDefinitionError) as refused:
        await graphs.desk.check(tasks_from_json(tasks))
    assert (refused.value.path, refused.value.reason) == (path, reason)
