"""Deadlines all the way round: shards ask, timers wake them, the relay brings it to them. In real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from streamsched.catalog.relay import Relay
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.events.event import schedule_key
from streamsched.domain.names import DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.domain.signals.signal import Occurred, Put, Woken
from streamsched.domain.triggers.timed import OnExpiry, Quiet, Within
from streamsched.domain.triggers.trigger import Partitions, Trigger
from streamsched.log.drivers import open_broker
from streamsched.log.topics import JUDGED, SIGNALS
from streamsched.ports.broker import Broker
from streamsched.ports.clock import SystemClock
from streamsched.store.catalog.outbox import PostgresOutbox
from streamsched.store.connections import open_pool
from streamsched.store.events.timers import PostgresTimers
from streamsched.store.events.wakes import PostgresWakes
from streamsched.store.server.notifier import PostgresNotifier
from streamsched.stream.shards.shard import ShardSettings
from streamsched.timers.timers import Timers, WakeIntake
from tests.support.judged_order import read_arrived, stamped
from tests.support.rerun import Stamped, rerun
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

SHARDS = 2
FLIGHTS = Partitions(DatasetRef("default", "flights"), 3)
MOMENT = timedelta(seconds=1)


class Round:
    """Shards and everything of the timers' room, on the log that PostgreSQL holds."""

    def __init__(self, url: str, pool: asyncpg.Pool, broker: Broker) -> None:
        self.pool = pool
        self.cluster = ShardCluster(broker, SHARDS)
        self._notifier, clock, wakes = PostgresNotifier(url), SystemClock(), PostgresWakes(pool)
        self._loops = [
            Relay(broker=broker, outbox=PostgresOutbox(pool), notifier=self._notifier).run(),
            WakeIntake(broker, wakes, clock).run(),
            Timers(store=PostgresTimers(pool), wakes=wakes, notifier=self._notifier, clock=clock).run(),
        ]
        self._running: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.cluster.start(ShardSettings(idle_s=0.05))
        self._running = [asyncio.create_task(loop) for loop in self._loops]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.wait(self._running)
        await self.cluster.stop()
        await self._notifier.close()

    async def put(self, ref: ScheduleRef, trigger: Trigger) -> None:
        """The schedule as PostgreSQL and the log have it once it was deployed."""
        now, program = datetime.now(UTC), ProgramRef(ref.namespace, ref.app, "p")
        definition = schedule_to_json(Schedule(ref, program, trigger))
        await self.pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
        await self.pool.execute("INSERT INTO apps VALUES ($1, 'default', $2, $2)", str(ref.owner), now)
        await self.pool.execute(
            "INSERT INTO schedules VALUES ($1, $2, $3, $4, 1, true, $5, $5)",
            *(str(ref), str(ref.owner), str(program), definition, now),
        )
        await self.cluster.put(ref, trigger)

    async def heard(self, ref: ScheduleRef, *, events: int) -> list[Stamped]:
        """What the log has at the schedule's home, with the log's times, once so many events are there."""
        async with asyncio.timeout(30):
            while True:
                key = schedule_key(ref).encode()
                found = [
                    read_arrived(topic, each, SHARDS)
                    for topic in (SIGNALS, JUDGED)
                    for each in await self.cluster.records(topic)
                    if each.key == key
                ]
                some = [each for each in stamped(found) if isinstance(each[1], Put | Occurred)]
                if sum(isinstance(signal, Occurred) for _, signal in some) >= events:
                    return some
                await asyncio.sleep(0.05)

    async def fired(self, jobs: int) -> list[tuple[datetime, list[str]]]:
        """When jobs went out, and of which events, once there are so many."""
        async with asyncio.timeout(30):
            while len(found := await self.cluster.jobs()) < jobs:  # noqa: ASYNC110 - the log has no callback
                await asyncio.sleep(0.05)
        return [(job.satisfied_at, event_ids(job)) for job in found]


@pytest.fixture
async def round_(database: str) -> AsyncIterator[Round]:
    pool, broker = await open_pool(database), await open_broker(database)
    await ShardCluster.create(broker, SHARDS)
    made = Round(database, pool, broker)
    await made.start()
    yield made
    await made.stop()
    await broker.close()
    await pool.close()


async def test_what_is_not_complete_in_time_runs_with_what_there_is(round_: Round) -> None:
    await round_.put(schedule(), Within(FLIGHTS, MOMENT, OnExpiry.FIRE))
    begun = datetime.now(UTC)
    await round_.cluster.emit(landed(0), landed(1))

    ((at, events),) = await round_.fired(1)

    assert events == ["flights-0", "flights-1"]
    assert at >= begun + MOMENT
    assert await StoredWorld(round_.pool).size("wakes") == 0


async def test_it_is_quiet_only_when_nothing_came_for_so_long(round_: Round) -> None:
    await round_.put(schedule(), Quiet(Partitions(FLIGHTS.dataset, 1), MOMENT))
    for number in range(4):
        await round_.cluster.emit(landed(number))
        await asyncio.sleep(0.4)  # between two events, and not for an effect
    log = await round_.heard(schedule(), events=4)

    expected = rerun(log, log[-1][0] + 2 * MOMENT).jobs
    fired = await round_.fired(len(expected))

    assert [events for _, events in fired] == [list(ids) for job in expected for _, _, ids in job.reported]
    assert all(at >= job.at for (at, _), job in zip(fired, expected, strict=True))
    assert expected[-1].at == log[-1][0] + MOMENT


async def test_wake_ups_that_were_not_requested_change_nothing(round_: Round) -> None:
    """Late, repeated, of another generation, of a schedule that is no more."""
    await round_.put(schedule(), FLIGHTS)
    await round_.cluster.emit(landed(0), landed(1))
    past = datetime.now(UTC) - MOMENT
    await round_.cluster.signal(
        *(
            Woken(ref, generation, cell, past)
            for ref in (schedule(), schedule("gone"))
            for generation, cell in ((1, ""), (1, ""), (7, ""), (1, "no such cell"))
        )
    )
    await round_.cluster.emit(landed(2))

    ((_, events),) = await round_.fired(1)

    assert events == ["flights-0", "flights-1", "flights-2"]
