"""Nodes of a graph as its jobs end: what exit codes and ends of parents make of their children."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.node import NodeFact, NodeState
from tests.support.graph_world import GraphWorld

_D: dict[str, Any] = {"job_id": "{d}"}


def on(*tasks: str, ends: list[str] | None = None) -> dict[str, Any]:
    return {**_D, "depends_on": {"task": list(tasks), **({} if ends is None else {"ends": ends})}}


class Played:
    """A graph whose jobs end, and the order in which they did."""

    def __init__(self, tasks: dict[str, Any]) -> None:
        self.world = GraphWorld(Graph(tasks_from_json(tasks)))
        self.done: list[str] = []

    def submit(self, task: str, *, again: bool = False) -> None:
        self.world.submit([NodeId(task, "1")], again=again)

    def work(self, *, failing: str = "", codes: Mapping[str, int] | None = None) -> None:
        while True:
            while self.world.unreported:
                self.world.report(self.world.unreported[0])
            queued = self.world.in_state(NodeState.QUEUED)
            if not queued:
                return
            fact = NodeFact.FAILED if queued[0].task == failing else NodeFact.SUCCEEDED
            self.world.end(queued[0], fact, (codes or {}).get(queued[0].task, 0))
            self.done.append(queued[0].task)

    @property
    def states(self) -> dict[str, str]:
        return {node.task: known.state for node, known in self.world.nodes.items()}


def test_a_failure_reaches_what_waits_for_it_through_what_does_not_run() -> None:
    played = Played({"a": _D, "b": on("a"), "alert": on("b", ends=["failed"]), "well": on("a")})
    played.submit("a")
    played.work(failing="a")
    assert played.states == {"a": "FAILED", "b": "UPSTREAM_FAILED", "alert": "COMPLETED"}
    assert played.done == ["a", "alert"]


def test_a_failure_that_is_not_wanted_skips_and_success_does_too() -> None:
    played = Played({"a": _D, "alert": on("a", ends=["failed"]), "tidy": on("alert", ends=["complete", "skipped"])})
    played.submit("a")
    played.work()
    assert played.states == {"a": "COMPLETED", "alert": "UPSTREAM_SKIPPED", "tidy": "COMPLETED"}


def test_a_failure_skips_who_waits_for_another_end_than_success() -> None:
    played = Played({"a": _D, "after skips": on("a", ends=["skipped"]), "after success": on("a", ends=["complete"])})
    played.submit("a")
    played.work(failing="a")
    assert played.states == {"a": "FAILED", "after skips": "UPSTREAM_SKIPPED", "after success": "UPSTREAM_FAILED"}


def test_a_submission_upwards_does_not_run_what_has_failed_as_wanted() -> None:
    played = Played({"a": _D, "tidy": on("a", ends=["complete", "failed"])})
    played.submit("a")
    played.work(failing="a")
    played.submit("tidy", again=True)
    played.work()
    assert played.done == ["a", "tidy", "tidy"]


BRANCH = {
    "choose": {**_D, "exit_codes": {"11": ["left"], "12": ["right"], "99": "skip"}},
    "left": on("choose"),
    "right": on("choose"),
    "join": on("left", "right", ends=["complete", "skipped"]),
}


@pytest.mark.parametrize(
    ("code", "choose", "left", "right"),
    [
        (11, "COMPLETED", "COMPLETED", "SKIPPED"),
        (12, "COMPLETED", "SKIPPED", "COMPLETED"),
        (99, "SKIPPED", "UPSTREAM_SKIPPED", "UPSTREAM_SKIPPED"),
        (0, "FAILED", "UPSTREAM_FAILED", "UPSTREAM_FAILED"),
        (13, "FAILED", "UPSTREAM_FAILED", "UPSTREAM_FAILED"),
    ],
)
def test_an_exit_code_chooses_which_children_go_on(code: int, choose: str, left: str, right: str) -> None:
    """A skip or a failure is told on, because `join` reacts to it."""
    played = Played(BRANCH)
    played.submit("choose")
    played.work(codes={"choose": code})
    assert [played.states[task] for task in ("choose", "left", "right")] == [choose, left, right]


@pytest.mark.parametrize("side", ["a", "b"])
def test_either_side_of_an_alternative_is_enough(side: str) -> None:
    either = {**_D, "depends_on": {"left": {"task": ["a"]}, "right": {"task": ["b"]}}}
    played = Played({"a": _D, "b": _D, "c": either})
    played.submit("c")
    played.world.end(NodeId(side, "1"), NodeFact.SUCCEEDED)
    played.world.report(NodeId(side, "1"))
    assert played.states["c"] == "QUEUED"
    played.work()
    assert played.done.count("c") == 1
