"""Expectations are judged when they are due, each due time once, by what came up to then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from streamsched import App, cron
from streamsched.admin.installation_metrics import measure_installation
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.expectations.miss import MET_LATE, MISSED
from streamsched.domain.expectations.presence import evidence_mark
from streamsched.store.expectations.evidence import Evidence, store_evidence
from streamsched.store.server.gauges import Gauges
from streamsched.telemetry.metrics import Metrics
from tests.integration.expectations.expectation_world import DAY, HOUR, MINUTE, NOW, SECOND, ExpectationWorld

pytestmark = pytest.mark.postgres

#: 08:00 in Berlin on Monday, 2026-03-02.
EIGHT = datetime(2026, 3, 2, 7, tzinfo=UTC)


def shop(**more: object) -> App:
    app = App("shop")
    app.expect("flights", **{"by": "08:00", "zone": "Europe/Berlin", **more})  # type: ignore[arg-type]
    return app


async def test_what_never_came_is_said_at_its_time_and_once(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    assert await world.look() == EIGHT
    await world.look_at(EIGHT - SECOND)
    assert await world.misses() == [], "never early"
    await world.look_at(EIGHT)
    await world.look_at(EIGHT + HOUR)

    (miss,) = await world.misses()
    assert (miss.due_at, miss.came_at, miss.open, miss.announced) == (EIGHT, None, True, True)
    assert miss.reason == (
        "default.flights was to be there by 08:00 Europe/Berlin every day, 2026-03-02 07:00:00Z: "
        "no commit since 2026-03-01 12:00:00Z"
    )
    (event,) = await world.events()
    assert (event.name.name, event.name.namespace) == (MISSED, "default")
    assert event.attributes["expectation"] == "default.shop.flights"
    assert event.attributes["dataset"] == "default.flights"
    assert [line.reason for line in await world.lines("expectation.missed")] == [miss.reason]
    record = await world.record()
    assert (record.state, record.open_misses) == ("missing", 1)


async def test_what_came_in_time_says_nothing(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    for day in range(3):
        world.clock.set(EIGHT + day * DAY - HOUR)
        await world.commit()
        await world.look_at(EIGHT + day * DAY)
    assert await world.misses() == []
    assert await world.events() == []
    record = await world.record()
    assert (record.state, record.seen_at) == ("met", EIGHT + 2 * DAY - HOUR)
    assert record.watched.recent == (7 * HOUR,) * 3


async def test_what_comes_at_the_very_time_is_in_time_and_a_microsecond_later_is_not(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    world.clock.set(EIGHT)
    await world.commit()
    await world.look_at(EIGHT)
    assert await world.misses() == []
    world.clock.set(EIGHT + DAY + timedelta(milliseconds=1))
    await world.commit()
    await world.look_at(EIGHT + DAY)
    assert [each.due_at for each in await world.misses()] == [EIGHT + DAY]


async def test_what_came_late_is_said_and_does_not_count_for_the_next_day(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look_at(EIGHT)
    world.clock.set(EIGHT + 2 * HOUR + 10 * MINUTE)
    await world.commit()
    await world.look()
    (miss,) = await world.misses()
    assert (miss.came_at, miss.open) == (EIGHT + 2 * HOUR + 10 * MINUTE, False)
    missed, late = await world.events()
    assert (missed.name.name, late.name.name) == (MISSED, MET_LATE)
    assert late.attributes["late"] == "2h10m"
    (line,) = await world.lines("expectation.met_late")
    assert line.reason == "default.flights came 2h10m late, at 2026-03-02 09:10:00Z"
    await world.look_at(EIGHT + DAY)
    assert [each.due_at for each in await world.misses()] == [EIGHT, EIGHT + DAY]


async def test_the_commit_of_the_next_day_counts_for_that_day_although_one_is_missing(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look_at(EIGHT)
    world.clock.set(EIGHT + DAY - 10 * MINUTE)
    await world.commit()
    await world.look_at(EIGHT + DAY)
    (miss,) = await world.misses()
    assert miss.due_at == EIGHT
    assert (await world.record()).state == "met"


async def test_a_repeated_event_counts_once(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    world.clock.set(EIGHT - HOUR)
    await world.commit(event="same")
    await world.look_at(EIGHT)
    world.clock.set(EIGHT + HOUR)
    await world.commit(event="same")
    await world.look_at(EIGHT + DAY)
    assert [each.due_at for each in await world.misses()] == [EIGHT + DAY]


async def test_one_that_is_deployed_a_minute_before_is_not_missed_the_same_day(world: ExpectationWorld) -> None:
    world.clock.set(EIGHT - MINUTE)
    await world.deploy(shop())
    await world.look_at(EIGHT)
    assert await world.misses() == []
    await world.look_at(EIGHT + DAY)
    assert [each.due_at for each in await world.misses()] == [EIGHT + DAY]


async def test_a_change_goes_on_and_another_subject_begins_anew(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look_at(EIGHT - HOUR)
    await world.deploy(shop(by="09:00"))
    await world.look_at(EIGHT)
    assert await world.misses() == []
    await world.look_at(EIGHT + HOUR)
    assert [each.due_at for each in await world.misses()] == [EIGHT + HOUR]

    app = App("shop")
    app.expect("weather", by="10:00", zone="Europe/Berlin", name="flights")
    await world.deploy(app)
    await world.look_at(EIGHT + 2 * HOUR)
    assert not (await world.misses())[-1].open, "what is expected now is something else"
    await world.look_at(EIGHT + DAY + 2 * HOUR)
    assert [each.due_at for each in await world.misses()] == [EIGHT + HOUR, EIGHT + DAY + 2 * HOUR]


async def test_one_that_is_removed_is_missed_no_more(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    await world.deploy(App("shop"))
    assert await world.look_at(EIGHT) is None
    assert await world.size("expectations") == 0
    assert await world.events() == []


async def test_an_equal_deployment_changes_nothing(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    before = await world.pool.fetchrow("SELECT * FROM expectations")
    world.clock.advance(HOUR)
    await world.deploy(shop())
    assert await world.pool.fetchrow("SELECT * FROM expectations") == before


async def test_the_partition_of_the_day_that_ended_last(world: ExpectationWorld) -> None:
    await world.deploy(shop(partition="day={day}"))
    await world.look()
    world.clock.set(EIGHT - HOUR)
    await world.commit("flights", {"day": "2026-02-28", "region": "eu"}, {"day": "2026-03-02", "region": "eu"})
    await world.look_at(EIGHT)
    (miss,) = await world.misses()
    assert miss.key == "day=2026-03-01"
    assert "no partition day=2026-03-01" in miss.reason
    await world.look_at(EIGHT + DAY)
    assert [each.key for each in await world.misses()] == ["day=2026-03-01"], "that of Tuesday came on Monday"
    world.clock.set(EIGHT + 3 * DAY)
    await world.commit("flights", {"region": "ap", "day": "2026-03-01"})
    await world.look()
    first, second = (await world.misses())[:2]
    assert (first.came_at, second.key, second.open) == (EIGHT + 3 * DAY, "day=2026-03-03", True)


async def test_runs_of_a_schedule_and_its_keys(world: ExpectationWorld) -> None:
    app = App("shop")
    load = app.bash("load", "true")
    daily = app.schedule("daily", load, when=cron("0 5 * * *"))
    app.expect(daily, by="08:00", zone="Europe/Berlin")
    app.expect(daily, by="08:00", zone="Europe/Berlin", key="day={day}", name="of-the-day")
    await world.deploy(app)
    await world.look()
    world.clock.set(EIGHT - HOUR)
    await world.completed("default.shop.daily", 1, {"key.day": "2026-02-28", "day": "2026-02-28"})
    await world.completed("default.shop.load", 1)
    await world.look_at(EIGHT)
    assert await world.misses("daily") == []
    (miss,) = await world.misses("of-the-day")
    assert "no completed run of key day=2026-03-01" in miss.reason
    world.clock.set(EIGHT + MINUTE)
    await world.completed("default.shop.daily", 2, {"key.day": "2026-03-01"})
    await world.look()
    assert (await world.misses("of-the-day"))[0].came_at == EIGHT + MINUTE


@pytest.mark.parametrize("late_first", [False, True])
async def test_a_corrected_key_was_there_when_its_first_run_ended(world: ExpectationWorld, late_first: bool) -> None:
    """Both runs are read together, in any order, as after an outage of the launchers."""
    app = App("shop")
    daily = app.schedule("daily", app.bash("load", "true"), when=cron("0 5 * * *"))
    app.expect(daily, by="08:00", zone="Europe/Berlin", key="day={day}", name="of-the-day")
    await world.deploy(app)
    await world.look()
    ended = [EIGHT + HOUR, EIGHT - HOUR] if late_first else [EIGHT - HOUR, EIGHT + HOUR]
    found = [
        Evidence(SubjectKind.SCHEDULE, str(daily), evidence_mark(f"{at}"), at, [{"day": "2026-03-01"}]) for at in ended
    ]
    async with world.pool.acquire() as connection, connection.transaction():
        await store_evidence(connection, SubjectKind.SCHEDULE, found)
    await world.look_at(EIGHT + 2 * HOUR)
    assert await world.misses("of-the-day") == []


async def test_a_schedule_that_is_held_up_says_by_what(world: ExpectationWorld) -> None:
    app = App("shop")
    daily = app.schedule("daily", app.bash("load", "true"), when=cron("0 5 * * *"), enabled=False)
    app.expect(daily, by="08:00", zone="Europe/Berlin")
    await world.deploy(app)
    await world.look_at(EIGHT)
    (miss,) = await world.misses("daily")
    assert miss.reason.endswith("no completed run since 2026-03-01 12:00:00Z (it is disabled)")


async def test_a_miss_starts_a_program_once_with_what_is_missing(world: ExpectationWorld) -> None:
    app = App("shop")
    rescue = app.bash("rescue", "true")
    app.expect("flights", by="08:00", zone="Europe/Berlin", partition="day={day}", then=rescue)
    await world.deploy(app)
    await world.look_at(EIGHT)
    await world.look_at(EIGHT + HOUR)
    [run] = await world.stored_runs()
    assert run.id == "default.shop.rescue.missed-flights-20260302T070000Z.r1"
    assert run.arguments["expectation.key"] == "day=2026-03-01"
    assert run.arguments["expectation.dataset"] == "default.flights"


async def test_nothing_is_missed_before_the_log_is_read_to_the_due_time(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    world.clock.set(EIGHT - SECOND)
    await world.commit()
    world.clock.set(EIGHT + HOUR)
    await world.watch().run_once()
    assert await world.misses() == [], "the log was last read yesterday"
    await world.look()
    assert await world.misses() == []
    assert (await world.record()).state == "met"


async def test_after_days_without_a_launcher_the_newest_miss_is_announced_and_the_others_are_shown(
    world: ExpectationWorld,
) -> None:
    await world.deploy(shop())
    await world.look()
    world.clock.set(EIGHT + DAY - HOUR)
    await world.commit()
    await world.look_at(EIGHT + 5 * DAY)
    misses = await world.misses()
    assert [(each.due_at - EIGHT, each.announced) for each in misses] == [
        (0 * DAY, False),
        (2 * DAY, False),
        (3 * DAY, False),
        (4 * DAY, False),
        (5 * DAY, True),
    ]
    assert [each.attributes["due_at"] for each in await world.events()] == [(EIGHT + 5 * DAY).isoformat()]


async def test_what_came_late_while_no_launcher_ran_is_found_with_the_miss(world: ExpectationWorld) -> None:
    await world.deploy(shop())
    await world.look()
    world.clock.set(EIGHT + HOUR)
    await world.commit()
    await world.look_at(EIGHT + 3 * HOUR)
    (miss,) = await world.misses()
    assert miss.came_at == EIGHT + HOUR
    assert [each.name.name for each in await world.events()] == [MISSED, MET_LATE]


async def test_a_year_without_a_launcher_is_bounded_and_said(world: ExpectationWorld) -> None:
    await world.deploy(shop(by=":15", every="hour"))
    await world.look()
    await world.look_at(NOW + 365 * DAY)
    assert 95 <= len(await world.misses()) <= 102
    assert len(await world.lines("expectation.skipped")) == 1
    assert len(await world.events()) == 1


async def test_two_launchers_judge_each_due_time_once(world: ExpectationWorld) -> None:
    app = App("shop")
    for number in range(200):
        app.expect(f"d{number}", by="08:00", zone="Europe/Berlin", then=None)
    await world.deploy(app)
    await world.look()
    world.clock.set(EIGHT + 3 * SECOND)
    await world.intake.copy_once(timeout=0)
    await asyncio.gather(*(world.watch().run_once() for _ in range(3)))
    assert await world.size("expectation_misses") == 200
    assert len(await world.events()) == 200


async def test_one_bad_row_is_set_aside(world: ExpectationWorld) -> None:
    app = shop()
    app.expect("weather", by="08:00", zone="Europe/Berlin")
    await world.deploy(app)
    await world.look()
    await world.put_text("expectations", {"by": 7}, "default.shop.flights")
    await world.look_at(EIGHT)
    assert len(await world.misses("weather")) == 1
    assert len(await world.lines("expectation.failed")) >= 1
    listed = await world.reader.page(limit=10)
    assert [str(each.expectation.ref) for each in listed] == ["default.shop.weather"]


async def test_the_usual_time_is_learned_from_five_days(world: ExpectationWorld) -> None:
    await world.deploy(shop(by="usual"))
    await world.look()
    midnight = datetime(2026, 3, 1, 23, tzinfo=UTC)
    for day, minutes in enumerate((0, 4, 8, 2, 6)):
        assert (await world.record()).state == "learning"
        world.clock.set(midnight + day * DAY + 8 * HOUR + minutes * MINUTE)
        await world.commit()
        await world.look_at(midnight + (day + 1) * DAY)
    record = await world.record()
    assert record.watched.usual_delay == 8 * HOUR + 19 * MINUTE
    assert await world.misses() == []
    due = midnight + 5 * DAY + 8 * HOUR + 19 * MINUTE
    assert record.watched.due is not None
    assert record.watched.due.at == due
    await world.look_at(due)
    (miss,) = await world.misses()
    assert miss.due_at == due
    assert "by its usual time" in miss.reason
    world.clock.set(due + HOUR)
    await world.commit()
    await world.look()
    assert len((await world.record()).watched.recent) == 6, "what came late is learned from too"


async def test_evidence_that_nothing_asks_for_is_deleted(world: ExpectationWorld) -> None:
    await world.deploy(shop(partition="day={day}"))
    await world.look()
    for day in range(10):
        world.clock.set(EIGHT + day * DAY)
        await world.commit("flights", {"day": f"2026-03-{day + 1:02}"})
        await world.look_at(EIGHT + day * DAY)
    assert await world.evidence.forget(now=world.clock.now()) > 0
    assert await world.size("evidence") <= 6
    assert await world.size("evidence_keys") == 10
    await world.deploy(App("shop"))
    world.clock.advance(10 * DAY)
    await world.evidence.forget(now=world.clock.now())
    assert await world.size("evidence") == 0
    assert await world.size("evidence_keys") == 0


async def test_without_expectations_of_datasets_the_log_is_not_read(world: ExpectationWorld) -> None:
    await world.commit()
    assert not await world.intake.copy_once(timeout=0)
    assert await world.pool.fetchval("SELECT count(*) FROM intake_positions WHERE topic = 'partitions'") == 0
    await world.deploy(shop())
    world.clock.advance(MINUTE)
    await world.commit()
    assert await world.intake.copy_once(timeout=0)
    assert await world.size("evidence") == 1, "from the last look on"


async def test_what_is_missing_and_what_is_not_judged_is_measured(world: ExpectationWorld) -> None:
    app = App("shop")
    app.expect("flights", by="08:00")
    await world.deploy(app)

    async def measured() -> list[str]:
        metrics = Metrics()
        await measure_installation(metrics, Gauges(world.pool), world.broker, 4, now=world.clock.now())
        lines = metrics.render().decode().splitlines()
        return [each.removeprefix("streamsched_") for each in lines if each.startswith("streamsched_expectations")]

    assert await measured() == ["expectations_late_seconds 0.0"]
    world.clock.set(NOW + 21 * HOUR)
    assert await measured() == ["expectations_late_seconds 3600.0"]
    await world.look()
    assert await measured() == ['expectations_missing{namespace="default"} 1.0', "expectations_late_seconds 0.0"]
    await world.commit()
    await world.look_at(NOW + 22 * HOUR)
    assert await measured() == ["expectations_late_seconds 0.0"]
