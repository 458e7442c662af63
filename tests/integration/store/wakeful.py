"""Wake-ups asked for, taken and sent, in a house whose log and whose timers go by one clock."""

from __future__ import annotations

from datetime import timedelta

from streamsched.codec import signal as signal_codec
from streamsched.codec import wakeup
from streamsched.domain.effect import Wake
from streamsched.domain.event import schedule_key
from streamsched.domain.home import home
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signal import Woken
from streamsched.ports.broker import Outgoing
from streamsched.ports.topics import WAKEUPS
from streamsched.store.timers import PostgresTimers
from streamsched.store.wakes import PostgresWakes
from streamsched.timers.intake import WakeIntake
from streamsched.timers.loop import Timers

from .conftest import SHARDS, House, schedule

WEEKLY = schedule().ref
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def intake(house: House, store: PostgresWakes | None = None) -> WakeIntake:
    return WakeIntake(house.broker, store or PostgresWakes(house.pool), house.clock)


def timers(house: House) -> Timers:
    return Timers(store=PostgresTimers(house.pool), wakes=PostgresWakes(house.pool), bell=house.bell, clock=house.clock)


async def ask(house: House, *wakes: Wake) -> None:
    """The records a turn of the schedule's home appends."""
    shard = [home(schedule_key(wake.schedule), SHARDS) for wake in wakes]
    await house.broker.append(
        [Outgoing(WAKEUPS, n, *wakeup.encode(wake)) for n, wake in zip(shard, wakes, strict=True)]
    )


async def taken(house: House) -> int:
    """Everything the log has, brought into the table."""
    reading, total = intake(house), 0
    while got := await reading.run_once(timeout=0.01):
        total += got
    await reading.close()
    return total


async def sent(house: House) -> list[Woken]:
    """The wake-ups in the outbox, oldest first."""
    found: list[Woken] = []
    for record in await house.outbox.pending(limit=1000):
        signal = signal_codec.decode(record.key.encode(), record.value)
        assert isinstance(signal, Woken)
        assert record.key == schedule_key(signal.schedule)
        found.append(signal)
    return found


async def held(house: House) -> int:
    return await house.pool.fetchval("SELECT count(*) FROM wakes")


def wake(house: House, after: timedelta | None, cell: str = "", ref: ScheduleRef = WEEKLY, generation: int = 1) -> Wake:
    return Wake(ref, generation, cell, None if after is None else house.clock.now() + after)
