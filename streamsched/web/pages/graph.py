"""The graph of datasets, programs and schedules, and the graph of an app's tasks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.codec.graph.pictures.picture import template_picture
from streamsched.domain.errors import InvalidError
from streamsched.domain.graph.node import NodeState
from streamsched.domain.graph.task import NodeId
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef
from streamsched.store.web.link_reads import ScheduleStanding
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line
from streamsched.web.views.drawing import DrawnBox, draw_graph
from streamsched.web.views.links_graph import LinkGraph, LinkNode, neighbourhood, whole_graph
from streamsched.web.views.names import dataset_href, quote_name, schedule_href, short_name
from streamsched.web.views.paging import address
from streamsched.web.views.states import RUN_WORDS, SCHEDULE_WORDS
from streamsched.web.visit import PageRoute, Visit

_LONGEST: Final = 800
#: Graphs of tasks that the page lists.
_GRAPHS: Final = 100
#: Nodes that the page of a graph lists.
_NODES: Final = 20
_KINDS: Final = frozenset({"dataset", "stream", "event", "program", "schedule"})


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/graph", VIEW_LIST, partial(show, renderer))
    yield PageRoute("GET", "/ui/graphs/{namespace}/{app}", VIEW, partial(show_tasks, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The graph of the namespace, or around `focus` (`KIND:NAME`), with the state of each schedule and of the last run
    of each program, and as a table. Nodes that the caller may not see have no state.
    """
    text, given = visit.query("q")[:200], visit.query("focus")[:_LONGEST]
    links = await visit.api.datasets.links.links(visit.caller)
    focus = _focus(given) if given else None
    graph = await asyncio.to_thread(
        lambda: (
            whole_graph(links, namespace=visit.namespace, text=text)
            if focus is None
            else neighbourhood(links, focus, namespace=visit.namespace)
        )
    )
    reads = visit.api.datasets.links.reads
    standings = await reads.standings(visit.visible_ids(graph.ids_of("schedule")))
    runs = await reads.last_runs(visit.visible_ids(graph.ids_of("program")))
    boxes = [_box(node, standings, runs, visit, focus) for node in graph.nodes]
    return renderer.page(
        visit,
        "graph.html",
        graph=graph,
        picture=await asyncio.to_thread(draw_graph, boxes, graph.arrows, label=_label(graph)) if boxes else "",
        lines=[(box, _graph_around(node, visit)) for node, box in zip(graph.nodes, boxes, strict=True)],
        text=text,
        app_graphs=[] if focus else await visit.graphs(text=text, limit=_GRAPHS + 1),
        most_graphs=_GRAPHS,
        focus=focus,
        whole=links.whole,
        clear=address(visit.path, [("namespace", visit.namespace or "")]) if text or focus else "",
    )


async def show_tasks(renderer: Renderer, visit: Visit) -> Response:
    """The tasks of an app, each with how many of its nodes are in each state, and the first failed nodes."""
    ref = AppRef(visit.param("namespace"), visit.param("app"))
    stored, graph = await visit.api.work.graphs.graph(ref)
    counts: dict[str, Counter[NodeState]] = {}
    for (task, state), number in (await visit.api.work.graphs.counts(ref)).items():
        counts.setdefault(task, Counter())[state] = number
    picture = template_picture(str(stored.app), graph)
    boxes = [
        DrawnBox(
            box.title,
            _counts_text(counts.get(box.title, Counter())) or box.detail,
            _task_tone(counts.get(box.title, Counter())),
            "#tasks",
        )
        for box in picture.boxes
    ]
    return renderer.page(
        visit,
        "task_graph.html",
        ref=ref,
        generation=stored.generation,
        picture=await asyncio.to_thread(
            draw_graph,
            boxes,
            [(each.parent, each.child) for each in picture.arrows],
            label=f"Tasks of {short_name(ref)}",
        ),
        note=picture.note,
        tasks=[(name, str(graph.task(name).template), counts.get(name, Counter())) for name in graph.order],
        states=list(NodeState),
        failed=await visit.api.work.graphs.page(
            ref, task=None, state=NodeState.FAILED, after=NodeId("", ""), limit=_NODES
        ),
        same=SameAs(command_line("graph", "status", short_name(ref))),
    )


def _focus(text: str) -> LinkNode:
    """Raises:
    InvalidError: it names no node.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in _KINDS or not name:
        raise InvalidError("focus", f"'{text[:100]}' is not of the form KIND:NAME with {', '.join(sorted(_KINDS))}")
    return LinkNode(kind, name)


def _box(
    node: LinkNode,
    standings: Mapping[str, ScheduleStanding],
    runs: Mapping[str, RunState],
    visit: Visit,
    focus: LinkNode | None,
) -> DrawnBox:
    href, tone, detail = "", "off", node.kind
    if node.kind == "schedule":
        href = schedule_href(node.name)
        current = standings.get(node.name)
        if current is not None:
            word = SCHEDULE_WORDS[current.state]
            waits = f"{current.waiting} {'job waits' if current.waiting == 1 else 'jobs wait'}"
            waiting = bool(current.waiting) and current.state == "enabled"
            tone, detail = ("wait", waits) if waiting else (word.tone, word.word)
        detail = f"schedule, {detail}"
    elif node.kind == "program":
        state = runs.get(node.name)
        word = None if state is None else RUN_WORDS[state]
        tone, detail = ("off", "program, no run") if word is None else (word.tone, f"program, {word.word}")
        href = f"/ui/runs?program={quote_name(node.name)}"
    elif node.kind == "dataset":
        href = dataset_href(node.name)
    return DrawnBox(short_name(node.name), detail, tone, href or _graph_around(node, visit), node == focus)


def _graph_around(node: LinkNode, visit: Visit) -> str:
    """The graph around a node."""
    within = "" if visit.namespace is None else f"&namespace={quote_name(visit.namespace)}"
    return f"/ui/graph?focus={node.kind}:{quote_name(node.name)}{within}"


def _label(graph: LinkGraph) -> str:
    counted = Counter(node.kind for node in graph.nodes)
    listed = ", ".join(f"{number} {kind}{'s' if number > 1 else ''}" for kind, number in counted.items())
    return f"Graph of {listed}; the table below lists them"


def _counts_text(counts: Counter[NodeState]) -> str:
    return ", ".join(f"{number:,} {state.value}" for state, number in counts.items())


def _task_tone(counts: Counter[NodeState]) -> str:
    if not counts:
        return "off"
    if counts[NodeState.FAILED] or counts[NodeState.UPSTREAM_FAILED]:
        return "bad"
    if counts[NodeState.QUEUED]:
        return "run"
    return "wait" if counts[NodeState.WAITING] else "ok"
