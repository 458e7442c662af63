"""The state machine of nodes, and submissions upwards."""

from __future__ import annotations

import pytest

from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.ascent import Ascent
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.node import NODE_STATES, NodeState, ParentOutcome, parent_outcome
from streamsched.domain.graph.task import MOST_VALUES, DependencyGroup, Entry, TaskTemplate

D = JobTemplate.parse("{d}")


def template(name: str, *groups: tuple[str, ...]) -> TaskTemplate:
    made = (DependencyGroup(f"g{index}", (Entry(on),)) for index, on in enumerate(groups))
    return TaskTemplate(name, D, tuple(made))


def node(name: str) -> NodeId:
    return NodeId(name, "1")


def test_only_what_has_ended_is_more_than_missing_to_children() -> None:
    assert {state for state in NodeState if parent_outcome(state) is not ParentOutcome.MISSING} == NODE_STATES.ends


def test_only_the_nearest_incomplete_ancestors_are_found() -> None:
    graph = Graph([template("a"), template("b", ("a",)), template("c", ("b",)), template("d", ("c", "a"))])
    ascent = Ascent(graph, [node("d")])
    known = {node("b"): NodeState.COMPLETED}
    asked: list[NodeId] = []
    while ascent.asked:
        asked += ascent.asked
        ascent.answer({each: known[each] for each in ascent.asked if each in known})
    assert set(ascent.created) == {node("d"), node("c"), node("a")}
    assert not ascent.ended, "a complete group is not searched"
    assert len(asked) == len(set(asked)) == 4, "each state is read once"


def test_other_alternatives_of_a_complete_one_are_left_alone() -> None:
    graph = Graph([template("a"), template("b"), template("c", ("a",), ("b",))])
    ascent = Ascent(graph, [node("c")])
    while ascent.asked:
        ascent.answer({node("a"): NodeState.COMPLETED} if node("a") in ascent.asked else {})
    assert set(ascent.created) == {node("c")}


def test_again_resets_what_failed_above_and_not_what_completed() -> None:
    graph = Graph([template("a"), template("b"), template("c", ("a", "b"))])
    known = {
        node("a"): NodeState.FAILED,
        node("b"): NodeState.COMPLETED,
        node("c"): NodeState.UPSTREAM_FAILED,
    }
    for again, expected in ((False, set[NodeId]()), (True, {node("c"), node("a")})):
        ascent = Ascent(graph, [node("c")], again=again)
        while ascent.asked:
            ascent.answer({each: known[each] for each in ascent.asked})
        assert set(ascent.reset) == expected


def test_more_nodes_than_one_submission_may_make_are_refused() -> None:
    wide = TaskTemplate("a", JobTemplate.parse("{d}_{n}"), (), {"n": tuple(map(str, range(60_000)))})
    needs = tuple(
        TaskTemplate(name, D, (DependencyGroup("default", (Entry(("a",), {"n": wide.autofill["n"]}),)),))
        for name in "bc"
    )
    graph = Graph([wide, *needs])
    ascent = Ascent(graph, [NodeId("b", "1"), NodeId("c", "2")])
    ascent.answer({})
    with pytest.raises(InvalidError, match="need more than 100000 nodes"):
        ascent.answer({})


@pytest.mark.parametrize("many", [MOST_VALUES - 1, MOST_VALUES])
def test_a_job_id_may_need_as_many_parents_as_an_entry_may_list(many: int) -> None:
    wide = TaskTemplate("a", JobTemplate.parse("{d}_{n}"), (), {"n": tuple(map(str, range(many)))})
    needs = DependencyGroup("default", (Entry(("a",), {"n": wide.autofill["n"]}),))
    graph = Graph([wide, TaskTemplate("b", D, (needs,))])
    ascent = Ascent(graph, [NodeId("b", "1")])
    while ascent.asked:
        ascent.answer({})
    assert len(ascent.created) == many + 1
    (group,) = graph.parents(NodeId("b", "1"))
    assert len(group.parents) == many
    assert [str(child) for child, _ in graph.children(NodeId("a", f"1_{many - 1}"))] == ["b 1"]


def test_one_parent_more_than_that_is_refused_with_its_path() -> None:
    wide = TaskTemplate("a", JobTemplate.parse("{d}_{n}"))
    listed = tuple(map(str, range(MOST_VALUES + 1)))
    with pytest.raises(InvalidError, match="at most 100000 values but has 100001") as caught:
        Graph([wide, TaskTemplate("b", D, (DependencyGroup("default", (Entry(("a",), {"n": listed}),)),))])
    assert caught.value.path == "$.tasks.b.depends_on.n"
