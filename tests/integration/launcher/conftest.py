"""A launcher's world on a real PostgreSQL: definitions, ready jobs, runner processes that are only counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from streamsched_brokers.memory import open_broker

from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.constraints.constraint import Constraint
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.decisions.decision_batch import judge_programs
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, Executable, Program, Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.log.topics import LAUNCH, topic_specs
from streamsched.ports.broker import Broker, Outgoing
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd
from streamsched.store.connections import open_pool
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.runs.run_queries import RunQueries
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.testing.clock import SettableClock
from tests.support.world import StoredWorld

SHARDS = 4
PROGRAM = ProgramRef("default", "app", "load")
LEAF = CustomEvent(EventName("default", "go"))


class CountedRunners:
    """`ports.runner.Runners` that starts nothing: tests claim the runs themselves."""

    def __init__(self) -> None:
        self.spawned: list[str] = []
        self.free = 100
        self.fenced: list[str] = []
        self.called = asyncio.Event()
        self.living: dict[RunnerId, bool] = {}
        self.checked: list[RunnerId] = []
        self.endings: dict[str, RunEnd] = {}

    def spawn(self, run: str, kind: ProcessKind) -> None:
        del kind
        self.spawned.append(run)
        self.called.set()

    def fence(self, run: str) -> None:
        self.fenced.append(run)

    def fence_room(self) -> int:
        return 100

    def places(self) -> Mapping[ProcessKind, int]:
        return dict.fromkeys(ProcessKind, self.free)

    def room(self, kind: ProcessKind) -> int:
        del kind
        return self.free

    def is_alive(self, runner: RunnerId) -> bool | None:
        self.checked.append(runner)
        return self.living.get(runner)

    def end_note(self, run: str) -> RunEnd | None:
        return self.endings.get(run)


class World(StoredWorld):
    """Everything a launcher touches, and a few verbs to move it."""

    def __init__(self, dsn: str, pool: asyncpg.Pool, broker: Broker) -> None:
        super().__init__(pool)
        self.dsn = dsn
        self.broker = broker
        self.clock = SettableClock(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))
        self.runners = CountedRunners()
        self.notifier = PostgresNotifier(dsn)
        self.run_store = RunMonitorStore(pool)
        self.jobs = JobStore(pool)
        self.runs = RunQueries(pool)
        self.decisions = DecisionStore(pool)
        self.run_monitor = RunMonitor(self.run_store, self.runners, self.clock, RunTimeouts(jitter=0))
        self.launcher = Launcher(self.decisions, self.run_monitor, self.notifier, self.clock)

    async def decide(self, *programs: str) -> None:
        """Decides about these programs alone, as one batch."""
        now = self.clock.now()
        async with self.decisions.lock(programs, now=now, limit=9) as batch:
            await batch.store(judge_programs(batch.inputs, batch.resources, now=now))

    def intake(self) -> JobIntake:
        return JobIntake(self.broker, PostgresIntake(self.pool), self.clock)

    async def define(self, *schedules: Schedule, enabled: bool = True, generation: int = 1) -> None:
        now = self.clock.now()
        for schedule in schedules:
            program = Program(schedule.program, BashJob("true"), {"a": "program", "b": "program"})
            app = str(schedule.ref.owner)
            await self.pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
            await self.pool.execute("INSERT INTO apps VALUES ($1, 'default', $2, $2) ON CONFLICT DO NOTHING", app, now)
            await self.pool.execute(
                "INSERT INTO programs VALUES ($1, $2, $3, $4, $4) ON CONFLICT DO NOTHING",
                *(str(program.ref), app, program_to_json(program), now),
            )
            await self.pool.execute(
                "INSERT INTO schedules VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (id) DO UPDATE "
                "SET definition = excluded.definition, generation = excluded.generation, enabled = excluded.enabled",
                *(str(schedule.ref), app, str(schedule.program), schedule_to_json(schedule), generation, enabled, now),
            )

    async def execute(self, executable: Executable) -> None:
        """From here on the program is this."""
        await self.put_program(Program(PROGRAM, executable, {"a": "program"}))

    def ready(self, schedule: Schedule, sequence: int, *, generation: int = 1, events: int = 1) -> ReadyJob:
        now = self.clock.now()
        happened = tuple(
            Event(f"{sequence}-{n}", "test", now, CustomHappened(EventName("default", "go"))) for n in range(events)
        )
        return ReadyJob(schedule.ref, generation, sequence, now, (Contribution(leaf_id(LEAF), events, happened),))

    async def emit(self, jobs: Sequence[ReadyJob]) -> None:
        await self.broker.append(
            [
                Outgoing(LAUNCH, home(f"schedule:{job.schedule}", SHARDS), job.id.encode(), launch.encode(job))
                for job in jobs
            ]
        )

    async def satisfy(self, *jobs: ReadyJob) -> None:
        """The jobs are in the table, as intake leaves them."""
        await self.emit(jobs)
        intake = self.intake()
        while await intake.run_once(timeout=0.01):
            pass
        await intake.close()

    async def states(self) -> dict[str, str]:
        return {each.id.split(".", 2)[2]: each.state for each in await self.stored_jobs()}


def schedule(name: str, **fields: Any) -> Schedule:
    plain = Schedule(ScheduleRef("default", "app", name), PROGRAM, LEAF)
    return replace(plain, **fields)


MINUTE = timedelta(minutes=1)


def sharing(name: str, *constraints: Constraint, **fields: Any) -> Schedule:
    """A schedule of a program of its own; each of its jobs waits by itself."""
    plain = schedule(name, constraints=constraints, overlap=Overlap.QUEUE, **fields)
    return replace(plain, program=ProgramRef("default", "app", f"program-{name}"))


@pytest.fixture
async def world(database: str) -> AsyncIterator[World]:
    pool = await open_pool(database, min_size=1, max_size=6)
    broker = await open_broker("memory://")
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    world = World(database, pool, broker)
    try:
        yield world
    finally:
        await world.notifier.close()
        await broker.close()
        await pool.close()
