"""Runs a worker with its status reporter and its watchdog."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext

from streamsched.ports.reports import ReportStore
from streamsched.process.cancellation import cancel
from streamsched.stream.shards.status_reporter import StatusReporter
from streamsched.stream.shards.watchdog import Watchdog
from streamsched.stream.shards.worker import Worker


async def run_worker(worker: Worker, reports: ReportStore, *, name: str, watchdog: Watchdog | None) -> None:
    """Runs the worker until it ends. `watchdog` ends the process when the event loop or a shard is stuck."""
    reporting = asyncio.create_task(StatusReporter(worker, reports, name).run(), name="streamsched-status-reporter")
    try:
        with nullcontext() if watchdog is None else watchdog.watch():
            await worker.run()
    finally:
        await cancel(reporting)
