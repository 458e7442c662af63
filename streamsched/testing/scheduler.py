"""A whole scheduler in one process on a clock that the test sets: catalog, log, shards, timers, launcher.

Only programs are left out: a run stays RUNNING until the test says how it ended. PostgreSQL is real, the log is in
memory, because its records must have the times of that clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.catalog.catalog import Catalog
from streamsched.catalog.relay import Relay
from streamsched.define.app import App
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.events.event import Event
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.app import AppDefinition
from streamsched.emit import EventDraft
from streamsched.emit.draft import complete_event
from streamsched.launcher.loop import Launcher
from streamsched.launcher.run_monitor import RunMonitor, RunTimeouts
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import Assignment, RunEnd
from streamsched.process.cancellation import cancel
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.catalog.catalog_reader import CatalogReader
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.connections import Pool, open_pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.jobs.decisions import DecisionStore
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.runs.run_monitor import RunMonitorStore
from streamsched.store.runs.run_queries import RunQueries
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.testing.clock import SettableClock
from streamsched.testing.shards import Shards
from streamsched.timers.timers import Timers, WakeIntake

#: When the clock of a scheduler starts, unless a test says otherwise.
MONDAY: Final = datetime(2026, 3, 2, 12, tzinfo=UTC)
_RUNNER: Final = RunnerId("scheduler", 1, 1)
#: As many passes as things may take to come to rest, however they follow from one another.
_PASSES: Final = 200
#: Seconds until the outbox is empty, at most.
_RELAYED_S: Final = 20.0
#: Jobs that are read at a time.
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Run:
    """A run as its program saw it begin.

    Attributes:
        program, schedule: their names in their app; `schedule` None: it was started by hand.
        started_at: UTC.
        events: ids of those that satisfied its trigger, leaf by leaf, in order of arrival.
    """

    id: str
    program: str
    schedule: str | None
    started_at: datetime
    arguments: Mapping[str, str] = field(hash=False)
    events: tuple[str, ...]


class _Runners:
    """`ports.runner.Runners`: what is spawned is claimed at the next pass."""

    def __init__(self) -> None:
        self.spawned: list[str] = []

    def spawn(self, run: str, kind: ProcessKind) -> None:
        del kind
        self.spawned.append(run)

    def fence(self, run: str) -> None:
        """Its programs have no outputs."""

    def fence_room(self) -> int:
        return 0

    def places(self) -> Mapping[ProcessKind, int]:
        return dict.fromkeys(ProcessKind, 1000)

    def room(self, kind: ProcessKind) -> int:
        del kind
        return 1000

    def is_alive(self, runner: RunnerId) -> bool | None:
        return runner == _RUNNER

    def end_note(self, run: str) -> RunEnd | None:
        del run
        return None


class InProcessScheduler:
    """Everything comes to rest after each of its verbs, at the time its clock shows.

    Attributes:
        clock: move it by `advance` and `until`, or move it yourself and call `rest`.
        catalog: administration, such as `disable`, `pause` and `update`. Call `rest` after it.
        jobs: what is known of jobs.
        by_hand: starts programs by hand. Call `rest` after it.
        runs: every run that has begun, in order; `active`: those that go on, by id.
    """

    def __init__(self, pool: Pool, notifier: PostgresNotifier, cluster: Shards, clock: SettableClock) -> None:
        self.pool = pool
        self.clock = clock
        self.cluster = cluster
        self.jobs = JobStore(pool)
        self.by_hand = RunQueries(pool)
        self._outbox = PostgresOutbox(pool)
        self.catalog = Catalog(
            store=CatalogStore(pool),
            reader=CatalogReader(pool),
            acks=self._outbox,
            notifier=notifier,
            clock=clock,
        )
        self.runs: list[Run] = []
        self.active: dict[str, Run] = {}
        self._run_store = RunMonitorStore(pool)
        self._runners = _Runners()
        self._notifier = notifier
        self._intake = JobIntake(cluster.broker, PostgresIntake(pool), clock)
        self._wake_intake = WakeIntake(cluster.broker, PostgresWakes(pool), clock)
        self._start_loops()

    def _start_loops(self) -> None:
        run_monitor = RunMonitor(self._run_store, self._runners, self.clock, RunTimeouts(jitter=0))
        self._launcher = Launcher(DecisionStore(self.pool), run_monitor, self._notifier, self.clock)
        self._timers = Timers(
            store=PostgresTimers(self.pool), wakes=PostgresWakes(self.pool), notifier=self._notifier, clock=self.clock
        )

    async def deploy(self, app: App | AppDefinition, *, update_schedules: bool = True) -> None:
        """Deploys an app, as `streamsched deploy` does.

        Raises:
            InvalidError, ConflictError: as `Catalog.deploy`.
        """
        definition = app.definition() if isinstance(app, App) else app
        await self.catalog.deploy(definition, update_schedules=update_schedules).apply()
        await self.rest()

    async def emit(self, *what: EventDraft | Event) -> None:
        """Events come, all at once. A draft without a time is of now; see `streamsched.emit`."""
        await self.cluster.emit(*(complete_event(each, source="test", now=self.clock.now()) for each in what))
        await self.rest()

    async def advance(self, by: timedelta) -> None:
        """Time passes, in one leap: what would have happened in between happens late."""
        self.clock.advance(by)
        await self.rest()

    async def until(self, moment: datetime, *, step: timedelta = timedelta(minutes=10)) -> None:
        """Time passes until a moment (UTC), step by step: what is due in a step happens at its end."""
        while self.clock.now() < moment:
            await self.advance(min(step, moment - self.clock.now()))

    async def end(self, run: Run, state: RunState = RunState.COMPLETED) -> None:
        """The program of an active run ends."""
        del self.active[run.id]
        await self._run_store.finish(run.id, RunEnd(state, "as the test wants", self.clock.now()))
        await self.rest()

    async def end_all(self) -> None:
        """Every program that runs succeeds, and those that follow from it, until none is left."""
        while self.active:
            await self.end(next(iter(self.active.values())))

    async def fail_over(self, after: timedelta) -> None:
        """Nothing runs for a while: no shard, no timer, no launcher. Then others take over."""
        await self.cluster.stop()
        self.clock.advance(after)
        await self.cluster.start()
        self._start_loops()
        await self.rest()

    async def job_states(self) -> dict[str, str]:
        """The state of each job by its id, in the order in which they came."""
        found, before = dict[str, str](), None
        while page := await self.jobs.list_recent(limit=_PAGE, before=before):
            found |= {each.id: each.state.value for each in page}
            before = page[-1].created_at, page[-1].id
        return dict(reversed(found.items()))

    async def rest(self) -> None:
        """Until nothing more follows from what has happened.

        Raises:
            AssertionError: it never ends.
        """
        for _ in range(_PASSES):
            if not await self._pass():
                return
        raise AssertionError(f"still restless after {_PASSES} passes")

    async def _pass(self) -> bool:
        """Whether something happened, from which more may follow."""
        await self.cluster.settle()
        before = await self.cluster.ends()
        stored = await self._wake_intake.run_once(timeout=0)
        await self._timers.run_once()
        stored += await self._intake.run_once(timeout=0)
        decided = await self._launcher.run_once()
        spawned, self._runners.spawned = self._runners.spawned, []
        for run in spawned:
            await self._begin(run)
        async with asyncio.timeout(_RELAYED_S):
            while await self._outbox.list_pending(limit=1):  # noqa: ASYNC110 - the relay is at it
                await asyncio.sleep(0.002)
        return bool(stored or decided or spawned) or before != await self.cluster.ends()

    async def _begin(self, name: str) -> None:
        now = self.clock.now()
        assigned = await self._run_store.claim(name, runner=str(_RUNNER), log_path="", now=now)
        if assigned is not None:
            await self._run_store.mark_started(name, runner=str(_RUNNER), now=now)
            run = _run(assigned, now)
            self.runs.append(run)
            self.active[name] = run


def _run(assigned: Assignment, now: datetime) -> Run:
    ready, schedule = assigned.ready, assigned.schedule
    parts = () if ready is None else ready.contributions
    return Run(
        assigned.run,
        assigned.program.ref.name,
        None if schedule is None else schedule.ref.name,
        now,
        assigned.arguments,
        tuple(event.id for part in parts for event in part.events),
    )


@asynccontextmanager
async def open_scheduler(url: str, *, now: datetime = MONDAY, shards: int = 2) -> AsyncIterator[InProcessScheduler]:
    """A scheduler on an empty database (`testing.databases`), until the end of the block. `now`: what its clock shows
    (UTC).
    """
    clock = SettableClock(now)
    async with AsyncExitStack() as held:
        pool = await open_pool(url, min_size=1, max_size=6)
        held.push_async_callback(pool.close)
        notifier = PostgresNotifier(url)
        held.push_async_callback(notifier.close)
        cluster = await Shards.create(MemoryBroker(MemoryLog(clock)), shards)
        await cluster.start()
        held.push_async_callback(cluster.stop)
        relay = asyncio.create_task(Relay(broker=cluster.broker, outbox=PostgresOutbox(pool), notifier=notifier).run())
        try:
            yield InProcessScheduler(pool, notifier, cluster, clock)
        finally:
            await cancel(relay)
