"""A worker on duty: it runs, tells how its shards are, and is watched."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from streamsched.cancellation import cancel
from streamsched.ports.reports import Reports
from streamsched.stream.telling import Telling
from streamsched.stream.watchdog import Watchdog
from streamsched.stream.worker import Worker


async def on_duty(worker: Worker, reports: Reports, *, name: str, watchdog: Watchdog | None) -> None:
    """Runs the worker until it ends. Where it, or a shard of it, is stuck as `watchdog` sees it, the whole process
    ends.
    """
    telling = asyncio.create_task(Telling(worker, reports, name).run(), name="streamsched-telling")
    try:
        with nullcontext() if watchdog is None else watchdog.watching():
            await worker.run()
    finally:
        await cancel(telling)
