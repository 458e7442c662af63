"""What is stored of a deleted schedule goes with time, and a name that is used again repeats nothing it ever had."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.codec.records import launch
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.signals.home import home
from streamsched.launcher.retention import ArchiveLoop
from streamsched.log.topics import LAUNCH
from streamsched.ports.broker import Outgoing
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.jobs.jobs import JobStore
from streamsched.store.sql import queries

from .conftest import SHARDS, CatalogProcess, app, explained, schedule

pytestmark = pytest.mark.postgres

DAY = timedelta(days=1)
GONE = schedule()
#: Tables that tell of what was, each with its own retention.
HISTORY = {"decisions", "work_decisions", "audit_decisions", "jobs", "jobs_history"}


def retention(scheduler: CatalogProcess, *, batch: int = 50) -> ArchiveLoop:
    keeps = Retention(jobs=30 * DAY, audit=90 * DAY, log=7 * DAY)
    return ArchiveLoop(Archive(scheduler.pool), keeps, scheduler.clock, batch=batch)


async def satisfy(scheduler: CatalogProcess, generation: int, sequence: int) -> None:
    """A satisfaction comes from the log."""
    job = ReadyJob(GONE.ref, generation, sequence, scheduler.clock.now(), ())
    partition = home(f"schedule:{GONE.ref}", SHARDS)
    await scheduler.broker.append([Outgoing(LAUNCH, partition, job.id.encode(), launch.encode(job))])
    intake = JobIntake(scheduler.broker, PostgresIntake(scheduler.pool), scheduler.clock)
    while await intake.run_once(timeout=0.01):
        pass
    await intake.close()


async def tables_with(scheduler: CatalogProcess, name: str) -> set[str]:
    """The tables of the database that have a row with this text."""
    tables = await scheduler.pool.fetch(
        "SELECT relname::text AS name FROM pg_class WHERE relkind IN ('r', 'p') "
        "AND relnamespace = 'public'::regnamespace AND NOT relispartition"
    )
    return {
        each["name"]
        for each in tables
        if await scheduler.pool.fetchval(
            f"SELECT EXISTS (SELECT FROM {each['name']} AS r WHERE r::text LIKE '%' || $1 || '%')", name
        )
    }


async def test_a_forgotten_name_leaves_nothing_and_begins_after_what_it_had(
    scheduler_on_one_clock: CatalogProcess,
) -> None:
    scheduler = scheduler_on_one_clock
    async with scheduler.relaying():
        await satisfy(scheduler, 1, 1)
        await scheduler.pool.execute(
            "INSERT INTO verdict_totals VALUES ($1, 'counted', '', 4, now()), ('*', 'counted', '', 3, now())",
            str(GONE.ref),
        )
        await scheduler.catalog.disable(GONE.ref).apply()
        await scheduler.catalog.delete(GONE.ref).apply()
        scheduler.clock.advance(DAY)
        await retention(scheduler).run_once()
        assert {"schedules", "schedule_versions", "jobs_spent", "verdict_totals"} <= await tables_with(
            scheduler, str(GONE.ref)
        )

        scheduler.clock.advance(90 * DAY)
        await retention(scheduler).run_once()

        assert await tables_with(scheduler, str(GONE.ref)) <= HISTORY
        assert await scheduler.pool.fetchval("SELECT sum(total)::int FROM verdict_totals") == 7
        await satisfy(scheduler, 1, 1)
        assert [job.state for job in await JobStore(scheduler.pool).list_recent()] == [JobState.OBSOLETE]

        await scheduler.catalog.deploy(app(GONE)).apply()

        [again] = await scheduler.reader.schedules()
        assert again.record.generation == 4, "deleted as generation 3"
        await satisfy(scheduler, 2, 1)
        await satisfy(scheduler, 4, 1)
        found = {job.id: job.state for job in await JobStore(scheduler.pool).list_recent()}
        assert found[f"{GONE.ref}.2.1"] is JobState.OBSOLETE
        assert found[f"{GONE.ref}.4.1"] is JobState.PENDING_CONSTRAINT


async def test_who_was_deleted_later_or_stands_again_stays(scheduler_on_one_clock: CatalogProcess) -> None:
    scheduler = scheduler_on_one_clock
    names = [f"s{n}" for n in range(7)]
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(GONE, *map(schedule, names))).apply()
        await scheduler.catalog.deploy(app(GONE, schedule("s6"))).apply()
        await scheduler.catalog.create(schedule("s5"), enabled=True).apply()
        scheduler.clock.advance(89 * DAY)
        await scheduler.catalog.delete(schedule("s6").ref).apply()
        scheduler.clock.advance(2 * DAY)

        await retention(scheduler, batch=2).run_once()

        left = await scheduler.pool.fetch("SELECT id FROM schedules ORDER BY id")
        assert [each["id"].rpartition(".")[2] for each in left] == ["s5", "s6", GONE.ref.name]


async def test_the_schedules_to_forget_are_found_by_an_index(scheduler_on_one_clock: CatalogProcess) -> None:
    scheduler = scheduler_on_one_clock
    await scheduler.pool.execute(
        "INSERT INTO schedules (id, app, program, definition, generation, enabled, created_at, updated_at, deleted_at) "
        "SELECT format('default.flights.x%s', n), app, program, definition, 1, false, now(), now(), "
        "CASE WHEN n % 100 = 0 THEN now() - interval '1 year' END FROM schedules, generate_series(1, 5000) n"
    )
    await scheduler.pool.execute("ANALYZE schedules")
    async with scheduler.pool.acquire() as connection:
        nodes = await explained(
            connection, queries("jobs/archive")["deleted_schedules"], scheduler.clock.now() - 365 * DAY, 10
        )
    assert {node.get("Index Name") for node in nodes} >= {"schedules_to_forget"}
