"""Where the schedules of a database live: at the home of an event key, until it has enough of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from streamsched.domain.events.event import schedule_key
from streamsched.domain.signals.home import MOST_OF_ONE_KEY, key_hash
from streamsched.domain.triggers.trigger import Cron
from streamsched.store.sql import queries

from .conftest import FLIGHTS, WEATHER, CatalogProcess, app, explained, schedule

pytestmark = pytest.mark.postgres

WITH_FLIGHTS, WITH_WEATHER = (key_hash(f"partition:default.{name}") for name in ("flights", "weather"))


async def affinities(scheduler: CatalogProcess) -> dict[str, int | None]:
    rows = await scheduler.pool.fetch("SELECT id, affinity FROM schedules")
    return {row["id"].rpartition(".")[2]: row["affinity"] for row in rows}


async def test_a_schedule_lives_with_the_key_that_has_the_fewest(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("one"), schedule("clock", Cron("0 4 * * *")))).apply()
    await catalog.create(schedule("two", FLIGHTS & WEATHER)).apply()

    assert await affinities(relaying_scheduler) == {"one": WITH_FLIGHTS, "two": WITH_WEATHER, "clock": None}


async def test_many_schedules_of_one_key_are_spread(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(*(schedule(f"s{number}") for number in range(MOST_OF_ONE_KEY + 3)))).apply()
    await catalog.create(schedule("late")).apply()

    found = Counter((await affinities(relaying_scheduler)).values())
    assert found == {WITH_FLIGHTS: MOST_OF_ONE_KEY, None: 4}

    await catalog.delete(schedule("s0").ref).apply()
    await catalog.create(schedule("later")).apply()
    assert (await affinities(relaying_scheduler))["later"] == WITH_FLIGHTS


async def test_it_stays_where_it_is_when_it_changes_goes_and_comes_back(relaying_scheduler: CatalogProcess) -> None:
    catalog, weekly = relaying_scheduler.catalog, schedule()
    await catalog.deploy(app(weekly)).apply()
    await catalog.update(replace(weekly, trigger=WEATHER)).apply()
    await catalog.delete(weekly.ref).apply()
    await catalog.create(replace(weekly, trigger=WEATHER), enabled=True).apply()

    assert await affinities(relaying_scheduler) == {"weekly": WITH_FLIGHTS}
    keys = {key.decode() for key, _ in await relaying_scheduler.signal_records()}
    assert {key for key in keys if key.startswith("schedule:")} == {schedule_key(weekly.ref, WITH_FLIGHTS)}


async def test_the_schedules_of_a_key_are_counted_by_a_few_entries_of_an_index(scheduler: CatalogProcess) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(schedule())).apply()
    await scheduler.pool.execute(
        "INSERT INTO schedules (id, app, program, definition, generation, enabled, created_at, updated_at, affinity)"
        " SELECT id || n, app, program, definition, 1, true, created_at, updated_at, $1::bigint - n / 8"
        " FROM schedules, generate_series(0, 99999) n",
        WITH_FLIGHTS,
    )
    await scheduler.pool.execute("ANALYZE schedules")

    counting = queries("catalog/catalog")["count_affinities"], [WITH_FLIGHTS, WITH_WEATHER], MOST_OF_ONE_KEY
    async with scheduler.pool.acquire() as connection:
        nodes = await explained(connection, *counting)
    read = [each for each in nodes if each.get("Relation Name") == "schedules"]
    assert [each["Index Name"] for each in read] == ["schedules_by_affinity"]
    assert sum(each["Actual Loops"] * each["Actual Rows"] for each in read) <= 2 * MOST_OF_ONE_KEY
    assert dict(await scheduler.pool.fetch(*counting)) == {WITH_FLIGHTS: MOST_OF_ONE_KEY}
