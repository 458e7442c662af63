"""Notifications as CDAP publishes them, in the topic of a log on real PostgreSQL, up to the runs they start."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import orjson
import pytest

from streamsched import App, cron, partitions, program
from streamsched.dialects.cdap.program_runs import get_run
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.log.topics import PARTITIONS, PROGRAM_STATUS
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
    topics = {"PROGRAM_STATUS": PROGRAM_STATUS, "PARTITION": PARTITIONS}
    await scheduler.cluster.broker.append(
        [Outgoing(topics[each["notificationType"]], 0, b"", orjson.dumps(each)) for each in messages]
    )
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


async def test_a_run_says_what_started_it(scheduler: InProcessScheduler) -> None:
    app = App("shop")
    app.bash("after", "true")
    app.bash("hourly", "true")
    mapping = {"arguments": [{"source": "day", "target": "date"}]}
    app.schedule(
        "both",
        "after",
        when=program("default.up.load") & partitions("lines", 2, distinct=False),
        properties={"triggering.properties.mapping": orjson.dumps(mapping).decode()},
    )
    app.schedule("each", "hourly", when=cron("0 * * * *"))
    await scheduler.deploy(app)

    async def shown(name: str) -> dict[str, Any]:
        (run,) = (each for each in scheduler.runs if each.program == name)
        answer = await get_run(ProgramRef("default", "shop", name), run.id, scheduler.by_hand)
        return orjson.loads(bytes(answer.body))

    def owner(name: str) -> dict[str, Any]:
        ref = {"namespace": "default", "application": "shop", "version": "-SNAPSHOT"}
        return {"scheduleId": {**ref, "schedule": name, "entity": "SCHEDULE"}}

    lines = {"datasetId": "dataset:default.lines", "numPartitions": "3"}
    ended = status("r1", "COMPLETED", userOverrides='{"day":"monday"}')
    await publish(scheduler, ended, {"notificationType": "PARTITION", "properties": lines})
    found = await shown("after")
    assert orjson.loads(found["properties"]["runtimeArgs"])["date"] == "monday"
    up = {"namespace": "default", "application": "up", "version": "-SNAPSHOT", "type": "Workflow", "program": "load"}
    assert found["triggeringInfo"] == {
        "type": "AND",
        **owner("both"),
        "triggeringInfos": [
            {
                "type": "PROGRAM_STATUS",
                **owner("both"),
                "runtimeArguments": {"day": "monday"},
                "programRunId": {**up, "run": "r1", "entity": "PROGRAM_RUN"},
            },
            {
                "type": "PARTITION",
                **owner("both"),
                "runtimeArguments": {},
                "datasetNamespace": "default",
                "datasetName": "lines",
                "expectedNumPartitions": 2,
                "actualNumPartitions": 3,
            },
        ],
        "triggeringPropertyMapping": mapping,
    }

    await scheduler.advance(timedelta(hours=1))
    info = (await shown("hourly"))["triggeringInfo"]
    assert info == {"type": "TIME", **owner("each"), "runtimeArguments": {}, "cronExpression": "0 * * * *"}

    await scheduler.catalog.delete(ScheduleRef("default", "shop", "each")).apply()
    assert "triggeringInfo" not in await shown("hourly")
    await scheduler.by_hand.start(
        ProgramRef("default", "shop", "hourly"), {}, token="x", at_most=None, force=True, now=scheduler.clock.now()
    )
    by_hand = await get_run(
        ProgramRef("default", "shop", "hourly"), "default.shop.hourly.manual-x.r1", scheduler.by_hand
    )
    assert "triggeringInfo" not in orjson.loads(bytes(by_hand.body))
