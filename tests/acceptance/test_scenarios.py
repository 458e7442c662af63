"""The eight test scenarios of the design that this scheduler began with, in its order and with its numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from streamsched import App, partitions
from streamsched.define.phrase import When
from streamsched.domain.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.schedule import Schedule
from streamsched.testing.house import MONDAY, House, open_house

pytestmark = pytest.mark.postgres

MINUTE = timedelta(minutes=1)
NIGHTLY = ScheduleRef("default", "app", "s")


@pytest.fixture
async def house(database: str) -> AsyncIterator[House]:
    async with open_house(database) as opened:
        yield opened


def some(count: int, first: int = 0) -> list[Event]:
    """So many partitions of the feed, each in a commit of its own."""
    feed = DatasetRef("default", "feed")
    return [
        Event(f"p{n}", "test", MONDAY, PartitionsAdded(feed, (Partition(f"n={n}"),), 1))
        for n in range(first, first + count)
    ]


def app_of(when: When, **policies: object) -> App:
    app = App("app")
    app.bash("load", "true")
    app.schedule("s", "load", when=when, **policies)  # type: ignore[arg-type]
    return app


def schedule_of(app: App) -> Schedule:
    (only,) = app.definition().schedules
    return only


async def test_1_partitions_within_the_interval_between_runs_start_no_run(house: House) -> None:
    await house.deploy(app_of(partitions("feed"), since_last_run="5m", wait=True))
    for n in range(5):
        await house.emit(*some(1, n))
        await house.end_all()
        assert [run.events for run in house.runs] == [("p0",)]
        await house.later(MINUTE)

    assert [run.events for run in house.runs] == [("p0",), ("p1", "p2", "p3", "p4")], "five minutes after the first"


async def test_2_a_redeployed_schedule_runs_with_its_new_properties(house: House) -> None:
    await house.deploy(app_of(partitions("feed"), properties={"mode": "old"}))
    await house.emit(*some(1))
    await house.end_all()

    await house.deploy(app_of(partitions("feed"), properties={"mode": "new"}))
    await house.emit(*some(1, 1))

    assert [run.arguments["mode"] for run in house.runs] == ["old", "new"]


def three(*names: str, feed: str = "feed") -> App:
    app = App("app")
    app.bash("load", "true")
    for name in names:
        app.schedule(name, "load", when=partitions(feed), overlap="queue")
    return app


async def test_3_a_redeploy_changes_schedules_only_when_it_may(house: House) -> None:
    await house.deploy(three("a", "b"))

    await house.deploy(three("b", "c", feed="other"), update_schedules=False)
    assert await schedules(house) == ["a", "b"]
    await house.emit(*some(1))
    assert sorted(str(run.schedule) for run in house.runs) == ["a", "b"]

    await house.deploy(three("b", "c"))
    assert await schedules(house) == ["b", "c"]
    await house.emit(*some(1, 1))
    assert sorted(str(run.schedule) for run in house.runs[2:]) == ["b", "c"]


async def schedules(house: House) -> list[str]:
    return sorted(status.record.definition.ref.name for status in await house.catalog.list())


async def test_4_an_update_starts_counting_anew(house: House) -> None:
    await house.deploy(app_of(partitions("feed", 5), properties={"mode": "old"}))
    await house.emit(*some(1))

    await house.catalog.update(schedule_of(app_of(partitions("feed", 5), properties={"mode": "new"})))
    await house.emit(*some(4, 1))
    await house.later(timedelta(seconds=10))
    assert house.runs == []
    await house.emit(*some(1, 5))

    assert [(run.events, run.arguments["mode"]) for run in house.runs] == [(("p1", "p2", "p3", "p4", "p5"), "new")]


async def test_5_an_update_drops_what_waited_for_the_old_constraints(house: House) -> None:
    await house.deploy(app_of(partitions("feed", 5), delay="10m", properties={"mode": "old"}))
    await house.emit(*some(5))
    assert list((await house.job_states()).values()) == ["PENDING_CONSTRAINT"]

    await house.catalog.update(schedule_of(app_of(partitions("feed", 3), delay="100ms", properties={"mode": "new"})))
    await house.emit(*some(3, 5))
    await house.later(timedelta(milliseconds=100))

    assert [(run.events, run.arguments["mode"]) for run in house.runs] == [(("p5", "p6", "p7"), "new")]
    await house.later(timedelta(minutes=20))
    assert list((await house.job_states()).values()) == ["OBSOLETE", "LAUNCHED"]


async def test_6_a_deleted_schedule_starts_nothing(house: House) -> None:
    await house.deploy(app_of(partitions("feed", 5)))
    await house.emit(*some(4))

    await house.catalog.delete(NIGHTLY)
    await house.emit(*some(1, 4))
    await house.later(timedelta(seconds=10))

    assert house.runs == []
    assert await house.job_states() == {}


async def test_7_nor_does_a_job_of_it_that_waits(house: House) -> None:
    await house.deploy(app_of(partitions("feed", 5), delay="40s"))
    await house.emit(*some(5))
    await house.later(timedelta(seconds=39.5))

    await house.catalog.delete(NIGHTLY)
    await house.later(MINUTE)

    assert house.runs == []
    assert list((await house.job_states()).values()) == ["OBSOLETE"]


async def test_8_trigger_and_all_constraints_are_needed(house: House) -> None:
    app = app_of(partitions("feed", 2), delay="1h", max_concurrent=1, window=("14:00", "15:00"), wait=True)
    app.schedule("other", "load", when=partitions("other"))
    await house.deploy(app)
    other = Event("o1", "test", MONDAY, PartitionsAdded(DatasetRef("default", "other"), (Partition("n=0"),), 1))

    await house.emit(*some(1), other)
    assert [run.schedule for run in house.runs] == ["other"], "whose run is in the way now"
    await house.emit(*some(1, 1))
    await house.until(MONDAY + timedelta(hours=1, minutes=30))
    assert len(house.runs) == 1, "delayed long enough, but the window is not open"
    await house.until(MONDAY + timedelta(hours=2, minutes=10))
    assert len(house.runs) == 1, "the window is open, but a run of the program is active"
    await house.end_all()

    assert [(run.schedule, run.started_at - MONDAY) for run in house.runs[1:]] == [
        ("s", timedelta(hours=2, minutes=10))
    ]
