"""Where tasks are delivered to."""

from __future__ import annotations

from typing import Protocol

from streamsched.domain.tasks.attempt import AttemptEnd, StartedTask
from streamsched.domain.tasks.queue import Target


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
