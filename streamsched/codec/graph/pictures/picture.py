"""A picture of a graph: boxes with two lines of text, and arrows from parents to children."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from streamsched.domain.graph.ancestry import Ancestry
from streamsched.domain.graph.graph import Graph
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import KEY, NodeId, TaskTemplate

#: Most boxes and arrows of a picture.
MOST_BOXES: Final = 500
MOST_ARROWS: Final = 5000


class PictureFormat(StrEnum):
    """Formats of a picture; `json` has its nodes and edges."""

    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


class Box(NamedTuple):
    """One node. `colour`: of its border, as `#rrggbb`."""

    title: str
    detail: str
    colour: str


class Arrow(NamedTuple):
    """One edge, between boxes by their index. `label`: the groups, if the child has several; `dashed`: one of several
    groups is enough."""

    parent: int
    child: int
    label: str
    dashed: bool


class Picture(NamedTuple):
    """`note`: what it does not show; empty if it shows everything."""

    title: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    note: str = ""


_PLAIN: Final = "#57606a"
#: Of what arrives, and runs nothing.
_ARRIVES: Final = "#1b7c83"


def colour_of(state: NodeState | None) -> str:
    """The colour of a node's state; None: it does not exist."""
    match state:
        case None:
            return "#afb8c1"
        case NodeState.WAITING:
            return "#bf8700"
        case NodeState.QUEUED:
            return "#0969da"
        case NodeState.COMPLETED:
            return "#1a7f37"
        case NodeState.FAILED:
            return "#cf222e"
        case NodeState.UPSTREAM_FAILED:
            return "#ff8182"
        case NodeState.SKIPPED | NodeState.UPSTREAM_SKIPPED:
            return "#8250df"
        case _:
            assert_never(state)


def template_picture(title: str, graph: Graph) -> Picture:
    """The tasks of a graph with their templates."""
    index = {name: number for number, name in enumerate(graph.order)}
    boxes = tuple(_template_box(graph.task(name)) for name in graph.order[:MOST_BOXES])
    arrows: list[Arrow] = []
    for child in graph.order[:MOST_BOXES]:
        groups: dict[str, dict[str, None]] = {}
        for group in graph.task(child).groups:
            for parent in (each for entry in group.entries for each in entry.tasks):
                if index[parent] < MOST_BOXES:
                    groups.setdefault(parent, {})[group.name] = None
        several = len(graph.task(child).groups) > 1
        arrows += [
            Arrow(index[parent], index[child], ", ".join(names) if several else "", several)
            for parent, names in groups.items()
        ]
    hidden = len(index) - len(boxes)
    note = f"{hidden} more tasks are not shown" if hidden else ""
    if len(arrows) > MOST_ARROWS:
        note = f"{note}; " * bool(note) + f"{len(arrows) - MOST_ARROWS} more dependencies are not shown"
    return Picture(title, boxes, tuple(arrows[:MOST_ARROWS]), note)


def _template_box(task: TaskTemplate) -> Box:
    if not task.arrives:
        return Box(task.name, str(task.template), _PLAIN)
    return Box(" ".join(task.arrives.replace(KEY, "").split()), f"arrives for {task.template}", _ARRIVES)


def _node_box(node: NodeId, awaited: str | None, state: NodeState | None) -> Box:
    if awaited is None:
        return Box(str(node), "not asked for" if state is None else state.value, colour_of(state))
    return Box(awaited, "not arrived" if state is None else "arrived", colour_of(state))


def ancestry_picture(title: str, found: Ancestry, states: Mapping[NodeId, NodeState]) -> Picture:
    """A node and its ancestors with their states."""
    index = {node: number for number, node in enumerate(found.nodes)}
    boxes = tuple(_node_box(node, found.awaited.get(node), states.get(node)) for node in found.nodes)
    by_child: dict[NodeId, dict[str, None]] = {}
    by_pair: dict[tuple[NodeId, NodeId], dict[str, None]] = {}
    for edge in found.edges:
        by_child.setdefault(edge.child, {})[edge.group] = None
        by_pair.setdefault((edge.parent, edge.child), {})[edge.group] = None
    arrows = tuple(
        Arrow(index[parent], index[child], ", ".join(names) if several else "", several)
        for (parent, child), names in by_pair.items()
        for several in [len(by_child[child]) > 1]
    )
    return Picture(title, boxes, arrows, f"{found.hidden} or more ancestors are not shown" if found.hidden else "")
