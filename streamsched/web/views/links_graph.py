"""Which datasets, programs and schedules are in a picture, and the arrows between them. Pure.

Nodes are pairs of a kind (`dataset`, `stream`, `event`, `program`, `schedule`) and an id. Arrows go from what a
schedule waits for to the schedule, and from the schedule to the program that it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from streamsched.api.reads.catalog_map import Links
from streamsched.store.web.link_reads import ScheduleLinks

#: Most nodes of a picture.
MOST_NODES: Final = 1000
#: Steps from a node within which its neighbours are shown.
STEPS: Final = 3


class LinkNode(NamedTuple):
    """A node of the graph."""

    kind: str
    name: str

    @property
    def focus(self) -> str:
        """Its name in an address."""
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class LinkGraph:
    """The nodes in order and the arrows between them by index. `hidden`: nodes that are not shown."""

    nodes: tuple[LinkNode, ...] = ()
    arrows: tuple[tuple[int, int], ...] = ()
    hidden: int = 0

    def ids_of(self, kind: str) -> list[str]:
        """The ids of the nodes of a kind."""
        return [node.name for node in self.nodes if node.kind == kind]


@dataclass
class _Selection:
    nodes: dict[LinkNode, int] = field(default_factory=dict)
    arrows: dict[tuple[int, int], None] = field(default_factory=dict)

    def add(self, node: LinkNode) -> int:
        return self.nodes.setdefault(node, len(self.nodes))

    def link(self, links: ScheduleLinks) -> None:
        schedule = self.add(LinkNode("schedule", links.schedule))
        for kind, name in links.listens:
            self.arrows[self.add(LinkNode(kind, name)), schedule] = None
        self.arrows[schedule, self.add(LinkNode("program", links.program))] = None


def whole_graph(links: Links, *, namespace: str | None, text: str) -> LinkGraph:
    """The schedules of a namespace whose id, program or source contains `text`, with their sources and programs."""
    prefix, wanted = "" if namespace is None else f"{namespace}.", text.casefold()
    found = _Selection()
    hidden = 0
    for each in links.schedules.values():
        if not each.schedule.startswith(prefix) or (wanted and wanted not in links.texts[each.schedule]):
            continue
        if len(found.nodes) + len(each.listens) + 2 > MOST_NODES:
            hidden += 1
            continue
        found.link(each)
    return LinkGraph(tuple(found.nodes), tuple(found.arrows), hidden)


def neighbourhood(links: Links, focus: LinkNode, *, namespace: str | None = None, steps: int = STEPS) -> LinkGraph:
    """The nodes within so many steps up or down from one, the nearest first."""
    prefix = "" if namespace is None else f"{namespace}."
    distance: dict[LinkNode, int] = {focus: 0}
    waiting: deque[LinkNode] = deque([focus])
    hidden = 0
    while waiting:
        node = waiting.popleft()
        if distance[node] == steps:
            continue
        for near in _neighbours(links, node):
            if near in distance or (near.kind == "schedule" and not near.name.startswith(prefix)):
                continue
            if len(distance) == MOST_NODES:
                hidden += 1
                continue
            distance[near] = distance[node] + 1
            waiting.append(near)
    index = {node: number for number, node in enumerate(distance)}
    arrows = dict.fromkeys(
        (index[above], index[below])
        for node in distance
        if node.kind == "schedule"
        for above, below in _arrows(links.schedules.get(node.name))
        if above in index and below in index
    )
    return LinkGraph(tuple(distance), tuple(arrows), hidden)


def drop_cycles(nodes: int, arrows: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The arrows without those that close a circle."""
    below: Mapping[int, list[int]] = {number: [] for number in range(nodes)}
    for parent, child in arrows:
        below[parent].append(child)
    state, kept = [0] * nodes, list[tuple[int, int]]()
    for root in range(nodes):
        if state[root]:
            continue
        state[root] = 1
        path: list[tuple[int, Iterator[int]]] = [(root, iter(below[root]))]
        while path:
            node, rest = path[-1]
            child = next(rest, None)
            if child is None:
                state[node] = 2
                path.pop()
            elif state[child] != 1:
                kept.append((node, child))
                if not state[child]:
                    state[child] = 1
                    path.append((child, iter(below[child])))
    return kept


def _arrows(links: ScheduleLinks | None) -> Iterable[tuple[LinkNode, LinkNode]]:
    if links is None:
        return
    schedule = LinkNode("schedule", links.schedule)
    for kind, name in links.listens:
        yield LinkNode(kind, name), schedule
    yield schedule, LinkNode("program", links.program)


def _neighbours(links: Links, node: LinkNode) -> Iterable[LinkNode]:
    if node.kind == "schedule":
        for above, below in _arrows(links.schedules.get(node.name)):
            yield above if below == node else below
        return
    for name in links.listeners.get((node.kind, node.name), ()):
        yield LinkNode("schedule", name)
    if node.kind == "program":
        for name in links.runs.get(node.name, ()):
            yield LinkNode("schedule", name)
