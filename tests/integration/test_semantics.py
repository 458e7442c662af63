"""Cases that schedulers answer differently, through real shards on the log in PostgreSQL: how many jobs, of what.

Left to come with correlation: an AND per key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.domain.consumption import Consumption
from streamsched.domain.event import CustomHappened, Event
from streamsched.domain.match import Glob, Match, OneOf
from streamsched.domain.names import DatasetRef, EventName
from streamsched.domain.trigger import AtLeast, CustomEvent, Partitions, Trigger
from streamsched.ports.drivers import open_broker
from streamsched.testing.town import NOON, Town, event_ids, landed, schedule

pytestmark = pytest.mark.postgres

FLIGHTS = DatasetRef("default", "flights")
PAIRED, LATEST = Consumption.PAIRED, Consumption.LATEST


@pytest.fixture
async def town(database: str) -> AsyncIterator[Town]:
    broker = await open_broker(database)
    made = await Town.found(broker, 2)
    await made.start()
    yield made
    await made.stop()
    await broker.close()


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


async def test_x_x_y_y_under_and_is_two_pairs(town: Town) -> None:
    await town.put(schedule(), of("x") & of("y"), consumption=PAIRED)

    assert await answered(town, x(1), x(2), y(1), y(2)) == [["x-1", "y-1"], ["x-2", "y-2"]]


async def test_every_two_of_six_that_come_at_once_is_three(town: Town) -> None:
    await town.put(schedule(), of("x", 2), consumption=PAIRED)
    await town.emit(*(x(n) for n in range(6)))
    await town.settled()

    assert [event_ids(job) for job in await town.jobs()] == [["x-0", "x-1"], ["x-2", "x-3"], ["x-4", "x-5"]]


async def test_an_event_that_happened_earlier_and_comes_later_counts(town: Town) -> None:
    await town.put(schedule(), of("x", 2))

    assert await answered(town, x(1), replace(x(2), time=NOON - timedelta(seconds=5))) == [["x-1", "x-2"]]


async def test_three_of_one_and_two_of_another(town: Town) -> None:
    await town.put(schedule(), of("x", 3) & of("y", 2))

    assert await answered(town, x(1), y(1), x(2), x(3), y(2)) == [["x-1", "x-2", "x-3", "y-1", "y-2"]]


async def test_what_comes_while_a_schedule_is_paused_is_dropped(town: Town) -> None:
    await town.put(schedule(), of("x"), 1, enabled=False)
    assert await answered(town, x(1), x(2), x(3)) == []

    await town.put(schedule(), of("x"), 2)
    assert await answered(town, x(4)) == [["x-4"]]


async def test_a_changed_definition_starts_anew(town: Town) -> None:
    await town.put(schedule(), of("x", 4), 1)
    assert await answered(town, x(1), x(2), x(3)) == []

    await town.put(schedule(), of("x", 2), 2)
    assert await answered(town, x(4), x(5)) == [["x-4", "x-5"]]


async def test_one_event_and_two_hundred_listeners_are_two_hundred_jobs(town: Town) -> None:
    for number in range(200):
        await town.put(schedule(f"s{number}"), of("x"))

    assert await answered(town, x(1)) == [["x-1"]] * 200


async def test_a_repeated_id_counts_once(town: Town) -> None:
    await town.put(schedule(), of("x", 2))

    assert await answered(town, x(1), x(1), x(2)) == [["x-1", "x-2"]]


async def test_alternatives_with_a_shared_input_fire_once_for_it(town: Town) -> None:
    await town.put(schedule(), (of("x") & of("y")) | of("x", 2))

    assert await answered(town, x(1), x(2), y(1)) == [["x-1", "x-2"] * 2], "under each leaf"


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


async def test_latest_takes_the_newest_of_each(town: Town) -> None:
    await town.put(schedule(), of("x") & of("y"), consumption=LATEST)

    assert await answered(town, x(1), x(2), x(3), y(1), y(2)) == [["x-3", "y-1"]]


async def test_two_of_three_inputs_are_enough(town: Town) -> None:
    await town.put(schedule(), AtLeast(2, (of("x"), of("y"), of("z"))))

    assert await answered(town, x(1), x(2), landed(1, "z")) == [["x-1", "x-2", "z-1"]]


async def test_only_what_matches_counts(town: Town) -> None:
    pushed = EventName("default", "pushed")
    wanted = Match.of({"ref": Glob("refs/heads/*"), "by": OneOf(frozenset({"ann", "bob"}))})
    await town.put(schedule(), CustomEvent(pushed, 2, wanted))

    def push(number: int, ref: str, by: str) -> Event:
        return Event(f"p{number}", "git", NOON, CustomHappened(pushed, {"ref": ref, "by": by}))

    said = [("refs/heads/a", "ann"), ("refs/tags/a", "ann"), ("refs/heads/b", "eve"), ("refs/heads/b", "bob")]
    assert await answered(town, *(push(n, *each) for n, each in enumerate(said))) == [["p0", "p3"]]
