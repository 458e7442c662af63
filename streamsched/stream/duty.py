"""A worker on duty: it runs, tells how its shards are, and is watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta

from streamsched.cancellation import cancel
from streamsched.ports.reports import Reports
from streamsched.stream.telling import Telling
from streamsched.stream.watchdog import Watchdog
from streamsched.stream.worker import Worker


async def on_duty(
    worker: Worker, reports: Reports, *, name: str, stuck_after: timedelta, excused: Callable[[], bool]
) -> None:
    """Runs the worker until it ends. Where it, or a shard of it that is not `excused`, gets nothing done for
    `stuck_after` (0: never), the whole process ends.
    """
    telling = asyncio.create_task(Telling(worker, reports, name).run(), name="streamsched-telling")
    patience_s = stuck_after.total_seconds()
    watched = Watchdog(worker.signs, patience_s=patience_s, excused=excused).watching() if patience_s else nullcontext()
    try:
        with watched:
            await worker.run()
    finally:
        await cancel(telling)
