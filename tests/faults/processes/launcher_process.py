"""A launcher without intake and relay: `python -m tests.faults.processes.launcher_process URL LEASE_SECONDS`."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from streamsched.domain.addresses import EVERYWHERE
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.loop import Launcher
from streamsched.launcher.recovery import Recovery
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.clock import SystemClock
from streamsched.process.http_client import HttpClient
from streamsched.spark.processes import LocalRunners, this_process
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.runs.launchers import LauncherLeases
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.notifier import PostgresNotifier


async def main(url: str, lease: timedelta) -> None:
    pool, notifier, clock = await open_pool(url), PostgresNotifier(url), SystemClock()
    inline = InlineExecutor(RunBatch(pool), this_process(), HttpClient(EVERYWHERE), clock)
    runners = LocalRunners(Path("unused"), {})
    recovery = Recovery(LauncherLeases(pool), runners, inline.runner, clock, ttl=lease, attempts=20)
    monitor = RunMonitor(RunMonitorStore(pool), runners, clock, RunTimeouts(attempts=20), inline=inline)
    launcher = Launcher(DecisionStore(pool), monitor, notifier, clock, inline=inline)
    await recovery.renew()
    async with asyncio.TaskGroup() as group:
        for loop in (recovery.run, inline.run, launcher.run):
            group.create_task(loop())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], timedelta(seconds=float(sys.argv[2]))))
