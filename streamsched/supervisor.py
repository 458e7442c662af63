"""Keeps loops alive: one that dies of an unexpected error is logged and started again, a little later each time. What
they stand on is waited for, and a process is told to end.
"""

from __future__ import annotations

import asyncio
import gc
import random
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import structlog
import uvloop

from streamsched.cancellation import TIDYING_UP, cancel, cancelled
from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.stream.worker import GC_THRESHOLDS
from streamsched.telemetry.metrics import Metrics

#: Seconds before a loop is started again; a run of more than `_HEALTHY` seconds starts the list anew.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HEALTHY: Final = 60.0
#: Seconds between two looks at what is away, at most, and between two lines about it.
_LOOK: Final = 2.0
_SAY: Final = 30.0

Loop = Callable[[], Awaitable[None]]
_T = TypeVar("_T")

log = structlog.get_logger()


async def supervise(loops: Mapping[str, Loop], *, metrics: Metrics) -> None:
    """Runs every loop until cancelled; each is restarted on its own and never disturbs another.

    A loop that returns is done and not started again. Cancelling this cancels all, and waits until they have ended.

    Raises:
        ConfigurationError: a loop says the installation is wrong; a restart cannot help, so all end.
    """
    tasks = [asyncio.create_task(_keep(name, loop, metrics), name=name) for name, loop in loops.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await cancel(*tasks, again_s=TIDYING_UP)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def once_there(what: str, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """What `attempt` returns, tried again while it says that the far end (`what`, for the log) is away: a role that was
    started before its database or its log waits for them. Says so at once, then every half a minute, and when the
    wait is over.

    Raises:
        ConfigurationError: as `attempt` does; waiting cannot help.
    """
    clock = asyncio.get_running_loop()
    began, pause = clock.time(), _PAUSES[0]
    said: float | None = None
    while True:
        try:
            found = await attempt()
        except UnavailableError as exc:
            if said is None or clock.time() - said >= _SAY:
                said = clock.time()
                log.warning("role.waits", what=what, reason=str(exc), seconds=round(said - began, 1))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LOOK)
        else:
            if said is not None:
                log.info("role.waited", what=what, seconds=round(clock.time() - began, 1))
            return found


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
            if cancelled():
                raise asyncio.CancelledError from exc
            if clock.time() - began > _HEALTHY:
                failures = 0
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            metrics.add("task_restarts_total", task=name)
            log.error("task.died", task=name, error=repr(exc), again_in_s=pause, exc_info=exc)
            await asyncio.sleep(pause)


def run_until_told(main: Coroutine[Any, Any, None]) -> None:
    """Runs `main` in a loop of its own; SIGINT, SIGTERM and SIGHUP cancel it, and this returns when it has ended."""
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_told(main))


async def _until_told(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(main)
    told: list[str] = []

    def tell(number: signal.Signals) -> None:
        log.info("process.told", signal=number.name)
        told.append(number.name)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, tell, number)
    try:
        await task
    except asyncio.CancelledError:
        if not told:
            raise
