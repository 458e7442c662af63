"""One launcher's watch over deadlines as a process. `python -m tests.faults.processes.deadlines_process URL`."""

from __future__ import annotations

import asyncio
import sys

from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.ports.clock import SystemClock
from streamsched.store.connections import open_pool
from streamsched.store.runs.deadlines import DeadlineStore
from streamsched.store.server.notifier import PostgresNotifier


async def main(url: str) -> None:
    pool = await open_pool(url)
    await DeadlineWatch(DeadlineStore(pool), PostgresNotifier(url), SystemClock()).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
