"""Expectations on a real PostgreSQL, with a settable clock and a log in memory that has the same time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

import asyncpg
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched import App
from streamsched.catalog import deployment
from streamsched.codec import event as event_codec
from streamsched.domain.events.event import CustomHappened, Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ExpectationRef
from streamsched.log.topics import PARTITIONS, topic_specs
from streamsched.ports.broker import Outgoing
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.expectations.evidence import CompletionStore, EvidenceStore
from streamsched.store.expectations.judgement import ExpectationStore
from streamsched.store.expectations.records import ExpectationReader, ExpectationRecord, StoredMiss
from streamsched.testing.clock import SettableClock
from streamsched.timers.evidence import CompletionIntake, EvidenceIntake
from streamsched.timers.expectations import ExpectationWatch
from tests.integration.tasks.task_world import SilentNotifier
from tests.support.world import HistoryLine, StoredWorld

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=each) for each in (1, 60, 3600, 86400))
#: A Sunday.
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class ExpectationWorld(StoredWorld):
    """One database, one clock, one log."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        super().__init__(pool)
        self.clock = SettableClock(NOW)
        self.broker = MemoryBroker(MemoryLog(self.clock))
        self.evidence = EvidenceStore(pool)
        self.intake = EvidenceIntake(self.broker, self.evidence, self.clock)
        self.completions = CompletionIntake(CompletionStore(pool), self.clock)
        self.reader = ExpectationReader(pool)
        self._ids = count(1)

    async def begin(self) -> None:
        await self.broker.create_topics(topic_specs(4, timedelta(days=7)))

    def watch(self) -> ExpectationWatch:
        """One launcher's watch."""
        return ExpectationWatch(ExpectationStore(self.pool), SilentNotifier(), self.clock)

    async def deploy(self, app: App, *, prunes: bool = True) -> None:
        wanted, now = app.definition(), self.clock.now()
        programs = [program.ref for program in wanted.programs]
        store = CatalogStore(self.pool)
        await store.change(
            wanted.ref,
            None,
            lambda found: deployment.deploy(found, wanted, update_schedules=True, now=now),
            now=now,
            programs=programs,
        )

    async def commit(self, dataset: str = "flights", *keys: Mapping[str, str], event: str | None = None) -> None:
        """A commit is appended to the log now."""
        ref = DatasetRef("default", dataset)
        partitions = tuple(
            Partition("/".join(f"{name}={value}" for name, value in key.items()), dict(key)) for key in keys
        )
        fact = PartitionsAdded(ref, partitions, max(1, len(partitions)))
        made = Event(event or f"e{next(self._ids)}", "test", self.clock.now(), fact)
        await self.broker.append([Outgoing(PARTITIONS, hash(made.id) % 4, None, event_codec.encode(made))])

    async def completed(self, schedule: str, sequence: int, arguments: Mapping[str, str] | None = None) -> None:
        """A run of a schedule has completed now."""
        now, job = self.clock.now(), f"{schedule}.1.{sequence}"
        program = f"{schedule.rpartition('.')[0]}.load"
        await self.add_job(job, program=program, at=now)
        await self.add_run(f"{job}.r1", program=program, at=now, job=job, arguments=arguments)
        await self.add_line("run", f"{job}.r1", "run.completed", now)

    async def look(self) -> datetime | None:
        """What came is read, and what is due is judged; returns when the next one is due."""
        await self.intake.copy_once(timeout=0)
        await self.completions.run_once()
        return await self.watch().run_once()

    async def look_at(self, at: datetime) -> datetime | None:
        """As `look`, at that time, and when what came up to then is settled."""
        self.clock.set(at)
        await self.look()
        self.clock.set(at + 2 * SECOND)
        return await self.look()

    async def record(self, name: str = "flights") -> ExpectationRecord:
        return await self.reader.get(ExpectationRef("default", "shop", name))

    async def misses(self, name: str = "flights") -> list[StoredMiss]:
        """Oldest first."""
        return list(reversed(await self.reader.misses(ExpectationRef("default", "shop", name), limit=1000)))

    async def events(self) -> list[CustomHappened]:
        """The custom events that were published."""
        values = await self.published("events")
        facts = [event_codec.decode(value, fallback_id="", fallback_time=NOW).fact for value in values]
        return [fact for fact in facts if isinstance(fact, CustomHappened)]

    async def lines(self, action: str) -> list[HistoryLine]:
        """Lines of the history of expectations, with an action."""
        return await self.history(kind="expectation", action=action)
