"""Graphs, days and the key matrix of pages, from values alone."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from streamsched.api.reads.catalog_map import _link
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.trigger import AllOf, Partitions, leaf_id
from streamsched.store.web.activity_reads import ConsumedEvents
from streamsched.store.web.link_reads import ScheduleLinks
from streamsched.web.views.drawing import DrawnBox, draw_graph
from streamsched.web.views.key_matrix import key_matrix
from streamsched.web.views.links_graph import MOST_NODES, LinkNode, drop_cycles, neighbourhood, whole_graph
from streamsched.web.views.partitions import PartitionRow, missing_words, partition_days

HOSTILE = "\"'><script>alert(1)</script>&"
AT = datetime(2026, 3, 1, tzinfo=UTC)
LINKS = st.lists(
    st.tuples(st.integers(0, 5), st.lists(st.integers(0, 4), max_size=3, unique=True)), min_size=1, max_size=12
)


def catalog(shape: list[tuple[int, list[int]]]) -> list[ScheduleLinks]:
    """Schedules that run program p and wait for datasets d; a program also starts the schedules that wait for it."""
    return [
        ScheduleLinks(
            f"n.a.s{number}",
            f"n.a.p{program}",
            tuple(("program", f"n.a.p{each}") if each % 2 else ("dataset", f"n.d{each}") for each in sources),
        )
        for number, (program, sources) in enumerate(shape)
    ]


def naive_arrows(found: list[ScheduleLinks]) -> set[tuple[LinkNode, LinkNode]]:
    arrows: set[tuple[LinkNode, LinkNode]] = set()
    for each in found:
        schedule = LinkNode("schedule", each.schedule)
        arrows |= {(LinkNode(kind, name), schedule) for kind, name in each.listens}
        arrows.add((schedule, LinkNode("program", each.program)))
    return arrows


@given(LINKS)
def test_the_whole_graph_has_all_nodes_and_arrows(shape: list[tuple[int, list[int]]]) -> None:
    found = catalog(shape)
    graph = whole_graph(_link(found), namespace=None, text="")
    arrows = naive_arrows(found)
    assert {(graph.nodes[a], graph.nodes[b]) for a, b in graph.arrows} == arrows
    assert set(graph.nodes) == {node for arrow in arrows for node in arrow}
    assert graph.hidden == 0


@given(LINKS, st.integers(0, 4))
def test_a_neighbourhood_is_what_is_within_so_many_steps(shape: list[tuple[int, list[int]]], steps: int) -> None:
    found = catalog(shape)
    arrows = naive_arrows(found)
    focus = LinkNode("schedule", found[0].schedule)
    reached = {focus}
    for _ in range(steps):
        reached |= {b for a, b in arrows if a in reached} | {a for a, b in arrows if b in reached}
    graph = neighbourhood(_link(found), focus, steps=steps)
    assert set(graph.nodes) == reached
    assert {(graph.nodes[a], graph.nodes[b]) for a, b in graph.arrows} == {
        (a, b) for a, b in arrows if a in reached and b in reached
    }


def test_a_graph_has_at_most_a_thousand_nodes_and_says_how_many_schedules_are_hidden() -> None:
    found = [ScheduleLinks(f"n.a.s{each}", f"n.a.p{each}", (("dataset", f"n.d{each}"),)) for each in range(400)]
    graph = whole_graph(_link(found), namespace=None, text="")
    assert len(graph.nodes) <= MOST_NODES
    assert len(graph.ids_of("schedule")) + graph.hidden == 400
    assert whole_graph(_link(found), namespace="m", text="").nodes == ()
    assert whole_graph(_link(found), namespace="n", text="D17").ids_of("schedule")[0] == "n.a.s17"


@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=20))
def test_without_arrows_that_close_a_circle_there_is_none(nodes: int, given: list[tuple[int, int]]) -> None:
    arrows = [(a % nodes, b % nodes) for a, b in given]
    kept = drop_cycles(nodes, arrows)
    assert set(kept) <= set(arrows)
    left, edges = set(range(nodes)), set(kept)
    while free := {node for node in left if not any(b == node and a in left for a, b in edges)}:
        left -= free
    assert left == set()
    for arrow in set(arrows) - edges:  # each one that is missing would close a circle
        reached = {arrow[1]}
        while more := {b for a, b in edges if a in reached} - reached:
            reached |= more
        assert arrow[0] in reached


def test_a_drawing_escapes_all_texts() -> None:
    boxes = [DrawnBox(HOSTILE, HOSTILE, "ok", f"/ui/{HOSTILE}", focus=True), DrawnBox("b", "c", "bad", "/ui/b")]
    drawn = draw_graph(boxes, [(0, 1), (1, 0)], label=HOSTILE)
    assert "<script" not in drawn
    assert not re.search(r"=\"[^\"]*'><", drawn)
    assert drawn.count("<a ") == 2
    assert drawn.count('class="arrow back"') == 1
    assert "style=" not in drawn


@given(st.lists(st.integers(0, 400), min_size=1, max_size=40))
def test_days_are_whole_and_the_missing_ones_are_those_without_a_partition(offsets: list[int]) -> None:
    start = date(2013, 1, 1)
    came = {start + timedelta(days=each) for each in offsets}
    rows = [PartitionRow(f"date={day}", day, None, None, "s", AT, "/ui/e", late=False) for day in sorted(came)]
    found = partition_days(rows)
    assert found is not None
    days = [each.day for each in found.days]
    assert all(after - before == timedelta(days=1) for before, after in pairwise(days))
    assert (days[0], days[-1]) == (found.first, found.last)
    assert found.last == max(came)
    assert set(found.missing) == set(days) - came


def test_missing_days_are_named_as_spans() -> None:
    days = [date(2013, 3, 13), date(2013, 3, 14), date(2013, 3, 15), date(2013, 3, 20)]
    assert missing_words(days) == "2013-03-13 to 2013-03-15, 2013-03-20"
    apart = [date(2013, 1, 1) + timedelta(days=2 * each) for each in range(14)]
    assert missing_words(apart).endswith(" and 4 more")
    assert partition_days([]) is None


def test_the_matrix_shows_what_arrived_was_used_came_late_and_is_missing() -> None:
    flights, weather = (Partitions(DatasetRef("default", name), 2) for name in ("flights", "weather"))
    trigger = AllOf((flights, weather))

    def event(name: str, key: str) -> dict[str, object]:
        return {"id": name, "source": "s", "data": {"partitions": [{"key": key}]}}

    progress = {
        "children": [
            {"text": str(flights), "have": 1, "need": 2, "events": [event("f3", "d=3"), event("f2", "d=2")]},
            {"text": str(weather), "have": 1, "need": 2, "events": [event("w3", "d=3")]},
        ]
    }
    used = ConsumedEvents(
        "default.a.s.1.1",
        {
            "events": [event("f1", "d=1"), event("w1", "d=1")],
            "contributions": [{"leaf": leaf_id(flights), "events": [0]}, {"leaf": leaf_id(weather), "events": [1, 9]}],
        },
    )
    matrix = key_matrix(trigger, progress, [], [used, ConsumedEvents("large", None)], late={"w3", "f1"})
    assert matrix.columns == ("flights", "weather")
    assert {row.key: [cell.text for cell in row.cells] for row in matrix.rows} == {
        "d=1": ["used", "used"],
        "d=2": ["arrived", "missing"],
        "d=3": ["arrived", "late"],
    }
    assert matrix.rows[0].cells[0].href == "/ui/jobs/default.a.s.1.1"
    assert set(matrix.events) == {"f1", "w1", "f2", "f3", "w3"}
