"""What is measured of jobs, runs and shards: how late jobs are, why they wait, how they end, who is behind."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from streamsched.admin.installation_metrics import measure_installation
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.constraints.window import TimeWindow
from streamsched.domain.schedules.overlap import Overlap
from streamsched.log.topics import DEAD_LETTER, SIGNALS
from streamsched.ports.broker import Outgoing, TopicPartition
from streamsched.ports.reports import ShardReport
from streamsched.store.jobs.intake import JobIntake, PostgresIntake
from streamsched.store.positions import read_positions
from streamsched.store.server.gauges import LATELY, Gauges
from streamsched.store.server.probe import PostgresArchivedLetters
from streamsched.store.server.processes import Processes, ProcessRow
from streamsched.store.server.reports import PostgresReportStore
from streamsched.telemetry.metrics import Metrics

from .conftest import MINUTE, SHARDS, World, schedule, sharing

pytestmark = pytest.mark.postgres

NIGHTLY = schedule("nightly")


async def measured(world: World) -> list[str]:
    """The lines of the metrics, without their prefix."""
    metrics = Metrics()
    await measure_installation(metrics, Gauges(world.pool), world.broker, SHARDS, now=world.clock.now())
    return [line.removeprefix("streamsched_") for line in metrics.render().decode().splitlines() if line[0] != "#"]


async def test_the_time_from_the_last_event_to_the_job_is_observed(world: World) -> None:
    await world.define(NIGHTLY)
    ready, metrics = world.ready(NIGHTLY, 1), Metrics()
    await world.emit([ready])
    world.clock.advance(timedelta(seconds=3))
    intake = JobIntake(world.broker, PostgresIntake(world.pool), world.clock, metrics)
    assert await intake.run_once(timeout=0.01) == 1
    await intake.close()

    found = metrics.render().decode()
    assert "streamsched_event_to_job_seconds_sum 3.0" in found
    assert 'streamsched_event_to_job_seconds_bucket{le="2.5"} 0.0' in found
    assert 'streamsched_event_to_job_seconds_bucket{le="5.0"} 1.0' in found


async def test_dead_letters_that_are_hidden_are_no_topic_that_is_behind(world: World) -> None:
    await PostgresArchivedLetters(world.pool).hide(DEAD_LETTER, {0: 7})

    assert not [line for line in await measured(world) if "hidden" in line]


async def test_a_transaction_that_holds_its_snapshot_is_measured_while_it_does(world: World) -> None:
    async def held() -> float:
        (line,) = [line for line in await measured(world) if line.startswith("snapshot_held_seconds")]
        return float(line.split()[1])

    assert await held() == 0
    async with world.pool.acquire() as other, other.transaction(isolation="repeatable_read"):
        await read_positions(other)
        assert await held() > 0
    assert await held() == 0


async def test_a_machine_is_as_far_ahead_as_the_worst_of_its_processes_says(world: World) -> None:
    said = {"one": ("a", -3.0), "two": ("a", 0.5), "three": ("b", 0.0)}
    for name, (host, ahead) in said.items():
        await Processes(world.pool).put(ProcessRow(name, "worker", host, 1, "0", "2025b", ahead))

    assert [line for line in await measured(world) if line.startswith("machine_clock")] == [
        'machine_clock_ahead_seconds{host="a"} -3.0',
        'machine_clock_ahead_seconds{host="b"} 0.0',
    ]


async def test_waiting_jobs_are_counted_by_what_holds_them(world: World) -> None:
    metered = schedule("metered", constraints=(Rate(1, 10 * MINUTE),), overlap=Overlap.QUEUE)
    await world.define(metered, NIGHTLY)
    await world.satisfy(*(world.ready(metered, n) for n in (1, 2, 3)))
    await world.launcher.run_once()

    lines = await measured(world)
    assert 'jobs_waiting{state="PENDING_CONSTRAINT"} 2.0' in lines
    assert 'jobs_held{by="RATE"} 2.0' in lines


async def test_ended_runs_are_counted_by_program_for_a_while(world: World) -> None:
    await world.define(sharing("one"), sharing("two"))
    await world.satisfy(world.ready(sharing("one"), 1), world.ready(sharing("two"), 1))
    await world.launcher.run_once()
    await world.fail_runs(world.clock.now(), "default.app.program-one")
    ended = 'runs_ended_lately{program="default.app.program-one",state="FAILED"} 1.0'

    assert [line for line in await measured(world) if line.startswith("runs_ended_lately")] == [ended]
    world.clock.advance(LATELY)
    assert not [line for line in await measured(world) if line.startswith("runs_ended_lately")]


async def test_jobs_that_end_without_a_run_are_counted_by_state(world: World) -> None:
    refusing = schedule("refusing", constraints=(TimeWindow(time(1), time(2), wait=False),))
    await world.define(refusing)
    await world.satisfy(world.ready(refusing, 1))
    await world.launcher.run_once()

    assert 'jobs_ended_lately{state="ABORTED"} 1.0' in await measured(world)


async def test_a_shard_is_behind_by_what_its_worker_has_not_reported(world: World) -> None:
    await world.broker.append([Outgoing(SIGNALS, 1, b"k", b"v") for _ in range(5)])
    at = {TopicPartition(SIGNALS, 1): 2}
    stale = {TopicPartition(SIGNALS, SHARDS + 7): 2}  # of a time with more shards
    await PostgresReportStore(world.pool).save("w", [report(1, at), report(SHARDS + 7, stale)])

    lines = await measured(world)
    assert [line for line in lines if line.startswith("shard_lag_records")] == ['shard_lag_records{shard="1"} 3.0']
    assert f"shards {SHARDS}.0" in lines


def report(shard: int, positions: dict[TopicPartition, int]) -> ShardReport:
    return ShardReport(shard, 1, "reading", 1.0, 1.0, 1, 0.1, 0, 0, positions, 0.0)
