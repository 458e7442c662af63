"""The eight test scenarios of the design that this scheduler began with, in its order and with its numbers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from streamsched import App, partitions
from streamsched.define.combinators import TriggerExpression
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.schedules.schedule import Schedule
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, open_scheduler

pytestmark = pytest.mark.postgres

MINUTE = timedelta(minutes=1)
NIGHTLY = ScheduleRef("default", "app", "s")


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def some(count: int, first: int = 0) -> list[Event]:
    """So many partitions of the feed, each in a commit of its own."""
    feed = DatasetRef("default", "feed")
    return [
        Event(f"p{n}", "test", MONDAY, PartitionsAdded(feed, (Partition(f"n={n}"),), 1))
        for n in range(first, first + count)
    ]


def app_of(when: TriggerExpression, **policies: object) -> App:
    app = App("app")
    app.bash("load", "true")
    app.schedule("s", "load", when=when, **policies)  # type: ignore[arg-type]
    return app


def schedule_of(app: App) -> Schedule:
    (only,) = app.definition().schedules
    return only


async def test_1_partitions_within_the_interval_between_runs_start_no_run(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed"), since_last_run="5m", wait=True))
    for n in range(5):
        await scheduler.emit(*some(1, n))
        await scheduler.end_all()
        assert [run.events for run in scheduler.runs] == [("p0",)]
        await scheduler.advance(MINUTE)

    assert [run.events for run in scheduler.runs] == [("p0",), ("p1", "p2", "p3", "p4")], "five minutes after the first"


async def test_2_a_redeployed_schedule_runs_with_its_new_properties(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed"), properties={"mode": "old"}))
    await scheduler.emit(*some(1))
    await scheduler.end_all()

    await scheduler.deploy(app_of(partitions("feed"), properties={"mode": "new"}))
    await scheduler.emit(*some(1, 1))

    assert [run.arguments["mode"] for run in scheduler.runs] == ["old", "new"]


def three(*names: str, feed: str = "feed") -> App:
    app = App("app")
    app.bash("load", "true")
    for name in names:
        app.schedule(name, "load", when=partitions(feed), overlap="queue")
    return app


async def test_3_a_redeploy_changes_schedules_only_when_it_may(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(three("a", "b"))

    await scheduler.deploy(three("b", "c", feed="other"), update_schedules=False)
    assert await schedules(scheduler) == ["a", "b"]
    await scheduler.emit(*some(1))
    assert sorted(str(run.schedule) for run in scheduler.runs) == ["a", "b"]

    await scheduler.deploy(three("b", "c"))
    assert await schedules(scheduler) == ["b", "c"]
    await scheduler.emit(*some(1, 1))
    assert sorted(str(run.schedule) for run in scheduler.runs[2:]) == ["b", "c"]


async def schedules(scheduler: InProcessScheduler) -> list[str]:
    return sorted(status.record.definition.ref.name for status in await scheduler.catalog.reader.schedules())


async def test_4_an_update_starts_counting_anew(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed", 5), properties={"mode": "old"}))
    await scheduler.emit(*some(1))

    changed = schedule_of(app_of(partitions("feed", 5), properties={"mode": "new"}))
    await scheduler.catalog.update(changed, keep=False).apply()
    await scheduler.emit(*some(4, 1))
    await scheduler.advance(timedelta(seconds=10))
    assert scheduler.runs == []
    await scheduler.emit(*some(1, 5))

    assert [(run.events, run.arguments["mode"]) for run in scheduler.runs] == [(("p1", "p2", "p3", "p4", "p5"), "new")]


async def test_5_an_update_drops_what_waited_for_the_old_constraints(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed", 5), delay="10m", properties={"mode": "old"}))
    await scheduler.emit(*some(5))
    assert list((await scheduler.job_states()).values()) == ["PENDING_CONSTRAINT"]

    await scheduler.catalog.update(
        schedule_of(app_of(partitions("feed", 3), delay="100ms", properties={"mode": "new"}))
    ).apply()
    await scheduler.emit(*some(3, 5))
    await scheduler.advance(timedelta(milliseconds=100))

    assert [(run.events, run.arguments["mode"]) for run in scheduler.runs] == [(("p5", "p6", "p7"), "new")]
    await scheduler.advance(timedelta(minutes=20))
    assert list((await scheduler.job_states()).values()) == ["OBSOLETE", "LAUNCHED"]


async def test_6_a_deleted_schedule_starts_nothing(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed", 5)))
    await scheduler.emit(*some(4))

    await scheduler.catalog.delete(NIGHTLY).apply()
    await scheduler.emit(*some(1, 4))
    await scheduler.advance(timedelta(seconds=10))

    assert scheduler.runs == []
    assert await scheduler.job_states() == {}


async def test_7_nor_does_a_job_of_it_that_waits(scheduler: InProcessScheduler) -> None:
    await scheduler.deploy(app_of(partitions("feed", 5), delay="40s"))
    await scheduler.emit(*some(5))
    await scheduler.advance(timedelta(seconds=39.5))

    await scheduler.catalog.delete(NIGHTLY).apply()
    await scheduler.advance(MINUTE)

    assert scheduler.runs == []
    assert list((await scheduler.job_states()).values()) == ["OBSOLETE"]


async def test_8_trigger_and_all_constraints_are_needed(scheduler: InProcessScheduler) -> None:
    app = app_of(partitions("feed", 2), delay="1h", max_concurrent=1, window=("14:00", "15:00"), wait=True)
    app.schedule("other", "load", when=partitions("other"))
    await scheduler.deploy(app)
    other = Event("o1", "test", MONDAY, PartitionsAdded(DatasetRef("default", "other"), (Partition("n=0"),), 1))

    await scheduler.emit(*some(1), other)
    assert [run.schedule for run in scheduler.runs] == ["other"], "whose run is in the way now"
    await scheduler.emit(*some(1, 1))
    await scheduler.until(MONDAY + timedelta(hours=1, minutes=30))
    assert len(scheduler.runs) == 1, "delayed long enough, but the window is not open"
    await scheduler.until(MONDAY + timedelta(hours=2, minutes=10))
    assert len(scheduler.runs) == 1, "the window is open, but a run of the program is active"
    await scheduler.end_all()

    assert [(run.schedule, run.started_at - MONDAY) for run in scheduler.runs[1:]] == [
        ("s", timedelta(hours=2, minutes=10))
    ]
