"""Cancels tasks that may miss a cancellation."""

from __future__ import annotations

import asyncio
from typing import Any, Final

#: `retry_s` for tasks without cleanup, and for tasks that close readers or writers or release leases.
NO_CLEANUP_S: Final = 1.0
CLOSING_S: Final = 15.0
#: Seconds that deliveries in progress may go on when their process stops; shorter than `CLOSING_S`.
STOPPING_S: Final = 5.0


async def cancel(*tasks: asyncio.Future[Any], retry_s: float = NO_CLEANUP_S) -> None:
    """Cancels the tasks, again every `retry_s` seconds, and returns when all have ended. `retry_s` must exceed the
    duration of their cleanup, which a second cancellation would interrupt.

    One cancellation may not suffice. Until Python 3.12 `asyncio.wait_for` loses one that arrives together with the
    awaited result, and a driver whose connection breaks at that moment raises its own error instead; a loop that
    retries after errors would then run forever.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=retry_s)


def is_cancelled() -> bool:
    """Whether this task was cancelled. A task that retries after errors checks this after each one: the error may have
    replaced the cancellation.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
