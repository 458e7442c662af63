"""Supervises the loops of a process: restarts one that fails, waits for dependencies, ends the process on a signal."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

import structlog
import uvloop

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.process.cancellation import CLOSING_S, cancel, is_cancelled
from streamsched.process.closed_process import close_process
from streamsched.process.memory import configure_memory
from streamsched.telemetry.metrics import Metrics

#: Seconds before a failed loop is restarted; after a run of `_HEALTHY` seconds the sequence starts again.
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_HEALTHY: Final = 60.0
#: The longest pause in seconds between attempts at an unavailable dependency, and the interval of log lines about it.
_MAX_PAUSE: Final = 2.0
_LOG_INTERVAL: Final = 30.0

Loop = Callable[[], Awaitable[None]]
_T = TypeVar("_T")

log = structlog.get_logger()


async def supervise(loops: Mapping[str, Loop], *, metrics: Metrics) -> None:
    """Runs every loop until cancelled, and restarts each one that raises, independently of the others.

    A loop that returns is not restarted. Cancellation cancels all loops and waits until they have ended.

    Raises:
        ConfigurationError: raised by a loop; a restart cannot help, so all loops are cancelled.
    """
    tasks = [asyncio.create_task(_keep(name, loop, metrics), name=name) for name, loop in loops.items()]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await cancel(*tasks, retry_s=CLOSING_S)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def wait_until_available(what: str, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """The result of `attempt`, retried while it raises `UnavailableError`, so that a role may be started before its
    database or its log. `what`: the dependency, for the log; logs at once, then every 30 s, and when the wait ends.

    Raises:
        ConfigurationError: raised by `attempt`; waiting cannot help.
    """
    clock = asyncio.get_running_loop()
    began, pause = clock.time(), _PAUSES[0]
    logged: float | None = None
    while True:
        try:
            found = await attempt()
        except UnavailableError as exc:
            if logged is None or clock.time() - logged >= _LOG_INTERVAL:
                logged = clock.time()
                log.warning("role.waits", what=what, reason=str(exc), seconds=round(logged - began, 1))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _MAX_PAUSE)
        else:
            if logged is not None:
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
        except Exception as exc:  # any other failure is logged and counted, and the loop is restarted
            if is_cancelled():
                raise asyncio.CancelledError from exc
            if clock.time() - began > _HEALTHY:
                failures = 0
            pause = _PAUSES[min(failures, len(_PAUSES) - 1)]
            failures += 1
            metrics.add("task_restarts_total", task=name)
            log.error("task.died", task=name, error=repr(exc), again_in_s=pause, exc_info=exc)
            await asyncio.sleep(pause)


def disable_grpc_fork_handlers() -> None:
    """Call it before the process uses gRPC for the first time. With gRPC's handlers of `fork` a child may crash before
    it executes its program, up to 3 of 100 beside channels and servers of threads. What the user has set stays.
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def run_until_signal(main: Coroutine[Any, Any, None]) -> None:
    """Runs `main` in a new event loop; SIGINT, SIGTERM and SIGHUP cancel it. Returns when it has ended. The process is
    closed to others of its user from then on.
    """
    close_process()
    configure_memory()
    disable_grpc_fork_handlers()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signal(main))


async def _until_signal(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.create_task(main)
    received: list[str] = []

    def on_signal(number: signal.Signals) -> None:
        log.info("process.signal_received", signal=number.name)
        received.append(number.name)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, on_signal, number)
    try:
        await task
    except asyncio.CancelledError:
        if not received:
            raise
