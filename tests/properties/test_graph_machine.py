"""Nodes of small graphs under submissions, ends, re-adds and delayed reports, against a model that recomputes all."""

from __future__ import annotations

from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.node import NodeFact, NodeState, ParentOutcome
from streamsched.domain.graph.task import FunctionPair, TaskTemplate
from streamsched.testing.examples import examples
from tests.support.graph_model import job_ids
from tests.support.graph_world import GraphWorld, counted_end, expected

_UNENDED = (NodeState.WAITING, NodeState.UPSTREAM_FAILED, NodeState.UPSTREAM_SKIPPED)


def _on(*tasks: str, **values: list[str] | str) -> dict[str, Any]:
    return {"task": list(tasks), **values}


_N = {"job_id": "{n}"}
#: A chain, alternatives, alternatives of several parents, a fan, and a diamond with a task that may be skipped.
GRAPHS: list[dict[str, Any]] = [
    {"a": _N, "b": {**_N, "depends_on": _on("a")}, "c": {**_N, "depends_on": _on("b")}},
    {"a": _N, "b": _N, "c": {**_N, "depends_on": {"l": _on("a"), "r": _on("b")}}, "d": {**_N, "depends_on": _on("c")}},
    {
        "a": _N,
        "b": _N,
        "c": {**_N, "depends_on": _on("a")},
        "d": {**_N, "depends_on": {"l": [_on("a"), _on("b")], "r": [_on("b"), _on("c")]}},
    },
    {
        "a": {"job_id": "{n}_{m}", "autofill_values": {"m": ["1", "2"]}},
        "b": {**_N, "depends_on": _on("a", m="all")},
        "c": {"job_id": "{n}_{m}", "autofill_values": {"m": ["1", "2"]}, "depends_on": _on("b")},
    },
    {
        "a": _N,
        "b": {**_N, "depends_on": _on("a"), "valid_if_or": {"n": ["1"]}},
        "c": {**_N, "depends_on": _on("a")},
        "d": {**_N, "depends_on": {"l": _on("b"), "r": _on("c")}},
        "e": {**_N, "depends_on": _on("b", "c")},
    },
    {
        "e": {"job_id": "{n}", "arrives": "event {key}"},
        "f": {"job_id": "{n}_{m}", "arrives": "partition {key}"},
        "a": _N,
        "b": {**_N, "depends_on": _on("a", "e")},
        "c": {**_N, "depends_on": {"l": _on("f", m=["1", "2"]), "r": _on("b")}},
        "d": {**_N, "depends_on": _on("e")},
        "g": {**_N, "depends_on": _on("d", "c")},
    },
    {
        "e": {"job_id": "{n}", "arrives": "event {key}"},
        "a": _N,
        "b": {**_N, "depends_on": {"task": ["a", "e"], "function": "next"}},
        "c": {**_N, "depends_on": _on("b")},
    },
    {
        "a": _N,
        "b": {**_N, "depends_on": _on("a")},
        "c": {**_N, "depends_on": _on("a", "b", ends=["complete", "failed", "skipped"])},
        "d": {**_N, "depends_on": {"l": _on("b", ends=["failed"]), "r": [_on("c"), _on("a", ends=["skipped"])]}},
        "e": {**_N, "depends_on": _on("c", "d", ends=["complete", "skipped"])},
    },
]


class Next:
    """A job id needs that of the number before it and its own; 1 needs 1 alone."""

    @staticmethod
    def parents(child: str) -> list[str]:
        return sorted({child, str(max(1, int(child) - 1))})

    @staticmethod
    def children(parent: str) -> list[str]:
        return [parent, str(int(parent) + 1)]


#: Success is likelier than the rest.
_FACTS = [*[NodeFact.SUCCEEDED] * 3, NodeFact.FAILED, NodeFact.REPLACED]


class GraphMachine(RuleBasedStateMachine):
    """Random order of everything; a report may come much later than the change it is about."""

    @initialize(tasks=st.sampled_from(GRAPHS).map(tasks_from_json))
    def build(self, tasks: tuple[TaskTemplate, ...]) -> None:
        self.world = GraphWorld(Graph(tasks, functions={"next": FunctionPair(Next.parents, Next.children)}))
        self.ids = [NodeId(task.name, each) for task in tasks for each in job_ids(task) if not task.arrives]
        self.arriving = [NodeId(task.name, each) for task in tasks for each in job_ids(task) if task.arrives]
        self.asked: dict[NodeId, int] = {}

    @rule(data=st.data(), again=st.booleans())
    def submit(self, data: st.DataObject, again: bool) -> None:
        existing = sorted(set(self.world.nodes) - set(self.arriving))
        ids = existing if again and existing else self.ids
        targets = data.draw(st.lists(st.sampled_from(ids), min_size=1, max_size=3, unique=True))
        found = self.world.submit(targets, again=again)
        for target in targets:
            state = self.world.nodes[target].state
            if again:
                assert state not in (NodeState.COMPLETED, NodeState.FAILED, NodeState.UPSTREAM_FAILED)
        if not again:
            assert not found.reset
        note(f"created {len(found.created)}, reset {len(found.reset)}")

    @rule(
        pick=st.integers(0, 999),
        fact=st.sampled_from([*[NodeFact.SUCCEEDED] * 3, NodeFact.FAILED, NodeFact.REPLACED, NodeFact.SKIPPED]),
    )
    def end(self, pick: int, fact: NodeFact) -> None:
        if queued := self.world.in_state(NodeState.QUEUED):
            self.world.end(queued[pick % len(queued)], fact)

    @rule(picks=st.lists(st.integers(0, 999), min_size=1, max_size=6))
    def report(self, picks: list[int]) -> None:
        for pick in picks:
            if unreported := self.world.unreported:
                self.world.report(unreported[pick % len(unreported)])

    @rule(data=st.data())
    def arrive(self, data: st.DataObject) -> None:
        if self.arriving:
            self.world.arrive(data.draw(st.sampled_from(self.arriving)))

    @rule(data=st.data(), paused=st.booleans())
    def pause_or_resume(self, data: st.DataObject, paused: bool) -> None:
        task = data.draw(st.sampled_from(sorted({node.task for node in self.ids})))
        (self.world.pause if paused else self.world.resume)(task)

    @rule()
    def report_all(self) -> None:
        while unreported := self.world.unreported:
            self.world.report(unreported[0])

    @rule()
    def finish(self) -> None:
        """Everything is reported, and every job succeeds, until nothing is left to do."""
        for task in sorted(self.world.paused):
            self.world.resume(task)
        for _ in range(10_000):
            if self.world.unreported:
                self.world.report(self.world.unreported[0])
            elif queued := self.world.in_state(NodeState.QUEUED):
                self.world.end(queued[0], NodeFact.SUCCEEDED)
            else:
                break
        else:
            raise AssertionError("it never comes to an end")
        for node in self.world.in_state(NodeState.WAITING):
            assert expected(self.world, node) is NodeState.WAITING

    @invariant()
    def counts_are_those_of_the_parents(self) -> None:
        if not hasattr(self, "world") or self.world.unreported:
            return
        for node, known in self.world.nodes.items():
            for group in self.world.graph.parents(node):
                ends = [counted_end(self.world, node, group.group, parent) for parent in group.parents]
                missing = sum(each is not ParentOutcome.COMPLETE for each in ends)
                assert known.groups[group.group].missing == missing, node
            if known.state is NodeState.COMPLETED and known.groups:
                assert any(not count.missing for count in known.groups.values()), node
            if known.state in _UNENDED:
                assert known.state is expected(self.world, node), node

    @invariant()
    def every_round_made_one_job(self) -> None:
        if not hasattr(self, "world"):
            return
        for node, known in self.world.nodes.items():
            assert self.world.jobs[node] == known.round
            assert (known.state is NodeState.QUEUED) <= (known.round > 0)


TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = examples(300, steps=40)
