"""One launcher's timers as a process: ticks, and wake-ups from the log. `python -m tests.faults.timers_process URL`."""

from __future__ import annotations

import asyncio
import sys

from streamsched.ports.clock import SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.store.bell import PostgresBell
from streamsched.store.pool import open_pool
from streamsched.store.timers import PostgresTimers
from streamsched.store.wakes import PostgresWakes
from streamsched.timers.intake import WakeIntake
from streamsched.timers.loop import Timers


async def main(url: str) -> None:
    pool, bell, clock = await open_pool(url), PostgresBell(url), SystemClock()
    wakes = PostgresWakes(pool)
    timers = Timers(store=PostgresTimers(pool), wakes=wakes, bell=bell, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(timers.run())
        group.create_task(WakeIntake(await open_broker(url), wakes, clock).run())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
