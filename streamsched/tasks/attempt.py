"""One attempt to deliver a task: sent only while its owner's lease lasts, and ended by its time limit, whatever the
receiver does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from streamsched.domain.tasks.attempt import LEASE_OVER, AttemptEnd, AttemptFailed, Interrupted, StartedTask, time_limit
from streamsched.domain.tasks.queue import Target
from streamsched.domain.time.duration import duration_text
from streamsched.ports.clock import Clock
from streamsched.ports.receiver import Receiver


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
