"""Ending tasks that may not hear it the first time."""

from __future__ import annotations

import asyncio
from typing import Any, Final

#: Seconds in which a task ends that leaves nothing behind, and one that has readers, writers or leases to give back.
AT_ONCE: Final = 1.0
TIDYING_UP: Final = 15.0


async def cancel(*tasks: asyncio.Future[Any], again_s: float = AT_ONCE) -> None:
    """Returns when all have ended, in whatever way. They are asked every `again_s` seconds, which is to be longer than
    what they do at their end may take: the next cancellation would cut that short.

    Once is not enough. Until Python 3.12 `asyncio.wait_for` drops a cancellation that meets what was waited for, and a
    driver whose connection breaks just then raises its own error instead: a loop that goes on after errors would go on
    for ever, and so would whoever waits for its end.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=again_s)


def cancelled() -> bool:
    """Whether this task was asked to end. One that goes on after errors asks when it has one: it may have come in the
    place of the cancellation.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
