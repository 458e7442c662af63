"""`since_last_run` on a whole scheduler with a settable clock: after each run, however it ended, and not beside one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from streamsched import App, event, since_last_run, stream_size
from streamsched.define.combinators import TriggerExpression
from streamsched.domain.events.event import CustomHappened, Event, StreamSize
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName, ScheduleRef, StreamRef
from streamsched.domain.schedules.pause import Pause, PauseMode
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.store.jobs.submissions import SubmissionStore
from streamsched.store.sql import queries
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, open_scheduler
from tests.integration.store.conftest import explained

pytestmark = pytest.mark.postgres

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REF = ScheduleRef("default", "app", "s")
REST = since_last_run("4h")


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def app_of(when: TriggerExpression, **policies: object) -> App:
    app = App("app")
    app.bash("load", "true")
    app.schedule("s", "load", when=when, **policies)  # type: ignore[arg-type]
    return app


def grown(number: int, gigabytes: int) -> Event:
    return Event(f"g{number}", "test", MONDAY, StreamSize(StreamRef("default", "clicks"), gigabytes << 30, False))


def starts(scheduler: InProcessScheduler) -> list[datetime]:
    return [run.started_at for run in scheduler.runs]


async def next_tick(scheduler: InProcessScheduler) -> datetime | None:
    return (await scheduler.catalog.reader.schedule(REF)).next_tick_at


async def test_every_100_gb_or_every_4_hours_whichever_is_first(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST | stream_size("clicks", "100GiB")))
    assert await next_tick(scheduler) == MONDAY + 4 * HOUR

    await scheduler.until(MONDAY + HOUR)
    await scheduler.emit(grown(1, 100))
    assert starts(scheduler) == [MONDAY + HOUR], "100 GB"
    await scheduler.until(MONDAY + 5 * HOUR)
    assert (len(scheduler.runs), await next_tick(scheduler)) == (1, None), "not beside a run"
    await scheduler.end_all()
    assert await next_tick(scheduler) == MONDAY + 9 * HOUR

    await scheduler.until(MONDAY + 9 * HOUR - MINUTE)
    assert len(scheduler.runs) == 1
    await scheduler.until(MONDAY + 9 * HOUR)
    assert starts(scheduler)[1:] == [MONDAY + 9 * HOUR], "4 hours after the end of the run before"
    (failing,) = scheduler.active.values()
    await scheduler.end(failing, RunState.FAILED)

    await scheduler.until(MONDAY + 13 * HOUR)
    assert starts(scheduler)[2:] == [MONDAY + 13 * HOUR], "also after a failed one"


async def test_it_is_exact_after_a_late_look(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST))
    await scheduler.advance(4 * HOUR)
    await scheduler.advance(7 * MINUTE)
    await scheduler.end_all()

    await scheduler.until(MONDAY + 8 * HOUR + 6 * MINUTE, step=HOUR)
    assert len(scheduler.runs) == 1
    await scheduler.advance(MINUTE)
    assert starts(scheduler)[1:] == [MONDAY + 8 * HOUR + 7 * MINUTE]


async def test_a_job_that_waits_is_not_joined_by_another_and_one_that_ends_without_a_run_counts(
    scheduler: InProcessScheduler,
) -> None:
    await scheduler.deploy(app_of(REST, delay="1h", overlap="queue", timeout="30m"))
    await scheduler.advance(4 * HOUR)
    assert list((await scheduler.job_states()).values()) == ["PENDING_CONSTRAINT"]
    await scheduler.advance(30 * MINUTE)
    assert list((await scheduler.job_states()).values()) == ["TIMED_OUT"]

    await scheduler.until(MONDAY + 8 * HOUR + 29 * MINUTE, step=MINUTE * 29)
    assert len(await scheduler.job_states()) == 1
    await scheduler.advance(MINUTE)
    assert len(await scheduler.job_states()) == 2


async def test_a_submission_starts_it_over(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST))
    await scheduler.until(MONDAY + 3 * HOUR)
    await SubmissionStore(scheduler.pool).submit(SubmissionRequest(REF, "token"), now=scheduler.clock.now())
    await scheduler.rest()
    await scheduler.end_all()

    await scheduler.until(MONDAY + 7 * HOUR - MINUTE)
    assert len(scheduler.runs) == 1
    await scheduler.until(MONDAY + 7 * HOUR)
    assert len(scheduler.runs) == 2


async def test_composed_with_an_event_it_holds_until_the_event_comes(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST & event("go")))
    go = [Event(f"e{n}", "test", MONDAY, CustomHappened(EventName("default", "go"))) for n in range(2)]
    await scheduler.until(MONDAY + 13 * HOUR, step=HOUR)
    assert scheduler.runs == []

    await scheduler.emit(go[0])
    assert len(scheduler.runs) == 1
    await scheduler.end_all()
    await scheduler.emit(go[1])
    await scheduler.until(MONDAY + 17 * HOUR - MINUTE)
    assert len(scheduler.runs) == 1
    await scheduler.until(MONDAY + 17 * HOUR)
    assert len(scheduler.runs) == 2


async def test_enabling_starts_the_time_over_and_pausing_does_not(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST))
    await scheduler.catalog.disable(REF).apply()
    await scheduler.advance(10 * HOUR)
    await scheduler.catalog.enable(REF).apply()
    assert await next_tick(scheduler) == MONDAY + 14 * HOUR

    await scheduler.catalog.pause(REF, Pause()).apply()
    await scheduler.advance(4 * HOUR)
    assert scheduler.runs == []
    await scheduler.catalog.enable(REF).apply()
    await scheduler.rest()
    assert starts(scheduler) == [MONDAY + 14 * HOUR]


async def test_a_backlog_has_one_of_it_and_a_drain_none(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST))
    await scheduler.catalog.pause(REF, Pause(PauseMode.BACKLOG)).apply()
    await scheduler.until(MONDAY + 20 * HOUR, step=HOUR)
    assert list((await scheduler.job_states()).values()) == ["PENDING_CONSTRAINT"]

    await scheduler.catalog.pause(REF, Pause(PauseMode.DRAIN)).apply()
    await scheduler.rest()
    await scheduler.end_all()
    await scheduler.until(MONDAY + 40 * HOUR, step=HOUR)
    assert len(scheduler.runs) == 1


async def test_launchers_that_were_away_start_it_once(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST | stream_size("clicks", "1GiB"), overlap="queue"))
    await scheduler.emit(grown(1, 1))
    await scheduler.end_all()

    await scheduler.fail_over(30 * HOUR)

    assert len(scheduler.runs) == 2


async def test_the_last_run_is_found_by_indexes(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(REST))
    await scheduler.pool.execute(
        """
        INSERT INTO jobs (id, schedule, generation, sequence, program, state, reason, satisfied_at, created_at,
            ended_at, ready)
        SELECT name || '.1.' || n, name, 1, n, 'default.app.load', 'LAUNCHED', '', $1, $1, $1, '{}'
        FROM unnest(array['default.app.s', 'default.app.other']) AS name, generate_series(1, 20000) n
        WHERE n <= 50 OR name <> 'default.app.s'
        """,
        MONDAY - HOUR,
    )
    await scheduler.pool.execute(
        """
        INSERT INTO runs (id, job, attempt, program, executable, arguments, state, created_at, ended_at, runner)
        SELECT id || '.r1', id, 1, program, '{}', '{}', 'COMPLETED', $1, $1, 'h:1:1' FROM jobs
        """,
        MONDAY - HOUR,
    )
    await scheduler.pool.execute("ANALYZE jobs, runs")
    sql = queries("catalog/last_runs")["last_runs"]

    values = [str(REF)], ["since_last_run:14400s"], [MONDAY - 4 * HOUR]
    (row,) = await scheduler.pool.fetch(sql, *values)
    plan = await explained(scheduler.pool, sql, *values)

    assert tuple(row)[2:] == (False, MONDAY - HOUR, 1, 50)
    for table in ("jobs", "runs"):
        read = [node["Actual Rows"] * node["Actual Loops"] for node in plan if node.get("Relation Name") == table]
        assert sum(read) <= 500, "what it reads grows with the jobs of this schedule only"
