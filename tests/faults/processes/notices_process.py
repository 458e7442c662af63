"""What judges expectations, notifies recipients and delivers mail on a launcher, as a process.

`python -m tests.faults.processes.notices_process URL PORT`; PORT: of the mail server on this machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta

from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.config import Settings
from streamsched.ports.clock import SystemClock
from streamsched.ports.leases import LeaseHolder
from streamsched.roles.launcher import make_task_delivery, watching_loops, watching_roles
from streamsched.store.connections import open_pool
from streamsched.store.server.notifier import PostgresNotifier


async def main(url: str, port: str) -> None:
    settings = Settings.from_env(
        {},
        database_url=url,
        lease=timedelta(seconds=2),
        smtp_url=f"smtp+plain://127.0.0.1:{port}",
        mail_from="scheduler@example.org",
        mail_to="*=@example.org",
    )
    pool, clock, notifier = await open_pool(url), SystemClock(), PostgresNotifier(url)
    me = LeaseHolder(f"launcher-{os.getpid()}", "host", os.getpid())
    delivery = make_task_delivery(pool, notifier, me, clock, settings)
    loops = watching_loops(pool, notifier, clock)
    roles = watching_roles(settings, pool, MemoryBroker(MemoryLog(clock)), clock)
    running = [loops["expectations"](), roles["completions"](), roles["notices"]()]
    await asyncio.gather(delivery.run(), *running)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
