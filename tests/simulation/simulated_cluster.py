"""What lives in a simulation: two workers and two launchers, killed and restarted as by a supervisor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any, Final

from streamsched.catalog.relay import Relay
from streamsched.membership.singleton_role import SingletonRole
from streamsched.ports.leases import LeaseHolder
from streamsched.process.supervision import supervise
from streamsched.store.jobs.intake import JobIntake
from streamsched.stream.shards.shard import ShardSettings
from streamsched.stream.shards.shard_runner import BackOff
from streamsched.stream.shards.worker import Worker
from streamsched.telemetry.metrics import Metrics
from streamsched.timers.timers import Timers, WakeIntake
from tests.simulation.database import (
    Database,
    SimulationJobs,
    SimulationNotifier,
    SimulationOutbox,
    SimulationTimers,
    SimulationWakes,
)
from tests.simulation.fault import Fault
from tests.simulation.leases import SimulationLeases
from tests.simulation.log import Bug, SimulationBroker, SimulationClock, WatchedLog
from tests.simulation.loop import SimulationLoop
from tests.simulation.wire import Wire

#: How long a silent process keeps its leases.
TTL: Final = timedelta(seconds=3)


class SimulatedCluster:
    """The processes, by the place they have; a place's process has another name in each of its lives."""

    def __init__(
        self,
        loop: SimulationLoop,
        wire: Wire,
        log: WatchedLog,
        database: Database,
        *,
        max_records: int,
        few_records: int,
        bug: Bug | None,
    ) -> None:
        self._loop = loop
        self._wire = wire
        self._log = log
        self._database = database
        self._max_records, self._few_records = max_records, few_records
        self._bug = bug
        self._lives = 0
        self._alive: dict[str, tuple[str, str]] = {}
        self._away: dict[str, asyncio.TimerHandle] = {}
        self._halted: set[str] = set()
        self.failures: list[str] = []

    def open(self) -> None:
        for place in ("worker-1", "worker-2", "launcher-1", "launcher-2"):
            self._start(place, place)

    def killed(self, process: str, fault: Fault) -> None:
        place, identity = self._alive.pop(process)
        self._loop.kill(process)
        back = f"{place}-{self._lives}" if fault.renamed else identity
        self._away[place] = self._loop.call_later(fault.seconds, self._start, place, back, context=_world())

    def stopped(self, process: str, fault: Fault) -> None:
        self._halted.add(process)
        self._loop.stop_process(process)
        self._loop.call_later(fault.seconds, self._continue, process, context=_world())

    def _continue(self, process: str) -> None:
        self._halted.discard(process)
        self._loop.continue_process(process)

    def _start(self, place: str, identity: str) -> None:
        self._lives += 1
        process = f"{place}#{self._lives}"
        self._alive[process] = place, identity
        life = self._worker if place.startswith("worker") else self._launcher
        task = self._loop.spawn(process, life(identity))
        task.add_done_callback(lambda done: self._ended(process, done))

    def _ended(self, process: str, done: asyncio.Task[None]) -> None:
        if process in self._alive and not done.cancelled():
            self.failures.append(f"{process} ended by itself: {done.exception()!r}")

    async def _worker(self, identity: str) -> None:
        broker = SimulationBroker(self._log, self._wire, bug=self._bug)
        settings = ShardSettings(max_records=self._max_records, few_records=self._few_records, recovery_s=5.0)
        leases = SimulationLeases(self._database, self._wire)
        await Worker(
            broker, leases, LeaseHolder(identity, "host", 1), ttl=TTL, settings=settings, back_off=BackOff(0.1, 1.0)
        ).run()

    async def _launcher(self, identity: str) -> None:
        broker = SimulationBroker(self._log, self._wire, bug=self._bug)
        database, wire, clock = self._database, self._wire, SimulationClock(self._loop)
        leases, notifier = SimulationLeases(database, wire), SimulationNotifier(database)
        wakes = SimulationWakes(database, wire)

        def alone(name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Coroutine[Any, Any, None]]:
            part = SingletonRole(leases, name, identity, ttl=TTL)
            return lambda: part.run(work)

        await supervise(
            {
                "relay": alone(
                    "relay", Relay(broker=broker, outbox=SimulationOutbox(database, wire), notifier=notifier).run
                ),
                "intake": alone("intake", JobIntake(broker, SimulationJobs(database, wire), clock).run),
                "wake-ups": alone("wake-ups", WakeIntake(broker, wakes, clock).run),
                "timers": Timers(
                    store=SimulationTimers(database, wire), wakes=wakes, notifier=notifier, clock=clock
                ).run,
            },
            metrics=Metrics(),
        )


def _world() -> Any:
    from contextvars import Context

    return Context()
