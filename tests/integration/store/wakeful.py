"""Wake-ups asked for, taken and sent, in a scheduler whose log and whose timers go by one clock."""

from __future__ import annotations

from datetime import timedelta

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import wakeup
from streamsched.domain.events.event import schedule_key
from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Woken
from streamsched.log.topics import WAKEUPS
from streamsched.ports.broker import Outgoing
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.timers.timers import Timers, WakeIntake

from .conftest import SHARDS, CatalogProcess, schedule

WEEKLY = schedule().ref
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def intake(scheduler: CatalogProcess, store: PostgresWakes | None = None) -> WakeIntake:
    return WakeIntake(scheduler.broker, store or PostgresWakes(scheduler.pool), scheduler.clock)


def timers(scheduler: CatalogProcess) -> Timers:
    return Timers(
        store=PostgresTimers(scheduler.pool),
        wakes=PostgresWakes(scheduler.pool),
        notifier=scheduler.notifier,
        clock=scheduler.clock,
    )


async def ask(scheduler: CatalogProcess, *wakes: Wake) -> None:
    """The records a turn of the schedule's home appends."""
    shard = [home(schedule_key(wake.schedule), SHARDS) for wake in wakes]
    await scheduler.broker.append(
        [Outgoing(WAKEUPS, n, *wakeup.encode(wake)) for n, wake in zip(shard, wakes, strict=True)]
    )


async def taken(scheduler: CatalogProcess) -> int:
    """Everything the log has, brought into the table."""
    reading, total = intake(scheduler), 0
    while got := await reading.run_once(timeout=0.01):
        total += got
    await reading.close()
    return total


async def sent(scheduler: CatalogProcess) -> list[Woken]:
    """The wake-ups in the outbox, oldest first."""
    found: list[Woken] = []
    affinities = dict(await scheduler.pool.fetch("SELECT id, affinity FROM schedules"))
    for record in await scheduler.outbox.list_pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Woken)
        assert record.key == schedule_key(signal.schedule, affinities[str(signal.schedule)])
        found.append(signal)
    return found


async def held(scheduler: CatalogProcess) -> int:
    return await scheduler.pool.fetchval("SELECT count(*) FROM wakes")


def wake(
    scheduler: CatalogProcess, after: timedelta | None, cell: str = "", ref: ScheduleRef = WEEKLY, generation: int = 1
) -> Wake:
    return Wake(ref, generation, cell, None if after is None else scheduler.clock.now() + after)
