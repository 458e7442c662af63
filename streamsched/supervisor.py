"""Keeps loops alive: one that dies of an unexpected error is logged and started again, a little later each time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from streamsched.domain.errors import ConfigurationError
from streamsched.telemetry.metrics import Metrics

#: Seconds before a loop is started again; a run of more than `_HEALTHY` seconds starts the list anew.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HEALTHY: Final = 60.0

Loop = Callable[[], Awaitable[None]]

log = structlog.get_logger()


async def supervise(loops: Mapping[str, Loop], *, metrics: Metrics) -> None:
    """Runs every loop until cancelled; each is restarted on its own and never disturbs another.

    A loop that returns is done and not started again. Cancelling this cancels all, and waits until they have ended.

    Raises:
        ConfigurationError: a loop says the installation is wrong; a restart cannot help, so all end.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for name, loop in loops.items():
                group.create_task(_keep(name, loop, metrics), name=name)
    except ExceptionGroup as several:
        raise several.exceptions[0] from several


async def _keep(name: str, loop: Loop, metrics: Metrics) -> None:
    clock = asyncio.get_running_loop()
    failures = 0
    while True:
        began = clock.time()
        try:
            await loop()
            log.info("task.ended", task=name)
            return
        except ConfigurationError:
            raise
        except Exception as exc:  # whatever it was: said aloud, counted, and tried again
            if clock.time() - began > _HEALTHY:
                failures = 0
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            metrics.add("task_restarts_total", task=name)
            log.error("task.died", task=name, error=repr(exc), again_in=pause, exc_info=exc)
            await asyncio.sleep(pause)
