"""The time of a process: PostgreSQL's clock, measured all the time, and what the process says of itself."""

from __future__ import annotations

from collections.abc import Mapping

from streamsched import __version__
from streamsched.domain.time.zone import tzdata_version
from streamsched.ports.clock import Clock, SystemClock
from streamsched.ports.leases import LeaseHolder
from streamsched.process.health import ProcessHealth
from streamsched.process.run_forever import run_forever
from streamsched.process.supervision import Loop, wait_until_available
from streamsched.store.connections import Pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.server.clock import PostgresClock
from streamsched.store.server.processes import Processes, ProcessRow
from streamsched.timers.tick_review import TickReview

#: Seconds between two rows of a process.
_EVERY_S = 30.0


async def measured_clock(pool: Pool, own: Clock | None, me: LeaseHolder, health: ProcessHealth) -> PostgresClock:
    """PostgreSQL's clock, measured once. `own`: the machine's. Waits while PostgreSQL is unavailable."""
    clock = PostgresClock(pool, own or SystemClock(), name=me.id)
    await wait_until_available("database", clock.compare)
    health.attach_clock(clock)
    return clock


def tick_review(pool: Pool, clock: Clock, measured: PostgresClock | None) -> TickReview:
    """The review of stored ticks."""
    judgement = (lambda: 0) if measured is None else (lambda: measured.judgement)
    return TickReview(PostgresTimers(pool), clock, judgement=judgement)


def clock_loops(clock: PostgresClock | None, pool: Pool, me: LeaseHolder, role: str) -> Mapping[str, Loop]:
    """The loops of every role; none when the process goes by another clock."""
    if clock is None:
        return {}
    processes = Processes(pool)

    async def step() -> float:
        own_ahead = clock.own_ahead.total_seconds()
        await processes.put(ProcessRow(me.id, role, me.host, me.pid, __version__, tzdata_version(), own_ahead))
        return _EVERY_S

    return {"clock": clock.run, "process": lambda: run_forever(step, called="process")}
