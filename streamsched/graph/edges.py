"""The edges of nodes, computed from the graph for one transaction at a time. Calls functions of users, so it may block.

What a function fails on is kept apart with the reason, so that it does not hold up other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError, NotFoundError
from streamsched.domain.graph.graph import Graph, ParentGroup
from streamsched.domain.graph.task import NodeId
from streamsched.store.graph.rows import Edges

#: Edges after which a batch takes no further node.
_EDGES: Final = 20_000

#: The children of a node, each with the index of a group.
Children = tuple[tuple[NodeId, int], ...]


#: By task among the children of a node, why not all of them could be computed.
Stuck = dict[str, str]


@dataclass(slots=True)
class BatchOfChildren:
    """Nodes with their children.

    Attributes:
        children: nodes all of whose children are here.
        partial: nodes of which children of some tasks could not be computed, with the others.
        stuck: of these nodes, those tasks with the reason.
    """

    children: dict[NodeId, Children] = field(default_factory=dict)
    partial: dict[NodeId, Children] = field(default_factory=dict)
    stuck: dict[NodeId, Stuck] = field(default_factory=dict)


def batches(graph: Graph, nodes: Iterable[NodeId]) -> Iterator[BatchOfChildren]:
    """The nodes with their children; few enough edges for one transaction at a time."""
    batch, edges = BatchOfChildren(), 0
    for node in nodes:
        found, failed = _computable_children(graph, node)
        if failed:
            batch.partial[node] = found
            batch.stuck[node] = failed
        else:
            batch.children[node] = found
        edges += len(found)
        if edges > _EDGES:
            yield batch
            batch, edges = BatchOfChildren(), 0
    if batch.children or batch.partial:
        yield batch


def edges_of(graph: Graph, wanted: Iterable[NodeId], batch: BatchOfChildren) -> tuple[Edges, dict[NodeId, Stuck]]:
    """The edges of a batch, with the parents of these nodes, and what is stuck, with the reasons. Where a function
    fails on one of the nodes, its task is stuck for those of the batch that have it as a child.
    """
    parents, invalid, failed = parents_of(graph, wanted)
    children = {**batch.children, **batch.partial}
    stuck = {node: dict(found) for node, found in batch.stuck.items()}
    if failed:
        for node, found in children.items():
            for child, _ in found:
                if child in failed:
                    stuck.setdefault(node, {}).setdefault(child.task, failed[child])
    return Edges(children, parents, invalid, {node: frozenset(found) for node, found in stuck.items()}), stuck


def parents_of(
    graph: Graph, wanted: Iterable[NodeId]
) -> tuple[dict[NodeId, Sequence[ParentGroup]], frozenset[NodeId], dict[NodeId, str]]:
    """The parents of nodes, those of them that have no work to do, and those on which a function fails, with the
    reason: their parents are not given.
    """
    parents: dict[NodeId, Sequence[ParentGroup]] = {}
    invalid: set[NodeId] = set()
    failed: dict[NodeId, str] = {}
    for node in wanted:
        try:
            parents[node] = graph.parents(node)
            if not graph.is_valid(node):
                invalid.add(node)
        except InvalidDefinitionError as error:
            parents.pop(node, None)
            failed[node] = str(error)
        except (NotFoundError, InvalidError):
            parents[node] = ()
    return parents, frozenset(invalid), failed


def _computable_children(graph: Graph, node: NodeId) -> tuple[Children, Stuck]:
    """The children; none of a node whose task, or whose form of job ids, is not in the graph any more."""
    try:
        found, failed = graph.computable_children(node)
    except (NotFoundError, InvalidError):
        return (), {}
    return found, {task: str(error) for task, error in failed.items()}
