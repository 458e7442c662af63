"""Verdicts in PostgreSQL: each once, found by the event's id, forgotten day by day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest
from streamsched_brokers.memory import MemoryBroker, MemoryLog

from streamsched.catalog.verdicts import VerdictIntake
from streamsched.codec.records import findings
from streamsched.codec.records.findings import FindingGroup
from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.events.lateness import OnLate
from streamsched.domain.jobs.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.signals.finding import AtSchedule, Duplicate, Finding, FindingReason, NoListener, Undecodable
from streamsched.domain.signals.verdict import JudgedEvent, Verdict
from streamsched.log.topics import VERDICTS
from streamsched.ports.broker import Outgoing
from streamsched.store.events.event_traces import EventTraces
from streamsched.store.events.verdicts import VerdictStore
from streamsched.store.sql import queries
from streamsched.testing.clock import SettableClock

from .conftest import furnished, schedule

pytestmark = pytest.mark.postgres

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
WEEKLY = ScheduleRef("default", "flights", "weekly")
COUNTED = AtSchedule(WEEKLY, 1, 1, JudgedEvent(Verdict.COUNTED, ("partitions:default.flights:7",), ("2013-01-01",)))


class Kept:
    """A log whose clock is settable, and intakes of its verdicts."""

    def __init__(self, pool: asyncpg.Pool, broker: MemoryBroker, clock: SettableClock) -> None:
        self.pool = pool
        self.broker = broker
        self.clock = clock
        self.store = VerdictStore(pool, keep=WEEK)
        self.trails = EventTraces(pool, broker)

    def intake(self) -> VerdictIntake:
        return VerdictIntake(self.broker, self.store, self.clock, keep=WEEK)

    async def say(self, reason: FindingReason, *events: str, partition: int = 0, since: Sequence[int] = ()) -> None:
        """One record, as a shard would write it; of source `test`."""
        group = FindingGroup(reason, [text for event in events for text in (event, "test")], list(since))
        for value in findings.encode([group]):
            await self.broker.append([Outgoing(VERDICTS, partition, None, value)])

    async def findings(self, event: str, source: str | None = None) -> Sequence[Finding]:
        return (await self.trails.follow(event, source=source)).findings

    async def days(self) -> list[str]:
        rows = await self.pool.fetch(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
            "WHERE i.inhparent = 'verdicts'::regclass ORDER BY 1"
        )
        return [row["relname"] for row in rows]


@pytest.fixture
async def kept(pool: asyncpg.Pool) -> Kept:
    clock = SettableClock(NOON)
    broker = MemoryBroker(MemoryLog(clock))
    await furnished(broker)
    return Kept(pool, broker, clock)


async def taken(intake: VerdictIntake) -> int:
    """Everything the topic has now; how many were stored."""
    stored = 0
    for _ in range(8):
        stored += await intake.run_once(timeout=0)
    return stored


REASONS: list[tuple[FindingReason, list[int]]] = [
    (COUNTED, []),
    (replace(COUNTED, judged=JudgedEvent(Verdict.REPLACED, COUNTED.judged.leaves)), []),
    (AtSchedule(WEEKLY, 2, 9, JudgedEvent(Verdict.UNMATCHED)), []),
    (AtSchedule(WEEKLY, 2, 9, JudgedEvent(Verdict.LATE), OnLate.SIDE_OUTPUT), [1_700_000_000_123]),
    (AtSchedule(WEEKLY, 0, 1, JudgedEvent(Verdict.DISABLED)), []),
    (AtSchedule(WEEKLY, 2, 9, JudgedEvent(Verdict.REFUSED, why="2 correlation keys may be open")), []),
    (AtSchedule(WEEKLY, 2, 9, JudgedEvent(Verdict.COUNTED, ("a",), ("k",), "dropped the oldest")), []),
    (Duplicate("partition:default.flights"), [1_700_000_000_000]),
    (NoListener("partition:default.flights"), []),
    (Undecodable("partitions/0/17", "$.data", "is no object"), []),
]


@pytest.mark.parametrize(("reason", "since"), REASONS, ids=[type(reason).__name__ for reason, _ in REASONS])
async def test_a_finding_is_found_again_as_it_was(kept: Kept, reason: FindingReason, since: list[int]) -> None:
    await kept.say(reason, "e1", since=since)

    assert await taken(kept.intake()) == 1

    when = datetime.fromtimestamp(since[0] / 1000, UTC) if since else None
    assert await kept.findings("e1") == [Finding("e1", "test", NOON, reason, when)]
    assert await kept.findings("e1", source="other") == []
    assert await kept.findings("e2") == []


async def test_an_intake_goes_on_where_the_last_one_stopped(kept: Kept) -> None:
    await kept.say(COUNTED, "e1")
    await taken(kept.intake())
    await kept.say(COUNTED, "e2", partition=1)

    assert await taken(kept.intake()) == 1
    assert await taken(kept.intake()) == 0


async def test_two_intakes_store_each_verdict_once(kept: Kept) -> None:
    ahead, behind = kept.intake(), kept.intake()
    await kept.say(COUNTED, "e1")
    await taken(behind)
    for event in ("e2", "e3"):
        await kept.say(COUNTED, event)
        await taken(ahead)

    assert await taken(behind) == 0
    assert await kept.pool.fetchval("SELECT count(*) FROM verdicts") == 3
    (total,) = await kept.trails.totals(WEEKLY)
    assert (total.verdict, total.late, total.total, total.last_at) == (Verdict.COUNTED, "", 3, NOON)


async def test_the_days_are_made_as_they_come_and_dropped_when_they_are_old(kept: Kept) -> None:
    intake = kept.intake()
    for _ in range(10):
        await kept.say(COUNTED, "e")
        await taken(intake)
        kept.clock.advance(timedelta(days=1))
    assert len(await kept.days()) == 10

    assert await intake.forget() == 3

    assert await kept.days() == [f"verdicts_202603{day:02}" for day in range(4, 11)]
    assert [each.at.day for each in await kept.findings("e")] == list(range(4, 11))
    assert await kept.pool.fetchval("SELECT total FROM verdict_totals") == 10


async def test_each_step_deletes_old_days_before_it_stores(kept: Kept) -> None:
    intake = kept.intake()
    await kept.say(COUNTED, "old")
    await taken(intake)
    kept.clock.advance(timedelta(days=9))
    await kept.say(COUNTED, "new")

    await intake.step()

    assert await kept.days() == ["verdicts_20260310"]


async def test_an_intake_that_keeps_nothing_stores_nothing(kept: Kept) -> None:
    await kept.say(COUNTED, "e")

    await VerdictIntake(kept.broker, kept.store, kept.clock, keep=timedelta(0)).step()

    assert await kept.findings("e") == []


async def test_what_is_too_old_when_it_comes_is_not_stored(kept: Kept) -> None:
    await kept.say(COUNTED, "old")
    kept.clock.advance(timedelta(days=8))
    await kept.say(COUNTED, "new")

    assert await taken(kept.intake()) == 1

    assert await kept.days() == ["verdicts_20260309"]


async def test_a_reader_keeps_its_day_and_the_next_look_drops_it(kept: Kept) -> None:
    intake = kept.intake()
    await kept.say(COUNTED, "e")
    await taken(intake)
    kept.clock.advance(timedelta(days=9))
    async with kept.pool.acquire() as connection, connection.transaction():
        await connection.fetch("SELECT * FROM verdicts")
        assert await intake.forget() == 0
    kept.clock.advance(timedelta(hours=1))

    assert await intake.forget() == 1


async def test_characters_postgresql_does_not_hold_delay_no_other(kept: Kept) -> None:
    await kept.say(Undecodable("partitions/0/17", "$.a\0b", "is \0"), "e")

    assert await taken(kept.intake()) == 1


async def test_an_event_is_looked_up_by_index_in_every_day(kept: Kept) -> None:
    intake = kept.intake()
    for day in range(3):
        await kept.say(COUNTED, *(f"{day}-{n}" for n in range(3000)))
        await taken(intake)
        kept.clock.advance(timedelta(days=1))
    await kept.pool.execute("ANALYZE verdicts")

    async with kept.pool.acquire() as connection:
        await connection.execute("SET plan_cache_mode = force_generic_plan")
        await connection.execute(f"PREPARE findings AS {queries('events/event_traces')['findings']}")
        plan: str = await connection.fetchval("EXPLAIN (FORMAT JSON) EXECUTE findings('1-7', NULL, 9)")

    assert "Seq Scan" not in plan
    assert plan.count("_hashtextextended_idx") == 3


async def test_a_long_lag_is_taken_in_bounded_reads(kept: Kept) -> None:
    for number in range(120):
        await kept.say(COUNTED, f"e{number}", partition=number % 4)
    intake = kept.intake()

    sizes = [await intake.run_once(timeout=0) for _ in range(8)]

    assert sum(sizes) == 120
    assert max(sizes) <= 60


async def test_how_far_behind_the_table_is_counts_what_the_log_has_beyond_it(kept: Kept) -> None:
    await kept.say(COUNTED, "e1")
    await kept.say(COUNTED, "e2", partition=1)
    assert (await kept.trails.follow("e1")).behind == 2

    await taken(kept.intake())

    assert (await kept.trails.follow("e1")).behind == 0


JOB = """
INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready, ended_at, joined)
VALUES ($1 || '.' || $2::bigint || '.' || $3::bigint, $1, $2, $3, 'default.flights.join', $5, $6, $6, $4, $6, $7)
"""


async def job(kept: Kept, generation: int, sequence: int, *events: str, joined: str | None = None) -> None:
    """A job of the schedule with these events."""
    ready = {"events": [{"id": event, "source": "test", "type": "custom"} for event in events]}
    state = "LAUNCHED" if joined is None else "COALESCED"
    await kept.pool.execute(JOB, str(WEEKLY), generation, sequence, ready, state, NOON, joined)


async def took(kept: Kept, event: str) -> str | None:
    (consuming_job,) = (await kept.trails.follow(event)).consuming_jobs
    return None if consuming_job is None else consuming_job.job


async def test_the_job_that_holds_an_event_took_it_be_it_the_next_or_a_later_one(kept: Kept) -> None:
    await kept.say(replace(COUNTED, next_job=2), "e1", "e2", "e3")
    await taken(kept.intake())
    await job(kept, 1, 1, "e1")
    await job(kept, 1, 2, "e0", "e1")
    await job(kept, 1, 9, "e2")

    assert await took(kept, "e1") == f"{WEEKLY}.1.2"
    assert await took(kept, "e2") == f"{WEEKLY}.1.9"
    assert await took(kept, "e3") is None


async def test_a_job_of_a_later_generation_took_what_the_change_kept(kept: Kept) -> None:
    await kept.say(COUNTED, "e1")
    await taken(kept.intake())
    await kept.pool.execute(
        "INSERT INTO namespaces VALUES ('default', now());"
        "INSERT INTO apps VALUES ('default.flights', 'default', now(), now())"
    )
    await kept.pool.execute(
        "INSERT INTO schedules (id, app, program, definition, generation, enabled, created_at, updated_at) "
        "VALUES ($1, 'default.flights', 'default.flights.join', $2, 3, true, $3, $3)",
        str(WEEKLY),
        schedule_to_json(schedule()),
        NOON,
    )
    await job(kept, 3, 1, "e1")

    assert await took(kept, "e1") == f"{WEEKLY}.3.1"


async def test_a_job_that_joined_shows_the_other_ones_runs(kept: Kept) -> None:
    await kept.say(COUNTED, "e1")
    await taken(kept.intake())
    await job(kept, 1, 7)
    await job(kept, 1, 1, "e1", joined=f"{WEEKLY}.1.7")

    (consuming_job,) = (await kept.trails.follow("e1")).consuming_jobs
    assert consuming_job is not None
    assert (consuming_job.state, consuming_job.joined) == (JobState.COALESCED, f"{WEEKLY}.1.7")
