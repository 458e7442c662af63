"""Two instances of the timers, killed and paused: every tick and every wake-up once, none early (promise G6)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.codec.records import wakeup
from streamsched.domain.events.event import Ticked, schedule_key
from streamsched.domain.fold.effect import Wake
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import Misfire, Schedule
from streamsched.domain.signals.home import home
from streamsched.domain.signals.signal import Occurred, Woken
from streamsched.domain.triggers.trigger import Every, leaf_id
from streamsched.log.drivers import open_broker
from streamsched.log.topics import WAKEUPS, topic_specs
from streamsched.ports.broker import Outgoing
from streamsched.store.connections import open_pool
from tests.faults.load.stored import store_app, until
from tests.faults.processes.command import environ, module
from tests.faults.processes.placed import PlacedProcesses

PLACES = ("one", "two")
#: Whether every tick before an instant, and so many wake-ups, are in the outbox.
SETTLED = """
SELECT (SELECT min(due_at) FROM timers) > $1
    AND (SELECT count(*) FROM outbox WHERE starts_with(encode(value, 'escape'), '{"signal":"woken"')) >= $2
"""
SHARDS = 4
SECOND = timedelta(seconds=1)
SCHEDULES = 40
CELLS = 30


async def furnish(pool: asyncpg.Pool, now: datetime) -> list[Schedule]:
    """Schedules that tick every second, each missed tick made up for; their timers."""
    leaf, program = Every(SECOND), ProgramRef("default", "app", "p")
    made = [
        Schedule(ScheduleRef("default", "app", f"s{n}"), program, leaf, misfire=Misfire.ALL) for n in range(SCHEDULES)
    ]
    await store_app(pool, now, schedules=made)
    for each in made:
        await pool.execute("INSERT INTO timers VALUES ($1, $2, 1, $3)", str(each.ref), leaf_id(leaf), now + SECOND)
    return made


def requests(schedules: list[Schedule], now: datetime) -> tuple[list[Outgoing], dict[tuple[str, str], datetime]]:
    """Wake-ups to append, and those that must be sent: asked for once, put off, or (not) cancelled."""
    records: list[Outgoing] = []
    wanted: dict[tuple[str, str], datetime] = {}
    for schedule in schedules:
        shard = home(schedule_key(schedule.ref), SHARDS)
        for number in range(CELLS):
            times: list[datetime | None] = [now + SECOND * (5 + number / 5)]
            if number % 3 == 1:
                times.append(now + SECOND * (6 + number / 5))
            if number % 3 == 2:
                times.append(None)
            for at in times:
                wake = Wake(schedule.ref, 1, f"c{number}", at)
                records.append(Outgoing(WAKEUPS, shard, *wakeup.encode(wake)))
            if times[-1] is not None:
                wanted[str(schedule.ref), f"c{number}"] = times[-1]
    return records, wanted


@pytest.mark.torture
@pytest.mark.postgres
@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", [1])
async def test_killing_and_pausing_instances_loses_doubles_and_hastens_nothing(
    database: str, tmp_path: Path, seed: int
) -> None:
    rng, pool, broker = random.Random(seed), await open_pool(database), await open_broker(database)
    await broker.create_topics(topic_specs(SHARDS, timedelta(days=1)))
    with PlacedProcesses(tmp_path, environ()) as running:
        for place in PLACES:
            running.start(place, module("tests.faults.processes.timers_process", database))
        now = datetime.now(UTC)
        schedules = await furnish(pool, now)
        await pool.execute("SELECT pg_notify('timers', '')")
        records, wanted = requests(schedules, datetime.now(UTC))
        for start in range(0, len(records), 100):
            await broker.append(records[start : start + 100])
        for _ in range(6):
            place = PLACES[rng.randrange(2)]
            await asyncio.sleep(rng.uniform(0.3, 1.5))
            if rng.random() < 0.7:
                running.replace(place)
            else:
                await running.pause(place, rng.uniform(0.3, 1.0))
        ends = datetime.now(UTC) + 2 * SECOND
        await until(pool, SETTLED, ends, len(wanted), within_s=90)
    rows = await pool.fetch("SELECT key, value, created_at FROM outbox ORDER BY id")
    await broker.close()
    await pool.close()

    ticks: defaultdict[str, list[datetime]] = defaultdict(list)
    woken: Counter[tuple[str, str]] = Counter()
    for row in rows:
        sent = signal_codec.decode(row["key"].encode(), row["value"])
        if isinstance(sent, Woken):
            assert row["created_at"] >= sent.due_at == wanted[str(sent.schedule), sent.cell]
            woken[str(sent.schedule), sent.cell] += 1
        else:
            assert isinstance(sent, Occurred)
            assert isinstance(sent.event.fact, Ticked)
            assert row["created_at"] >= sent.event.fact.due_at
            ticks[str(sent.event.fact.schedule)].append(sent.event.fact.due_at)
    assert woken == Counter(dict.fromkeys(wanted, 1))
    assert len(ticks) == SCHEDULES
    for times in ticks.values():
        assert times[0] == now + SECOND
        assert all(later - earlier == SECOND for earlier, later in pairwise(times))
        assert times[-1] >= ends - SECOND
