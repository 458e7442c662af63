"""Pictures of graphs: what they show, that any text is escaped, and that children are below their parents."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from streamsched.codec.graph.pictures.layers import layout
from streamsched.codec.graph.pictures.picture import Arrow, Box, Picture, ancestry_picture, template_picture
from streamsched.codec.graph.pictures.svg import to_svg
from streamsched.codec.graph.pictures.texts import to_dot, to_mermaid
from streamsched.dialects.stolos.codec.tasks import stolos_from_json
from streamsched.domain.graph.ancestry import Descent, ancestry
from streamsched.domain.graph.graph import Graph, NodeId
from streamsched.domain.graph.job_template import JobTemplate
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import DependencyGroup, Entry, TaskTemplate
from tests.unit.codec.test_stolos_tasks import TASKS

GRAPH = Graph([each.task for each in stolos_from_json(TASKS).tasks])
LEAF = NodeId("modelBuild", "client1_purchaseRevenue")


def test_the_tasks_of_a_graph() -> None:
    picture = template_picture("old", GRAPH)
    assert [(box.title, box.detail) for box in picture.boxes] == [
        ("preprocess", "{date}_{client_id}"),
        ("otherPreprocess", "{date}_{client_id}"),
        ("modelBuild", "{client_id}_{target}"),
    ]
    assert picture.arrows == (
        Arrow(0, 2, "dependency_group_1, dependency_group_2", dashed=True),
        Arrow(1, 2, "dependency_group_1", dashed=True),
    )
    assert '  n1 -> n2 [label="dependency_group_1", style=dashed];' in to_dot(picture)
    assert '  n1 -.->|"dependency_group_1"| n2' in to_mermaid(picture)


def test_the_ancestors_of_a_node_with_their_states() -> None:
    found = ancestry(GRAPH, LEAF, most=100)
    assert len(found.nodes) == 6
    first = found.nodes[1]
    picture = ancestry_picture("why", found, {LEAF: NodeState.WAITING, first: NodeState.COMPLETED})
    assert [box.detail for box in picture.boxes[:3]] == ["WAITING", "COMPLETED", "not asked for"]
    assert {(arrow.child, arrow.dashed) for arrow in picture.arrows} == {(0, False)}


def test_what_is_cut_is_said() -> None:
    found = ancestry(GRAPH, LEAF, most=3)
    assert (len(found.nodes), found.hidden) == (3, 3)
    assert "3 or more ancestors are not shown" in to_svg(ancestry_picture("cut", found, {}))


def test_the_work_for_a_picture_is_bounded() -> None:
    numbers = tuple(map(str, range(20_000)))
    wide = DependencyGroup("default", (Entry(("low",), {"n": numbers}),))
    low = TaskTemplate("low", JobTemplate.parse("{day}_{n}"))
    graph = Graph([low, TaskTemplate("top", JobTemplate.parse("{day}"), (wide,))])
    found = ancestry(graph, NodeId("top", "1"), most=100)
    assert (len(found.nodes), len(found.edges), found.hidden) == (100, 99, 19_901)
    chain = [(parent, child) for parent in range(60) for child in range(parent + 1, 60)]
    assert {len(path) for path in layout([30.0] * 60, chain).paths} == {2}


def test_the_existing_descendants_of_a_node() -> None:
    descent = Descent(GRAPH, [NodeId("preprocess", "20140601_client1")])
    assert {str(each) for each in descent.asked} == {
        "modelBuild client1_purchaseRevenue",
        "modelBuild client1_purchaseQuantity",
    }
    descent.answer({LEAF: NodeState.COMPLETED})
    assert (descent.found, descent.asked) == ({LEAF: NodeState.COMPLETED}, ())


texts = st.text(st.characters(codec="utf-8", categories=["L", "P", "S", "N", "Zs"]), max_size=80)


@given(texts, texts)
def test_any_text_is_escaped(title: str, detail: str) -> None:
    boxes = (Box(title, detail, "#000000"), Box("b", "", "#000000"))
    picture = Picture(title, boxes, (Arrow(0, 1, detail, dashed=True),), detail)
    found = ElementTree.fromstring(to_svg(picture))
    assert found.findtext("{http://www.w3.org/2000/svg}title", "") == title
    assert len(to_mermaid(picture).split("\n")) == 7 + bool(detail)
    assert len(to_dot(picture).split("\n")) == 7 + bool(detail)


@given(st.data())
def test_boxes_are_below_their_parents_and_beside_each_other(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    pairs = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda pair: pair[0] < pair[1])
    arrows = data.draw(st.lists(pairs, max_size=25, unique=True)) if size > 1 else []
    widths = data.draw(st.lists(st.floats(10, 300), min_size=size, max_size=size))
    found = layout(widths, arrows)
    level = {item: number for number, layer in enumerate(found.layers) for item in layer}
    for (parent, child), path in zip(arrows, found.paths, strict=True):
        assert (path[0], path[-1]) == (parent, child)
        assert [level[item] for item in path] == list(range(level[parent], level[child] + 1))
    for layer in found.layers:
        boxes = [item for item in layer if item < size]
        for left, right in pairwise(boxes):
            assert found.centres[left] + widths[left] / 2 < found.centres[right] - widths[right] / 2
        assert all(found.centres[item] - widths[item] / 2 >= 0 for item in boxes)
        assert all(found.centres[item] + widths[item] / 2 <= found.width + 1e-6 for item in boxes)
