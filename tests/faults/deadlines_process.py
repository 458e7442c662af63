"""One launcher's watch over deadlines as a process. `python -m tests.faults.deadlines_process URL`."""

from __future__ import annotations

import asyncio
import sys

from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.ports.clock import SystemClock
from streamsched.store.bell import PostgresBell
from streamsched.store.deadlines import PostgresDeadlines
from streamsched.store.pool import open_pool


async def main(url: str) -> None:
    pool = await open_pool(url)
    await DeadlineWatch(PostgresDeadlines(pool), PostgresBell(url), SystemClock()).run()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
