"""One worker as a process of its own: `python -m tests.faults.worker_process DATABASE LOG NAME LEASE_SECONDS`."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import signal
import sys
from datetime import timedelta

import structlog
import uvloop

from streamsched.ports.drivers import open_broker
from streamsched.ports.leases import Worker as Identity
from streamsched.store.leases import PostgresLeases
from streamsched.store.pool import open_pool
from streamsched.stream.worker import Worker


async def main(database: str, log: str, name: str, lease_s: float) -> None:
    pool, broker = await open_pool(database), await open_broker(log)
    identity = Identity(name, platform.node(), os.getpid())
    worker = Worker(broker, PostgresLeases(pool), identity, ttl=timedelta(seconds=lease_s))
    running = asyncio.create_task(worker.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    await asyncio.wait((running,))
    await broker.close()
    await pool.close()


if __name__ == "__main__":
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    uvloop.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
