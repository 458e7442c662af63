"""Processes of trials with Spark programs: `python -m tests.faults.spark.processes SOCKET`.

From one warm process the launcher is forked (the line `launcher`), and runners (the id of a run). Each does what the
product's process does; only Python's start and its imports are saved.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path

from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.clock import SystemClock
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.server.notifier import PostgresNotifier
from tests.faults.processes.warm_runners import WarmRunners, execute_run, serve

#: The line that requests a launcher.
LAUNCHER = "launcher"


async def launch(warm: Path) -> None:
    """A launcher without intake and relay, whose runners are forked, until it is killed."""
    url, data_dir, clock = (
        os.environ["STREAMSCHED_DATABASE_URL"],
        Path(os.environ["STREAMSCHED_DATA_DIR"]),
        SystemClock(),
    )
    pool, notifier = await open_pool(url, min_size=1, max_size=4), PostgresNotifier(url)
    timeouts = RunTimeouts(spawns=(timedelta(seconds=3),) * 10, silence=timedelta(seconds=3), attempts=50)
    monitor = RunMonitor(RunMonitorStore(pool), WarmRunners(data_dir, warm), clock, timeouts)
    await Launcher(DecisionStore(pool), monitor, notifier, clock).run()


def execute(path: Path, line: str) -> None:
    """The launcher or the run that the line names, from here to its end."""
    if line != LAUNCHER:
        execute_run(line)
    os.setsid()
    asyncio.run(launch(path))
    os._exit(0)


def requested(path: Path, line: str) -> int:
    """The id of the process that was forked for the line."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(line.encode() + b"\n")
        return int(connection.recv(32))


if __name__ == "__main__":
    socket_path = Path(sys.argv[1])
    serve(socket_path, partial(execute, socket_path))
