"""An installation to measure: PostgreSQL of its own in a scratch folder, catalog, relay, worker and intake in one
process, as `streamsched dev` has them."""

from __future__ import annotations

import asyncio
import platform
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import asyncpg
import psutil

from streamsched.catalog.catalog import Catalog
from streamsched.catalog.relay import Relay
from streamsched.domain.app import AppDefinition
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import BashJob, Program, Schedule
from streamsched.domain.trigger import Trigger
from streamsched.ports.broker import Broker
from streamsched.ports.clock import SystemClock
from streamsched.ports.drivers import open_broker
from streamsched.ports.leases import Holder
from streamsched.ports.topics import topic_specs
from streamsched.store.bell import PostgresBell
from streamsched.store.catalog import PostgresCatalogStore
from streamsched.store.leases import PostgresLeases
from streamsched.store.listing import PostgresCatalogReader
from streamsched.store.migrate import migrate
from streamsched.store.outbox import PostgresOutbox
from streamsched.store.pool import open_pool
from streamsched.store.server import start_server, stop_server
from streamsched.stream.worker import Worker

SHARDS = 4


@contextmanager
def server() -> Iterator[str]:
    """URL of a PostgreSQL of our own, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ss-bench-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)
        folder = Path(scratch) / "pg"
        try:
            yield start_server(folder).url
        finally:
            stop_server(folder)


@dataclass(slots=True)
class Installation:
    """A migrated database with the log in it."""

    url: str
    pool: asyncpg.Pool
    broker: Broker

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """A worker that runs every shard."""
        made = Worker(self.broker, PostgresLeases(self.pool), Holder("bench", platform.node(), 1))
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            await made.stop()
            await running

    async def deploy(self, schedules: dict[str, Trigger]) -> None:
        """Creates enabled schedules through the catalog and the relay."""
        app, program = AppRef("default", "bench"), ProgramRef("default", "bench", "noop")
        bell, outbox = PostgresBell(self.url), PostgresOutbox(self.pool)
        catalog = Catalog(
            store=PostgresCatalogStore(self.pool),
            reader=PostgresCatalogReader(self.pool),
            receipts=outbox,
            bell=bell,
            clock=SystemClock(),
        )
        relaying = asyncio.create_task(Relay(broker=self.broker, outbox=outbox, bell=bell).run())
        made = tuple(
            Schedule(ScheduleRef("default", "bench", name), program, trigger) for name, trigger in schedules.items()
        )
        definition = AppDefinition(app, (Program(program, BashJob("true")),), made, frozenset(schedules))
        try:
            await catalog.deploy(definition)
        finally:
            relaying.cancel()
            await asyncio.gather(relaying, return_exceptions=True)
            await bell.close()


@asynccontextmanager
async def installation(server_url: str) -> AsyncIterator[Installation]:
    """A fresh one on that server."""
    name = f"bench_{uuid4().hex[:10]}"
    admin = await asyncpg.connect(server_url)
    await admin.execute(f'CREATE DATABASE "{name}"')
    url = server_url.replace("/postgres?", f"/{name}?")
    await asyncio.to_thread(migrate, url)
    pool, broker = await open_pool(url), await open_broker(url)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    try:
        yield Installation(url, pool, broker)
    finally:
        await broker.close()
        await pool.close()
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()


def about(packages: Sequence[str]) -> str:
    """Machine and versions, one line."""
    memory = psutil.virtual_memory().total / 2**30
    cpu = next((line.split(": ")[1] for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return f"{cpu}, {psutil.cpu_count()} cores, {memory:.0f} GB; Python {platform.python_version()}, {versions}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
