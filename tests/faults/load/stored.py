"""Definitions and ready jobs, stored as the catalog and the intake do; and what a database is asked until it is so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import asyncpg

from streamsched.codec.records import launch
from streamsched.codec.schedules.schedule import program_to_json, schedule_to_json
from streamsched.domain.events.event import CustomHappened, Event
from streamsched.domain.jobs.job import Contribution, ReadyJob
from streamsched.domain.names import EventName
from streamsched.domain.schedules.schedule import Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent, leaf_id
from streamsched.log.topics import LAUNCH
from streamsched.ports.intake import IntakeBatch, ReadyJobRow
from streamsched.store.jobs.intake import PostgresIntake

#: What the schedules of ready jobs wait for.
GO: Final = CustomEvent(EventName("default", "go"))


async def store_app(
    pool: asyncpg.Pool, now: datetime, programs: Sequence[Program] = (), schedules: Sequence[Schedule] = ()
) -> None:
    """App `default.app`, whose schedules are enabled."""
    await pool.execute("INSERT INTO namespaces VALUES ('default', $1) ON CONFLICT DO NOTHING", now)
    await pool.execute("INSERT INTO apps VALUES ('default.app', 'default', $1, $1)", now)
    await pool.executemany(
        "INSERT INTO programs VALUES ($1, 'default.app', $2, $3, $3)",
        [(str(each.ref), program_to_json(each), now) for each in programs],
    )
    await pool.executemany(
        "INSERT INTO schedules VALUES ($1, 'default.app', $2, $3, 1, true, $4, $4)",
        [(str(each.ref), str(each.program), schedule_to_json(each), now) for each in schedules],
    )


async def take_ready(pool: asyncpg.Pool, schedule: Schedule, numbers: Sequence[int], now: datetime) -> None:
    """The jobs of the schedule with these numbers, as the intake takes them from the log."""
    rows: list[ReadyJobRow] = []
    for number in numbers:
        event = Event(f"{schedule.ref.name}-{number}", "test", now, CustomHappened(GO.name))
        ready = ReadyJob(schedule.ref, 1, number, now, (Contribution(leaf_id(GO), 1, (event,)),))
        rows.append(ReadyJobRow(ready.id, str(schedule.ref), 1, number, now, launch.encode(ready).decode()))
    intake = PostgresIntake(pool)
    at = (await intake.positions(LAUNCH, 1))[0]
    taken = await intake.take(LAUNCH, [IntakeBatch(0, at, at + len(rows), rows)], now=now)
    assert taken.stored == len(rows)


async def until(pool: asyncpg.Pool, question: str, *arguments: object, within_s: float = 60) -> None:
    """Until the answer is true.

    Raises:
        TimeoutError: it is not in time.
    """
    async with asyncio.timeout(within_s):
        while not await pool.fetchval(question, *arguments):  # noqa: ASYNC110 - other processes are at it
            await asyncio.sleep(0.05)
