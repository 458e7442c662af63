"""The eleven user stories of the design that this scheduler began with, each as it is given there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from streamsched import App, at_least, cron, every, group, partitions, program, total
from streamsched.domain.events.event import Event, Partition, PartitionsAdded
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import DatasetRef
from streamsched.testing.scheduler import MONDAY, InProcessScheduler, open_scheduler

pytestmark = pytest.mark.postgres

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
GIGABYTE = 10**9


@pytest.fixture
async def scheduler(database: str) -> AsyncIterator[InProcessScheduler]:
    async with open_scheduler(database) as opened:
        yield opened


def landed(name: str, *, size: int | None = None) -> Event:
    """`feed-3`: a partition of dataset `feed`."""
    dataset = DatasetRef("default", name.partition("-")[0])
    return Event(name, "test", MONDAY, PartitionsAdded(dataset, (Partition(name, {}, bytes=size),), 1))


def app_of(*programs: str) -> App:
    app = App("lake")
    for name in programs:
        app.bash(name, "true")
    return app


def started(scheduler: InProcessScheduler) -> list[str]:
    return [run.program for run in scheduler.runs]


async def test_1_many_workflows_run_at_fixed_times(scheduler: InProcessScheduler) -> None:
    app = app_of("load")
    for number in range(300):
        app.schedule(f"s{number}", "load", when=cron(f"{number % 60} 13 * * *"))
    await scheduler.deploy(app)

    await scheduler.until(MONDAY + 2 * HOUR, step=timedelta(minutes=1))

    assert sorted(run.schedule or "" for run in scheduler.runs) == sorted(f"s{number}" for number in range(300))
    assert all(run.started_at == on_time(run.schedule or "") for run in scheduler.runs)


def on_time(schedule: str) -> datetime:
    return MONDAY + HOUR + timedelta(minutes=int(schedule[1:]) % 60)


async def test_2_no_schedule_is_skipped_when_the_scheduler_fails_over(scheduler: InProcessScheduler) -> None:
    app = app_of("load", "join")
    app.schedule("hourly", "load", when=cron("0 * * * *"), misfire="all", overlap="queue")
    app.schedule("join", "join", when=partitions("feed", 2))
    await scheduler.deploy(app)
    await scheduler.emit(landed("feed-1"))

    await scheduler.fail_over(3 * HOUR)
    await scheduler.emit(landed("feed-2"))

    assert started(scheduler) == ["load", "load", "load", "join"]


async def test_3_a_feed_that_arrives_once_a_day_is_processed_when_it_does_and_only_then(
    scheduler: InProcessScheduler,
) -> None:
    app = app_of("load")
    app.schedule("daily", "load", when=partitions("feed"))
    await scheduler.deploy(app)
    for arrival in (7, 19, 3):
        await scheduler.advance(arrival * HOUR)
        await scheduler.emit(landed(f"feed-{arrival}"))

    assert [(run.events, run.started_at - MONDAY) for run in scheduler.runs] == [
        (("feed-7",), 7 * HOUR),
        (("feed-19",), 26 * HOUR),
        (("feed-3",), 29 * HOUR),
    ]


async def test_4_b_runs_after_a_has_succeeded_and_not_when_it_failed(scheduler: InProcessScheduler) -> None:
    app = app_of("a", "b")
    app.schedule("a", "a", when=partitions("feed"))
    app.schedule("b", "b", when=program("a", "succeeded"))
    await scheduler.deploy(app)

    await scheduler.emit(landed("feed-1"))
    await scheduler.end(scheduler.runs[0], RunState.FAILED)
    assert started(scheduler) == ["a"]

    await scheduler.emit(landed("feed-2"))
    await scheduler.end(scheduler.runs[1])
    assert started(scheduler) == ["a", "a", "b"]


async def test_5_thousands_of_rare_feeds_are_processed_once_a_day(scheduler: InProcessScheduler) -> None:
    app = app_of("load")
    for number in range(200):
        app.schedule(f"f{number}", "load", when=partitions(f"feed{number}") & cron("0 2 * * *"))
    await scheduler.deploy(app)
    await scheduler.emit(*(landed(f"feed{number}-{n}") for number in (3, 150) for n in range(4)))
    assert scheduler.runs == []

    await scheduler.advance(DAY)

    assert sorted((run.schedule, len(run.events)) for run in scheduler.runs) == [("f150", 5), ("f3", 5)], "and the tick"


async def test_6_low_priority_catches_up_when_there_is_room(scheduler: InProcessScheduler) -> None:
    app = app_of("high", "low")
    cluster = group("cluster", 2)
    app.schedule("high", "high", when=partitions("urgent"), overlap="queue")
    app.schedule("low", "low", when=partitions("bulk"), overlap="queue", constraints=[cluster], wait=True)
    await scheduler.deploy(app)

    await scheduler.emit(*(landed(f"bulk-{n}") for n in range(5)), *(landed(f"urgent-{n}") for n in range(3)))
    assert sorted(started(scheduler)) == ["high"] * 3 + ["low"] * 2, "urgent ones on time, the rest as there is room"

    await scheduler.end_all()
    assert sorted(started(scheduler)) == ["high"] * 3 + ["low"] * 5


async def test_7_maintenance_runs_once_a_day_in_its_window_and_only_with_new_data(
    scheduler: InProcessScheduler,
) -> None:
    app = app_of("compact")
    when = partitions("feed") & cron("0 15 * * *")
    app.schedule("compact", "compact", when=when, window=("22:00", "06:00"))
    await scheduler.deploy(app)
    await scheduler.emit(landed("feed-1"))
    await scheduler.until(MONDAY + 10 * HOUR)
    assert [run.started_at for run in scheduler.runs] == [datetime(2026, 3, 2, 22, tzinfo=UTC)]
    await scheduler.end_all()

    await scheduler.advance(2 * DAY)
    assert len(scheduler.runs) == 1, "no new data"


async def test_8_a_join_waits_for_all_inputs_but_not_forever(scheduler: InProcessScheduler) -> None:
    app = app_of("join")
    app.schedule("join", "join", when=(partitions("orders") & partitions("clicks")).within("6h", then="fire"))
    await scheduler.deploy(app)
    await scheduler.emit(landed("orders-1"), landed("clicks-1"))
    await scheduler.emit(landed("orders-2"))
    assert [run.events for run in scheduler.runs] == [("orders-1", "clicks-1")]
    await scheduler.end_all()

    await scheduler.until(MONDAY + 7 * HOUR)

    assert [(run.events, run.started_at - MONDAY) for run in scheduler.runs[1:]] == [(("orders-2",), 6 * HOUR)]


async def test_9_chunks_are_processed_when_all_have_arrived(scheduler: InProcessScheduler) -> None:
    app = app_of("known", "unknown")
    app.schedule("known", "known", when=partitions("chunks", 4))
    app.schedule("unknown", "unknown", when=partitions("burst").quiet("30m", at_most="4h"))
    await scheduler.deploy(app)
    for n in range(4):
        await scheduler.emit(landed(f"chunks-{n}"), landed(f"burst-{n}"))
        await scheduler.advance(timedelta(minutes=10))
    await scheduler.advance(timedelta(minutes=30))

    assert [(run.program, len(run.events)) for run in scheduler.runs] == [("known", 4), ("unknown", 4)]


async def test_10_a_frequent_feed_is_processed_when_enough_has_come(scheduler: InProcessScheduler) -> None:
    app = app_of("bytes", "time")
    app.schedule("bytes", "bytes", when=total("feed", "bytes", "10MB"))
    app.schedule("time", "time", when=partitions("feed") & every("5m"))
    await scheduler.deploy(app)
    for n in range(600):
        scheduler.clock.advance(timedelta(seconds=1))
        await scheduler.cluster.emit(landed(f"feed-{n}", size=50_000))
    await scheduler.rest()

    assert len([run for run in scheduler.runs if run.program == "bytes"]) >= 1
    reported = sum(len(run.events) for run in scheduler.runs if run.program == "bytes")
    assert reported * 50_000 >= 10_000_000
    assert 1 <= started(scheduler).count("time") <= 2


async def test_11_at_least_every_four_hours_and_sooner_when_100_gb_have_come(scheduler: InProcessScheduler) -> None:
    app = app_of("load")
    app.schedule("load", "load", when=at_least(1, total("feed", "bytes", 100 * GIGABYTE), every("4h")))
    await scheduler.deploy(app)

    await scheduler.emit(landed("feed-1", size=60 * GIGABYTE))
    assert scheduler.runs == []
    await scheduler.emit(landed("feed-2", size=50 * GIGABYTE))
    assert [run.started_at - MONDAY for run in scheduler.runs] == [timedelta(0)]
    await scheduler.end_all()

    await scheduler.until(MONDAY + 4 * HOUR)
    assert [run.started_at - MONDAY for run in scheduler.runs] == [timedelta(0), 4 * HOUR]
