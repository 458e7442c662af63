"""Cases that schedulers answer differently, in numbers that a table does not show; the others are in the table."""

from __future__ import annotations

import pytest

from streamsched.domain.events.event import Event
from streamsched.domain.names import DatasetRef
from streamsched.domain.triggers.consumption import Consumption
from streamsched.domain.triggers.trigger import Partitions, Trigger
from tests.support.shard_cluster import ShardCluster, event_ids, landed, schedule

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")
PAIRED, LATEST = Consumption.PAIRED, Consumption.LATEST


def x(number: int) -> Event:
    return landed(number, "x")


def y(number: int) -> Event:
    return landed(number, "y")


def of(dataset: str, count: int = 1) -> Trigger:
    return Partitions(DatasetRef("default", dataset), count)


async def answered(cluster: ShardCluster, *events: Event) -> list[list[str]]:
    for event in events:  # one by one: their order across keys matters here
        await cluster.emit(event)
        await cluster.settle()
    return [event_ids(job) for job in await cluster.jobs()]


async def test_five_hundred_events_and_a_job_for_each_are_five_hundred_jobs(cluster: ShardCluster) -> None:
    await cluster.put(schedule(), of("x"))
    await cluster.emit(*(x(n) for n in range(500)))
    await cluster.settle()

    assert [event_ids(job) for job in await cluster.jobs()] == [[f"x-{n}"] for n in range(500)]


async def test_what_comes_while_a_schedule_is_paused_is_dropped(cluster: ShardCluster) -> None:
    await cluster.put(schedule(), of("x"), 1, enabled=False)
    assert await answered(cluster, x(1), x(2), x(3)) == []

    await cluster.put(schedule(), of("x"), 2)
    assert await answered(cluster, x(4)) == [["x-4"]]


async def test_one_event_and_two_hundred_listeners_are_two_hundred_jobs(cluster: ShardCluster) -> None:
    for number in range(200):
        await cluster.put(schedule(f"s{number}"), of("x"))

    assert await answered(cluster, x(1)) == [["x-1"]] * 200


async def test_seven_where_five_are_wanted_leave_two_which_survive_a_restart(cluster: ShardCluster) -> None:
    await cluster.put(schedule(), of("x", 5), consumption=PAIRED)
    assert len(await answered(cluster, landed(1, "x", keys=7))) == 1
    await cluster.stop()
    await cluster.start()

    assert len(await answered(cluster, landed(2, "x", keys=2))) == 1
    assert len(await answered(cluster, landed(3, "x", keys=1))) == 2
    first, second = await cluster.jobs()
    assert [part.count for job in (first, second) for part in job.contributions] == [5, 5]
    assert event_ids(second) == ["x-1", "x-2", "x-3"]


async def test_seven_where_five_are_wanted_are_one_job_given_seven_by_default(cluster: ShardCluster) -> None:
    await cluster.put(schedule(), of("x", 5))
    await answered(cluster, landed(1, "x", keys=7))

    (job,) = await cluster.jobs()
    assert job.contributions[0].count == 7
