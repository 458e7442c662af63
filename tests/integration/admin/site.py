"""An installation with a worker and a relay, as administrators find it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import asyncpg

from streamsched.admin import resync, state
from streamsched.admin.checks.check_result import CheckLevel
from streamsched.admin.doctor import examine
from streamsched.admin.installation import Installation, open_installation
from streamsched.admin.restoration import restore
from streamsched.admin.topics import create_topics
from streamsched.catalog.catalog import Catalog
from streamsched.catalog.outbox_ack import wait_for_ack
from streamsched.catalog.relay import Relay
from streamsched.config import Settings
from streamsched.domain.errors import NotFoundError
from streamsched.domain.events.event import partition_key
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.app import AppDefinition
from streamsched.domain.schedules.schedule import BashJob, Program, Schedule
from streamsched.domain.signals.home import key_hash
from streamsched.domain.triggers.trigger import Partitions
from streamsched.ports import leases
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.connections import open_pool
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.server.leases import PostgresLeases
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.worker import Worker
from streamsched.testing.clock import SettableClock
from tests.support.shard_cluster import ShardCluster, landed
from tests.support.world import StoredWorld

SHARDS = 3
APP = AppRef("default", "a")
RUN = Program(ProgramRef("default", "a", "run"), BashJob("true"))


def schedule(name: str, count: int = 3) -> Schedule:
    return Schedule(ScheduleRef("default", "a", name), RUN.ref, Partitions(DatasetRef("default", name), count))


def affinity(name: str) -> int:
    """Where a schedule lives: with its dataset."""
    return key_hash(partition_key(DatasetRef("default", name)))


@dataclass
class Site:
    """An installation with a worker and a relay that can be started and stopped."""

    at: Installation
    cluster: ShardCluster
    catalog: Catalog
    pool: asyncpg.Pool
    worker: Worker | None = None
    tasks: tuple[asyncio.Task[Any], ...] = ()

    async def start(self) -> None:
        relay = Relay(broker=self.at.broker, outbox=self.at.outbox, notifier=self.at.notifier)
        identity = leases.LeaseHolder("w", "localhost", 1)
        settings = ShardSettings(idle_s=0.1)
        self.worker = Worker(
            self.at.broker, PostgresLeases(self.pool), identity, ttl=timedelta(seconds=1), settings=settings
        )
        self.tasks = asyncio.create_task(relay.run()), asyncio.create_task(self.worker.run())

    async def stop(self) -> None:
        if self.worker is not None:
            await self.worker.stop()
            await asyncio.wait(self.tasks[1:], timeout=20)
            self.worker = None
        for task in self.tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        self.tasks = ()

    async def faults(self) -> list[str]:
        found = await resync.examine(
            broker=self.at.broker, reader=self.at.reader, outbox=self.at.outbox, numbers=self.at.numbers
        )
        return [f"{fault.schedule.name}: {fault.text}" for fault in found]

    async def mend(self) -> int:
        found = await resync.examine(
            broker=self.at.broker, reader=self.at.reader, outbox=self.at.outbox, numbers=self.at.numbers
        )
        reported = await resync.mend(found, mending=self.at.mending)
        await wait_for_ack(reported, acks=self.at.outbox, notifier=self.at.notifier, patience=15)
        return len(reported)

    async def state(self, name: str) -> Mapping[str, Any]:
        """What its shard has of a schedule."""
        return await state.show(self.at.broker, schedule(name).ref, affinity(name))

    async def have(self, name: str) -> int:
        """What its shard has of the one leaf of a schedule."""
        return (await self.state(name))["progress"]["have"]

    async def counts(self, name: str, count: int) -> bool:
        """Whether its shard has so many; it may not have heard of the schedule yet."""
        with suppress(NotFoundError):
            return await self.have(name) == count
        return False

    async def fire(self, name: str, which: int) -> None:
        """One more satisfaction of the schedule, its `which`th: three partitions land and are used up."""
        before = (await self.state(name))["fired"]
        await self.cluster.emit(*(landed(3 * which + each, name) for each in range(3)))

        async def fired() -> bool:
            return (await self.state(name))["fired"] == before + 1

        await until(fired)

    async def jobs(self) -> list[str]:
        """What launchers have of all that the log says is ready, in order."""
        intake = JobIntake(self.at.broker, PostgresIntake(self.pool), SettableClock())
        while await intake.run_once(timeout=0.2):
            pass
        await intake.close()
        return [job.id for job in await StoredWorld(self.pool).stored_jobs()]

    async def restore(self, lines: Iterable[bytes]) -> int:
        at, me = self.at, leases.LeaseHolder("import", "localhost", 1)
        return await restore(
            lines, broker=at.broker, leases=at.leases, me=me, numbers=at.numbers, ttl=timedelta(seconds=5)
        )

    async def doctor(self) -> dict[str, CheckLevel]:
        findings = await examine(
            broker=self.at.broker,
            probe=self.at.probe,
            clock=self.at.clock,
            specs=self.at.specs,
            revisions=self.at.revisions,
        )
        return {each.check: each.health for each in findings}


@asynccontextmanager
async def opened(database: str) -> AsyncIterator[Site]:
    """A site that works: three schedules, each for three partitions of the dataset of its name."""
    async with open_installation(Settings.from_env({}, database_url=database, shards=SHARDS)) as at:
        await create_topics(at.broker, at.specs)
        pool = await open_pool(database)
        catalog = Catalog(
            store=CatalogStore(pool),
            reader=at.reader,
            acks=at.outbox,
            notifier=at.notifier,
            clock=SettableClock(),
        )
        made = Site(at, ShardCluster(at.broker, SHARDS), catalog, pool)
        await made.start()
        await catalog.deploy(
            AppDefinition(APP, (RUN,), tuple(map(schedule, "xyz")), frozenset("xyz")),
        ).apply()
        yield made
        await made.stop()
        await pool.close()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - what is watched is the log
            await asyncio.sleep(0.05)
