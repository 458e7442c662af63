"""The edges of nodes, computed from the graph for one transaction at a time. Calls functions of users, so it may block.

What a function fails on is kept apart with the reason, so that it does not hold up other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamsched.domain.errors import InvalidDefinitionError, InvalidError, NotFoundError
from streamsched.domain.graph.graph import Graph, ParentGroup
from streamsched.domain.graph.task import NodeId
from streamsched.ports.graph.nodes import Edges

#: Edges after which a batch takes no further node.
_EDGES: Final = 20_000

#: The children of a node, each with the index of a group.
Children = tuple[tuple[NodeId, int], ...]


@dataclass(slots=True)
class BatchOfChildren:
    """Nodes with their children, and those whose children could not be computed, with the reason."""

    children: dict[NodeId, Children] = field(default_factory=dict)
    failed: dict[NodeId, str] = field(default_factory=dict)


def batches(graph: Graph, nodes: Iterable[NodeId]) -> Iterator[BatchOfChildren]:
    """The nodes with their children; few enough edges for one transaction at a time."""
    batch, edges = BatchOfChildren(), 0
    for node in nodes:
        try:
            batch.children[node] = _children(graph, node)
            edges += len(batch.children[node])
        except InvalidDefinitionError as error:
            batch.failed[node] = str(error)
        if edges > _EDGES:
            yield batch
            batch, edges = BatchOfChildren(), 0
    if batch.children or batch.failed:
        yield batch


def edges_of(
    graph: Graph, wanted: Iterable[NodeId], children: Mapping[NodeId, Children]
) -> tuple[Edges, dict[NodeId, str]]:
    """The parents of these nodes. Where a function fails on one, the nodes of `children` that have it as a child are
    left out, and are given back with the reason; so is the node itself, if it is no child of any.
    """
    parents: dict[NodeId, Sequence[ParentGroup]] = {}
    invalid: set[NodeId] = set()
    failed: dict[NodeId, str] = {}
    for node in wanted:
        try:
            parents[node] = graph.parents(node)
            if not graph.valid(node):
                invalid.add(node)
        except InvalidDefinitionError as error:
            parents.pop(node, None)
            failed[node] = str(error)
        except (NotFoundError, InvalidError):
            parents[node] = ()
    if not failed or not children:
        return Edges(children, parents, frozenset(invalid)), failed
    stuck = {
        node: next(failed[child] for child, _ in found if child in failed)
        for node, found in children.items()
        if any(child in failed for child, _ in found)
    }
    left = {node: found for node, found in children.items() if node not in stuck}
    return Edges(left, parents, frozenset(invalid)), stuck


def _children(graph: Graph, node: NodeId) -> Children:
    """The children; none of a node whose task, or whose form of job ids, is not in the graph any more.

    Raises:
        InvalidDefinitionError: a pair of functions failed.
    """
    try:
        return graph.children(node)
    except InvalidDefinitionError:
        raise
    except (NotFoundError, InvalidError):
        return ()
