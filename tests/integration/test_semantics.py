"""Cases that schedulers answer differently, in numbers that a table does not show; the others are in the table."""

from __future__ import annotations

import pytest

from streamsched.domain.consumption import Consumption
from streamsched.domain.event import Event
from streamsched.domain.names import DatasetRef
from streamsched.domain.trigger import Partitions, Trigger
from streamsched.testing.town import Town, event_ids, landed, schedule

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")
PAIRED, LATEST = Consumption.PAIRED, Consumption.LATEST


def x(number: int) -> Event:
    return landed(number, "x")


def y(number: int) -> Event:
    return landed(number, "y")


def of(dataset: str, count: int = 1) -> Trigger:
    return Partitions(DatasetRef("default", dataset), count)


async def answered(town: Town, *events: Event) -> list[list[str]]:
    for event in events:  # one by one: their order across keys matters here
        await town.emit(event)
        await town.settled()
    return [event_ids(job) for job in await town.jobs()]


async def test_five_hundred_events_and_a_job_for_each_are_five_hundred_jobs(town: Town) -> None:
    await town.put(schedule(), of("x"))
    await town.emit(*(x(n) for n in range(500)))
    await town.settled()

    assert [event_ids(job) for job in await town.jobs()] == [[f"x-{n}"] for n in range(500)]


async def test_what_comes_while_a_schedule_is_paused_is_dropped(town: Town) -> None:
    await town.put(schedule(), of("x"), 1, enabled=False)
    assert await answered(town, x(1), x(2), x(3)) == []

    await town.put(schedule(), of("x"), 2)
    assert await answered(town, x(4)) == [["x-4"]]


async def test_one_event_and_two_hundred_listeners_are_two_hundred_jobs(town: Town) -> None:
    for number in range(200):
        await town.put(schedule(f"s{number}"), of("x"))

    assert await answered(town, x(1)) == [["x-1"]] * 200


async def test_seven_where_five_are_wanted_leave_two_which_survive_a_restart(town: Town) -> None:
    await town.put(schedule(), of("x", 5), consumption=PAIRED)
    assert len(await answered(town, landed(1, "x", keys=7))) == 1
    await town.stop()
    await town.start()

    assert len(await answered(town, landed(2, "x", keys=2))) == 1
    assert len(await answered(town, landed(3, "x", keys=1))) == 2
    first, second = await town.jobs()
    assert [part.count for job in (first, second) for part in job.contributions] == [5, 5]
    assert event_ids(second) == ["x-1", "x-2", "x-3"]


async def test_seven_where_five_are_wanted_are_one_job_told_of_seven_unless_said_otherwise(town: Town) -> None:
    await town.put(schedule(), of("x", 5))
    await answered(town, landed(1, "x", keys=7))

    (job,) = await town.jobs()
    assert job.contributions[0].count == 7
