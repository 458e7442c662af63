"""The metrics of a run in PostgreSQL: stored with heartbeats and with the end, and read with the run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.run_metrics import NUMBERS, RunMetrics
from streamsched.domain.schedules.schedule import BashJob
from streamsched.ports.runs import RunEnd

from .conftest import World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("plain")
RUN = "default.app.plain.1.1.r1"
NOW = datetime(2030, 1, 1, tzinfo=UTC)
MOST = RunMetrics(**dict.fromkeys(NUMBERS, 2**63 - 1), complete=True)


async def test_metrics_are_kept_until_newer_ones_come(world: World) -> None:
    await world.define(PLAIN)
    await world.execute(BashJob("true"))
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    await world.run_store.claim(RUN, runner="x", log_path=None, now=NOW)
    await world.run_store.mark_started(RUN, runner="x", now=NOW)
    assert (await world.runs.get(RUN)).metrics is None

    await world.run_store.heartbeat(RUN, runner="x", now=NOW, metrics=RunMetrics(tasks=9, tasks_done=2))
    await world.run_store.heartbeat(RUN, runner="x", now=NOW)
    assert (await world.runs.get(RUN)).metrics == RunMetrics(tasks=9, tasks_done=2)

    ending = RunEnd(RunState.COMPLETED, "exit code 0", NOW, 0, metrics=MOST)
    assert await world.run_store.finish(RUN, ending)
    assert (await world.runs.get(RUN)).metrics == MOST
    (listed,) = await world.runs.list_recent()
    assert listed.metrics == MOST
