"""Where tasks are delivered to, and one attempt: sent only while its owner's lease lasts, and ended by its time limit,
whatever the receiver does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from streamsched.domain.tasks.attempt import LEASE_OVER, AttemptEnd, AttemptFailed, Interrupted, StartedTask, time_limit
from streamsched.domain.tasks.queue import Target
from streamsched.domain.time.duration import duration_text
from streamsched.ports.clock import Clock


class Receiver(Protocol):
    """A way to deliver tasks of one kind of target."""

    def room(self, queue: str) -> int:
        """How many more tasks of the queue can be delivered now; 0: tasks are staged."""
        ...

    async def deliver(self, task: StartedTask, target: Target) -> AttemptEnd:
        """Delivers a task and returns the end of the attempt. Errors of the receiver are `AttemptFailed`; when no
        receiver is left, `Interrupted`.
        """
        ...

    async def close(self) -> None:
        """Closes its connections, when no delivery is on its way. Idempotent."""
        ...


async def attempt(
    to: Receiver, task: StartedTask, target: Target, clock: Clock, *, leased: Callable[[], bool]
) -> AttemptEnd:
    """Delivers a task. `leased`: whether no other process can be its owner yet; a process that was paused after it
    started the task sends nothing.
    """
    if not leased():
        return Interrupted(clock.now(), LEASE_OVER)
    limit = time_limit(target)
    if limit is None:
        return await to.deliver(task, target)
    scope = asyncio.timeout(limit.total_seconds())
    try:
        async with scope:
            return await to.deliver(task, target)
    except TimeoutError:
        if not scope.expired():
            raise
        return AttemptFailed(clock.now(), f"not acknowledged within {duration_text(limit)}")
