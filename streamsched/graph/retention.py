"""Deletes nodes that ended long ago. A node that is gone has never run, as far as later submissions are concerned.

A node stays while one of its children waits or is queued. Several instances delete each node once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import structlog

from streamsched.domain.errors import SYSTEMIC, ConflictError, describe_failure
from streamsched.domain.graph.node import NODE_STATES
from streamsched.domain.graph.task import NodeId
from streamsched.domain.limits import add_duration
from streamsched.domain.names import AppRef
from streamsched.graph.edges import Children, batches
from streamsched.graph.functions import GraphFunctions
from streamsched.ports.clock import Clock
from streamsched.process.run_forever import run_forever
from streamsched.store.graph.nodes import NodeStore, OldNode

log = structlog.get_logger()

#: Seconds between two passes.
_EVERY: Final = 3600.0
#: Nodes read at a time.
_BATCH: Final = 1000


class NodeRetention:
    """Belongs to one task.

    Args:
        keep: how long an ended node stays.
    """

    def __init__(
        self, nodes: NodeStore, clock: Clock, *, keep: timedelta, functions: GraphFunctions | None = None
    ) -> None:
        self._nodes = nodes
        self._clock = clock
        self._keep = keep
        self._functions = functions or GraphFunctions()

    async def run(self) -> None:
        """Passes until cancelled; retries while PostgreSQL is unavailable."""
        await run_forever(self._step, called="node_retention", ending_by=self._clock)

    async def _step(self) -> float:
        await self.run_once()
        return _EVERY

    async def run_once(self) -> int:
        """One pass; returns how many nodes were deleted.

        Raises:
            UnavailableError: PostgreSQL is unavailable; call again.
        """
        before = add_duration(self._clock.now(), -self._keep)
        gone = 0
        behind: OldNode | None = None
        while page := await self._nodes.old_nodes(before, behind=behind, limit=_BATCH):
            for app in dict.fromkeys(each.app for each in page):
                gone += await self._leave(app, [each.node for each in page if each.app == app], before)
            behind = page[-1]
        if gone:
            log.info("nodes.left", nodes=gone)
        return gone

    async def _leave(self, app: str, nodes: Sequence[NodeId], before: datetime) -> int:
        try:
            stored = await self._nodes.graph(AppRef.parse(app))
            graph = await asyncio.to_thread(self._functions.graph, stored.tasks)
            gone, found = 0, batches(graph, nodes)
            while (batch := await asyncio.to_thread(next, found, None)) is not None:
                leaving, children = await self._find_leaving(stored.app, batch.children)
                if leaving:
                    gone += await self._nodes.delete(stored, leaving, children, before=before)
            return gone
        except SYSTEMIC:
            raise
        except ConflictError:  # the next pass sees what is left
            return 0
        except Exception as failure:  # noqa: BLE001 - caused by the graph or the rows of this app
            log.error("graph.failed", app=app, reason=describe_failure(failure))
            return 0

    async def _find_leaving(self, app: AppRef, batch: dict[NodeId, Children]) -> tuple[list[NodeId], list[NodeId]]:
        """The nodes that may leave, and their children."""
        below = list(dict.fromkeys(child for found in batch.values() for child, _ in found))
        states = await self._nodes.states(app, below) if below else {}
        busy = {child for child, state in states.items() if state not in NODE_STATES.ends}
        leaving = [node for node, found in batch.items() if not any(child in busy for child, _ in found)]
        return leaving, list(dict.fromkeys(child for node in leaving for child, _ in batch[node]))
