"""The eleven user stories of the design that this scheduler began with, each as it is told there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from streamsched import App, at_least, cron, every, group, partitions, program, total
from streamsched.domain.event import Event, Partition, PartitionsAdded
from streamsched.domain.names import DatasetRef
from streamsched.domain.run import RunState
from streamsched.testing.house import MONDAY, House, open_house

pytestmark = pytest.mark.postgres

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
GIGABYTE = 10**9


@pytest.fixture
async def house(database: str) -> AsyncIterator[House]:
    async with open_house(database) as opened:
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


def started(house: House) -> list[str]:
    return [run.program for run in house.runs]


async def test_1_many_workflows_run_at_fixed_times(house: House) -> None:
    app = app_of("load")
    for number in range(300):
        app.schedule(f"s{number}", "load", when=cron(f"{number % 60} 13 * * *"))
    await house.deploy(app)

    await house.until(MONDAY + 2 * HOUR, step=timedelta(minutes=1))

    assert sorted(run.schedule or "" for run in house.runs) == sorted(f"s{number}" for number in range(300))
    assert all(run.started_at == on_time(run.schedule or "") for run in house.runs)


def on_time(schedule: str) -> datetime:
    return MONDAY + HOUR + timedelta(minutes=int(schedule[1:]) % 60)


async def test_2_no_schedule_is_skipped_when_the_scheduler_fails_over(house: House) -> None:
    app = app_of("load", "join")
    app.schedule("hourly", "load", when=cron("0 * * * *"), misfire="all", overlap="queue")
    app.schedule("join", "join", when=partitions("feed", 2))
    await house.deploy(app)
    await house.emit(landed("feed-1"))

    await house.fail_over(3 * HOUR)
    await house.emit(landed("feed-2"))

    assert started(house) == ["load", "load", "load", "join"]


async def test_3_a_feed_that_arrives_once_a_day_is_processed_when_it_does_and_only_then(house: House) -> None:
    app = app_of("load")
    app.schedule("daily", "load", when=partitions("feed"))
    await house.deploy(app)
    for arrival in (7, 19, 3):
        await house.later(arrival * HOUR)
        await house.emit(landed(f"feed-{arrival}"))

    assert [(run.events, run.started_at - MONDAY) for run in house.runs] == [
        (("feed-7",), 7 * HOUR),
        (("feed-19",), 26 * HOUR),
        (("feed-3",), 29 * HOUR),
    ]


async def test_4_b_runs_after_a_has_succeeded_and_not_when_it_failed(house: House) -> None:
    app = app_of("a", "b")
    app.schedule("a", "a", when=partitions("feed"))
    app.schedule("b", "b", when=program("a", "succeeded"))
    await house.deploy(app)

    await house.emit(landed("feed-1"))
    await house.end(house.runs[0], RunState.FAILED)
    assert started(house) == ["a"]

    await house.emit(landed("feed-2"))
    await house.end(house.runs[1])
    assert started(house) == ["a", "a", "b"]


async def test_5_thousands_of_rare_feeds_are_processed_once_a_day(house: House) -> None:
    app = app_of("load")
    for number in range(200):
        app.schedule(f"f{number}", "load", when=partitions(f"feed{number}") & cron("0 2 * * *"))
    await house.deploy(app)
    await house.emit(*(landed(f"feed{number}-{n}") for number in (3, 150) for n in range(4)))
    assert house.runs == []

    await house.later(DAY)

    assert sorted((run.schedule, len(run.events)) for run in house.runs) == [("f150", 5), ("f3", 5)], "and the tick"


async def test_6_low_priority_catches_up_when_there_is_room(house: House) -> None:
    app = app_of("high", "low")
    cluster = group("cluster", 2)
    app.schedule("high", "high", when=partitions("urgent"), overlap="queue")
    app.schedule("low", "low", when=partitions("bulk"), overlap="queue", constraints=[cluster], wait=True)
    await house.deploy(app)

    await house.emit(*(landed(f"bulk-{n}") for n in range(5)), *(landed(f"urgent-{n}") for n in range(3)))
    assert sorted(started(house)) == ["high"] * 3 + ["low"] * 2, "urgent ones on time, the rest as there is room"

    await house.end_all()
    assert sorted(started(house)) == ["high"] * 3 + ["low"] * 5


async def test_7_maintenance_runs_once_a_day_in_its_window_and_only_with_new_data(house: House) -> None:
    app = app_of("compact")
    when = partitions("feed") & cron("0 15 * * *")
    app.schedule("compact", "compact", when=when, window=("22:00", "06:00"))
    await house.deploy(app)
    await house.emit(landed("feed-1"))
    await house.until(MONDAY + 10 * HOUR)
    assert [run.started_at for run in house.runs] == [datetime(2026, 3, 2, 22, tzinfo=UTC)]
    await house.end_all()

    await house.later(2 * DAY)
    assert len(house.runs) == 1, "no new data"


async def test_8_a_join_waits_for_all_inputs_but_not_for_ever(house: House) -> None:
    app = app_of("join")
    app.schedule("join", "join", when=(partitions("orders") & partitions("clicks")).within("6h", then="fire"))
    await house.deploy(app)
    await house.emit(landed("orders-1"), landed("clicks-1"))
    await house.emit(landed("orders-2"))
    assert [run.events for run in house.runs] == [("orders-1", "clicks-1")]
    await house.end_all()

    await house.until(MONDAY + 7 * HOUR)

    assert [(run.events, run.started_at - MONDAY) for run in house.runs[1:]] == [(("orders-2",), 6 * HOUR)]


async def test_9_chunks_are_processed_when_all_have_arrived(house: House) -> None:
    app = app_of("known", "unknown")
    app.schedule("known", "known", when=partitions("chunks", 4))
    app.schedule("unknown", "unknown", when=partitions("burst").quiet("30m", at_most="4h"))
    await house.deploy(app)
    for n in range(4):
        await house.emit(landed(f"chunks-{n}"), landed(f"burst-{n}"))
        await house.later(timedelta(minutes=10))
    await house.later(timedelta(minutes=30))

    assert [(run.program, len(run.events)) for run in house.runs] == [("known", 4), ("unknown", 4)]


async def test_10_a_frequent_feed_is_processed_when_enough_has_come(house: House) -> None:
    app = app_of("bytes", "time")
    app.schedule("bytes", "bytes", when=total("feed", "bytes", "10MB"))
    app.schedule("time", "time", when=partitions("feed") & every("5m"))
    await house.deploy(app)
    for n in range(600):
        house.clock.advance(timedelta(seconds=1))
        await house.town.emit(landed(f"feed-{n}", size=50_000))
    await house.rest()

    assert len([run for run in house.runs if run.program == "bytes"]) >= 1
    told = sum(len(run.events) for run in house.runs if run.program == "bytes")
    assert told * 50_000 >= 10_000_000
    assert 1 <= started(house).count("time") <= 2


async def test_11_at_least_every_four_hours_and_sooner_when_100_gb_have_come(house: House) -> None:
    app = app_of("load")
    app.schedule("load", "load", when=at_least(1, total("feed", "bytes", 100 * GIGABYTE), every("4h")))
    await house.deploy(app)

    await house.emit(landed("feed-1", size=60 * GIGABYTE))
    assert house.runs == []
    await house.emit(landed("feed-2", size=50 * GIGABYTE))
    assert [run.started_at - MONDAY for run in house.runs] == [timedelta(0)]
    await house.end_all()

    await house.until(MONDAY + 4 * HOUR)
    assert [run.started_at - MONDAY for run in house.runs] == [timedelta(0), 4 * HOUR]
