"""Notifications as CDAP publishes them, in the topic of a log on real PostgreSQL, up to the runs they start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from streamsched import App, program
from streamsched.log.topics import PROGRAM_STATUS
from streamsched.ports.broker import Outgoing
from streamsched.testing.scheduler import InProcessScheduler, open_scheduler

pytestmark = pytest.mark.postgres


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def status(run: str, program_status: str, **more: str) -> dict[str, Any]:
    """A message of topic `programstatusrecordevent`."""
    of_run = {"namespace": "default", "application": "up", "type": "Workflow", "program": "load", "run": run}
    properties = {"programRunId": orjson.dumps(of_run).decode(), "programStatus": program_status, **more}
    return {"notificationType": "PROGRAM_STATUS", "properties": properties}


async def publish(scheduler: InProcessScheduler, *messages: Any) -> None:
    written = [Outgoing(PROGRAM_STATUS, 0, b"", orjson.dumps(each)) for each in messages]
    await scheduler.cluster.broker.append(written)
    await scheduler.rest()


async def test_a_status_that_is_published_again_starts_nothing_again(scheduler: InProcessScheduler) -> None:
    app = App("shop")
    app.bash("after", "true")
    app.schedule("each", "after", when=program("default.up.load"), overlap="queue")
    app.schedule("both", "after", when=program("default.up.load", "failed", times=2), overlap="queue")
    await scheduler.deploy(app)

    ended = status("r1", "COMPLETED", endTime="1494368640000")
    await publish(scheduler, ended, ended)
    await publish(scheduler, status("r1", "COMPLETED"), status("r1", "FAILED"), status("r1", "FAILED"))
    await scheduler.end_all()
    assert [run.schedule for run in scheduler.runs] == ["each"]

    await publish(scheduler, status("r2", "COMPLETED"), status("r2", "FAILED"))
    await scheduler.end_all()
    assert sorted(str(run.schedule) for run in scheduler.runs) == ["both", "each", "each"]
