"""Queues of tasks: their policies, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from streamsched.domain.tasks.queue import QueuePolicy, TaskQueue

#: Tasks of a queue, and tasks before another one, are counted up to this many.
COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class QueueVersion:
    """A queue, and a number that grows with each of its changes."""

    queue: TaskQueue
    version: int


@dataclass(frozen=True, slots=True)
class QueueRecord:
    """A queue with its content.

    Attributes:
        tasks: tasks that have not ended, at most `COUNTED`.
        in_flight: those in flight, at most `COUNTED`.
        ready_at: when the first lane is ready (UTC); None: no lane waits.
    """

    queue: TaskQueue
    tasks: int
    in_flight: int
    ready_at: datetime | None


class QueueStore(Protocol):
    """All methods raise `UnavailableError` when PostgreSQL is unavailable."""

    async def all(self) -> Sequence[QueueVersion]:
        """All queues, by name. One that this release cannot read is left out, and logged."""
        ...

    async def version(self) -> int:
        """Grows with each change of any queue."""
        ...

    async def get(self, name: str) -> QueueRecord:
        """Raises:
        NotFoundError: there is no such queue.
        """
        ...

    async def page(self, *, after: str, limit: int) -> Sequence[QueueRecord]:
        """Queues by name, after a name."""
        ...

    async def set(self, name: str, policy: QueuePolicy, reason: str, *, now: datetime) -> QueueRecord:
        """Creates the queue, or changes its policy for tasks that are not in flight. Idempotent.

        Raises:
            ConflictError: the identity of tasks would change, or there are `MOST_QUEUES` other queues.
        """
        ...

    async def pause(self, name: str, paused: bool, reason: str, *, now: datetime) -> QueueRecord:
        """Pauses or resumes. When it returns, nothing is started any more; tasks in flight go on. Idempotent.

        Raises:
            NotFoundError: there is no such queue.
        """
        ...
