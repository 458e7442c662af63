"""An installation for benchmarks: a PostgreSQL in a scratch folder; catalog, relay, worker and intake in one process,
as in `streamsched dev`."""

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
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.triggers.trigger import Trigger
from streamsched.log.drivers import open_broker
from streamsched.log.topics import topic_specs
from streamsched.ports.broker import Broker
from streamsched.ports.clock import SystemClock
from streamsched.ports.leases import LeaseHolder
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.connections import open_pool
from streamsched.store.server.embedded_server import start_server, stop_server
from streamsched.store.server.leases import PostgresLeases
from streamsched.store.server.migrate import migrate
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.stream.shards.worker import Worker

SHARDS = 4


@contextmanager
def server() -> Iterator[str]:
    """URL of a temporary PostgreSQL server."""
    with tempfile.TemporaryDirectory(prefix="ss-bench-", ignore_cleanup_errors=True) as scratch:
        Path(scratch).chmod(0o755)
        folder = Path(scratch) / "pg"
        try:
            yield start_server(folder).url
        finally:
            stop_server(folder)


@dataclass(slots=True)
class Installation:
    """A migrated database that also has the log."""

    url: str
    pool: asyncpg.Pool
    broker: Broker

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Worker]:
        """A worker that runs every shard."""
        made = Worker(self.broker, PostgresLeases(self.pool), LeaseHolder("bench", platform.node(), 1))
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            await made.stop()
            await running

    async def deploy(self, schedules: dict[str, Trigger]) -> None:
        """Creates enabled schedules through the catalog and the relay."""
        app, program = AppRef("default", "bench"), ProgramRef("default", "bench", "noop")
        bell, outbox = PostgresNotifier(self.url), PostgresOutbox(self.pool)
        catalog = Catalog(
            store=CatalogStore(self.pool),
            reader=CatalogReader(self.pool),
            acks=outbox,
            notifier=bell,
            clock=SystemClock(),
        )
        relaying = asyncio.create_task(Relay(broker=self.broker, outbox=outbox, notifier=bell).run())
        made = tuple(
            Schedule(ScheduleRef("default", "bench", name), program, trigger) for name, trigger in schedules.items()
        )
        definition = AppDefinition(app, (Program(program, BashJob("true")),), made, frozenset(schedules))
        try:
            await catalog.deploy(definition).apply()
        finally:
            relaying.cancel()
            await asyncio.gather(relaying, return_exceptions=True)
            await bell.close()


@asynccontextmanager
async def fresh_installation(server_url: str, shards: int = SHARDS) -> AsyncIterator[Installation]:
    """A temporary installation in a new database of the server."""
    name = f"bench_{uuid4().hex[:10]}"
    admin = await asyncpg.connect(server_url)
    await admin.execute(f'CREATE DATABASE "{name}"')
    url = server_url.replace("/postgres?", f"/{name}?")
    await asyncio.to_thread(migrate, url)
    pool, broker = await open_pool(url), await open_broker(url)
    await broker.create_topics(topic_specs(shards, timedelta(days=1)))
    try:
        yield Installation(url, pool, broker)
    finally:
        await broker.close()
        await pool.close()
        await admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
        await admin.close()


def about(packages: Sequence[str]) -> str:
    """One line with machine and package versions."""
    memory = psutil.virtual_memory().total / 2**30
    cpu = next((line.split(": ")[1] for line in _cpuinfo() if line.startswith("model name")), platform.machine())
    versions = ", ".join(f"{package} {version(package)}" for package in packages)
    return f"{cpu}, {psutil.cpu_count()} cores, {memory:.0f} GB; Python {platform.python_version()}, {versions}"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
