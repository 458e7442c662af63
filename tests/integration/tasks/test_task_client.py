"""A program schedules tasks over a log and over HTTP; its futures complete when they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import Future, wait
from datetime import UTC, datetime, timedelta

import pytest

from streamsched.api.app import make_api
from streamsched.api.serving import HttpServer, bind, url_of
from streamsched.config import Settings
from streamsched.dialects.pagerduty.client import Scheduler, Task
from streamsched.dialects.pagerduty.codec.task import SCHEDULER
from streamsched.domain.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from streamsched.log.drivers import open_broker
from streamsched.process.cancellation import cancel
from streamsched.roles.api import api_services
from streamsched.roles.services import open_services
from streamsched.store.tasks.queues import QueueStore
from tests.integration.tasks.task_world import TaskWorld
from tests.integration.tasks.test_task_intake import intake, read_all


@pytest.fixture
async def api(database: str) -> AsyncIterator[str]:
    async with open_services(Settings.from_env({}, database_url=database, api_access="open")) as services:
        bound = bind("127.0.0.1", 0)
        started = asyncio.Event()
        server = asyncio.create_task(
            HttpServer(make_api(api_services(services)), bound, started=started.set).run()  # type: ignore[arg-type]
        )
        await started.wait()
        yield url_of(bound)
        await cancel(server)
        bound.close()


def tasks(count: int, late: timedelta = timedelta(0)) -> list[Task]:
    now = datetime.now(UTC) - late
    return [Task(f"incident {n % 9}", now, f"k{n}", {"n": str(n)}) for n in range(count)]


async def done(futures: list[Future[None]]) -> list[BaseException | None]:
    await asyncio.to_thread(wait, futures, 20)
    return [each.exception(0) for each in futures]


async def test_tasks_go_through_the_log(world: TaskWorld, database: str) -> None:
    log = await open_broker(database)
    world.clock.advance(datetime.now(UTC) - world.clock.now())
    copying = intake(world, log, log)
    await copying.run_once(timeout=0)
    with Scheduler(database) as scheduler:
        assert await done([scheduler.schedule_task(each) for each in tasks(700)]) == [None] * 700
        (refused,) = await done([scheduler.schedule_task(tasks(1, timedelta(seconds=11))[0])])
        assert isinstance(refused, InvalidError)
        assert refused.reason == "Attempting to enqueue too far in the past."
        assert await done([scheduler.schedule_task(tasks(1, timedelta(seconds=9))[0])]) == [None]
    (closed,) = await done([scheduler.schedule_task(tasks(1)[0])])
    assert isinstance(closed, ConflictError)

    assert await read_all(copying) == 701
    assert (await world.queues.get(SCHEDULER)).tasks == 701
    await copying.close()
    await log.close()


async def test_tasks_go_over_http_and_a_bad_one_fails_alone(api: str, world: TaskWorld) -> None:
    with Scheduler(api, grace=timedelta(days=1)) as scheduler:
        given = [*tasks(5), *tasks(1, timedelta(seconds=30)), *tasks(5)]
        results = await done([scheduler.schedule_task(each) for each in given])

    assert [result is None for result in results] == [True] * 5 + [False] + [True] * 5
    assert "Attempting to enqueue too far in the past." in str(results[5])
    assert (await QueueStore(world.pool).get(SCHEDULER)).tasks in (5, 10)


async def test_what_is_missing_or_away_is_the_result(world: TaskWorld, database: str) -> None:
    with Scheduler(database, topic="none") as scheduler:
        (missing,) = await done([scheduler.schedule_task(tasks(1)[0])])
    assert isinstance(missing, NotFoundError)
    with Scheduler("http://127.0.0.1:9", deadline=timedelta(0)) as scheduler:
        (away,) = await done([scheduler.schedule_task(tasks(1)[0])])
    assert isinstance(away, UnavailableError)
