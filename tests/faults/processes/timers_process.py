"""One launcher's timers as a process (ticks, wake-ups): `python -m tests.faults.processes.timers_process URL`."""

from __future__ import annotations

import asyncio
import sys

from streamsched.log.drivers import open_broker
from streamsched.ports.clock import SystemClock
from streamsched.store.connections import open_pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.timers.timers import Timers, WakeIntake


async def main(url: str) -> None:
    pool, notifier, clock = await open_pool(url), PostgresNotifier(url), SystemClock()
    wakes = PostgresWakes(pool)
    timers = Timers(store=PostgresTimers(pool), wakes=wakes, notifier=notifier, clock=clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(timers.run())
        group.create_task(WakeIntake(await open_broker(url), wakes, clock).run())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
