"""What holds a node up in the end, beside a naive search over all ancestors. Graphs of up to 8 tasks in layers, with a
state for each node or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.graph.task import tasks_from_json
from streamsched.domain.graph.ancestry import HELD, RootSearch
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import NodeId

_TASKS: Final = 8
_STATES: Final = st.sampled_from([None, *NodeState])


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, dict[NodeId, NodeState]]:
    """Each task depends on some of those before it; the last one is asked about."""
    tasks: dict[str, object] = {}
    for number in range(draw(st.integers(1, _TASKS))):
        parents = draw(st.lists(st.sampled_from(sorted(tasks)), unique=True, max_size=3)) if tasks else []
        tasks[f"t{number}"] = {"job_id": "{n}", **({"depends_on": {"task": parents}} if parents else {})}
    states = {NodeId(name, "1"): draw(_STATES) for name in tasks}
    return Graph(tasks_from_json(tasks)), {node: state for node, state in states.items() if state is not None}


def naive(graph: Graph, node: NodeId, states: Mapping[NodeId, NodeState]) -> set[NodeId]:
    """All ancestors by paths of nodes that are held up, which ended by themselves without success."""
    found: set[NodeId] = set()
    for group in graph.parents(node):
        for parent in group.parents:
            state = states.get(parent)
            if state in {NodeState.FAILED, NodeState.SKIPPED}:
                found.add(parent)
            elif state in HELD:
                found |= naive(graph, parent, states)
    return found


def searched(search: RootSearch, states: Mapping[NodeId, NodeState]) -> set[NodeId]:
    while search.asked:
        search.answer({node: states[node] for node in search.asked if node in states})
    return set(search.found)


@given(graphs())
def test_the_roots_are_those_of_a_search_by_every_path(given_graph: tuple[Graph, dict[NodeId, NodeState]]) -> None:
    graph, states = given_graph
    node = NodeId(f"t{len(graph.order) - 1}", "1")
    search = RootSearch(graph, node)
    assert searched(search, states) == naive(graph, node, states)
    assert search.whole


@given(graphs(), st.integers(1, 4))
def test_a_bounded_search_finds_some_of_them_and_says_so(
    given_graph: tuple[Graph, dict[NodeId, NodeState]], most: int
) -> None:
    graph, states = given_graph
    node = NodeId(f"t{len(graph.order) - 1}", "1")
    search = RootSearch(graph, node, most=most)
    found, every = searched(search, states), naive(graph, node, states)
    assert found <= every
    assert not search.whole or found == every
