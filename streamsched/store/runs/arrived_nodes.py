"""Completes nodes of arrivals, within the transaction that ends their runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from streamsched.domain.errors import NotFoundError
from streamsched.ports.runs import ArrivedNode
from streamsched.store.connections import Connection
from streamsched.store.sql import queries

_SQL: Final = queries("runs/arrived_nodes")


async def arrive(connection: Connection, nodes: Sequence[ArrivedNode], now: datetime) -> None:
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
    rows = await connection.fetch(_SQL["arrive"], *columns, now)
    known = {(row["app"], row["task"]) for row in rows}
    for each in nodes:
        if (str(each.app), each.node.task) not in known:
            raise NotFoundError("task of a graph", f"{each.app}.{each.node.task}")
