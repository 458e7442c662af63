"""Completes nodes of arrivals, within the transaction that ends their runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.domain.errors import NotFoundError
from streamsched.domain.graph.task import NodeId
from streamsched.domain.names import AppRef
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries

_SQL: Final = queries("runs/arrived_nodes")


class ArrivedNode(NamedTuple):
    """A node of an app's graph that the end of a run completes. `job`: of the run; None without one."""

    app: AppRef
    node: NodeId
    job: str | None


class _KnownTask(NamedTuple):
    app: str
    task: str
    rung: int


_ARRIVE: Final = Select(_SQL["arrive"], _KnownTask)


async def complete_nodes(connection: Connection, nodes: Sequence[ArrivedNode], now: datetime) -> None:
    """Completes the nodes; those that are complete stay as they are. Their children count them later, so this does not
    wait for the lock of the graph.

    Raises:
        NotFoundError: the graph of one has no such task, or none yet that arrives.
    """
    columns = (
        [str(each.app) for each in nodes],
        [each.node.task for each in nodes],
        [each.node.job_id for each in nodes],
        [each.job for each in nodes],
    )
    known = {(each.app, each.task) for each in await _ARRIVE.fetch(connection, *columns, now)}
    for each in nodes:
        if (str(each.app), each.node.task) not in known:
            raise NotFoundError("task of a graph", f"{each.app}.{each.node.task}")
