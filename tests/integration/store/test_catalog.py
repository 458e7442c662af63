"""The catalog on a real PostgreSQL: what changes store, what they tell the log, and what they end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.codec.records import signal as signal_codec
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidDefinitionError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)
from streamsched.domain.events.event import schedule_key
from streamsched.domain.jobs.job import JOB_STATES, JobFact, JobState
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.signals.home import home, key_hash
from streamsched.domain.signals.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import AllOf, At, Cron, Every, Partitions
from streamsched.store.sql import queries

from .conftest import APP, FLIGHTS, JOIN, SHARDS, WEATHER, CatalogProcess, app, schedule

WEEKLY = schedule().ref
WITH_FLIGHTS = key_hash("partition:default.flights")


async def test_a_created_schedule_is_disabled_until_it_is_enabled(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app()).apply()

    created = await relaying_scheduler.status_after(catalog.create(schedule()))
    enabled = await relaying_scheduler.status_after(catalog.enable(WEEKLY))

    assert (created.record.enabled, created.record.generation) == (False, 1)
    assert (enabled.record.enabled, enabled.record.generation) == (True, 2)
    assert await relaying_scheduler.signals() == at_homes(
        Put(WEEKLY, 1, False, FLIGHTS),
        Put(WEEKLY, 2, True, FLIGHTS),
        Subscribe("partition:default.flights", WEEKLY, 2, WITH_FLIGHTS),
    )


async def test_a_change_returns_only_when_the_log_has_it(scheduler: CatalogProcess) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app()).apply()
    creating = asyncio.create_task(scheduler.catalog.create(schedule(), enabled=True).apply())
    await scheduler.written()
    assert not creating.done()

    await scheduler.relay().run_once()

    await asyncio.wait_for(creating, 10)


async def test_a_change_the_log_does_not_take_in_time_stands_and_says_so(scheduler: CatalogProcess) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app()).apply()
    impatient = scheduler.catalog_with(patience=0.05)

    with pytest.raises(UnavailableError, match="the change is stored"):
        await impatient.create(schedule(), enabled=True).apply()

    assert (await scheduler.catalog.reader.schedule(WEEKLY)).record.enabled
    await scheduler.relay().run_once()
    assert Put(WEEKLY, 1, True, FLIGHTS) in await scheduler.signals()


async def test_a_repeated_change_waits_for_what_the_first_wrote(scheduler: CatalogProcess) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(schedule())).apply()
    impatient = scheduler.catalog_with(patience=0.05)

    for change in (
        impatient.update(schedule(description="other")),
        impatient.deploy(app(schedule(description="another"))),
    ):
        for _ in range(2):  # the second finds nothing to change, and the log has not heard of the first
            with pytest.raises(UnavailableError, match="the change is stored"):
                await change.apply()
        await scheduler.relay().run_once()
        await change.apply()


async def test_every_change_bumps_the_generation_and_an_equal_update_does_not(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app()).apply()
    changes = (
        catalog.create(schedule(), enabled=True),
        catalog.update(schedule()),
        catalog.update(schedule(trigger=WEATHER)),
        catalog.disable(WEEKLY),
        catalog.update(schedule(trigger=FLIGHTS & WEATHER)),
        catalog.enable(WEEKLY),
    )
    generations = [(await relaying_scheduler.status_after(each)).record.generation for each in changes]
    await catalog.delete(WEEKLY).apply()
    generations.append((await relaying_scheduler.status_after(catalog.create(schedule()))).record.generation)

    assert generations == [1, 1, 2, 3, 4, 5, 7]


async def test_an_update_keeps_enabled_and_moves_the_subscriptions(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()

    await catalog.update(schedule(trigger=FLIGHTS & WEATHER)).apply()
    await catalog.update(schedule(trigger=WEATHER)).apply()

    assert (await catalog.reader.schedule(WEEKLY)).record.enabled
    assert await relaying_scheduler.signals() == at_homes(
        Put(WEEKLY, 1, True, FLIGHTS),
        Subscribe("partition:default.flights", WEEKLY, 1, WITH_FLIGHTS),
        Put(WEEKLY, 2, True, FLIGHTS & WEATHER),
        Subscribe("partition:default.weather", WEEKLY, 2, WITH_FLIGHTS),
        Put(WEEKLY, 3, True, WEATHER),
        Unsubscribe("partition:default.flights", WEEKLY, 3),
    )


async def test_a_deleted_schedule_is_gone_and_its_name_goes_on_counting(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()

    await catalog.delete(WEEKLY).apply()

    with pytest.raises(NotFoundError):
        await catalog.reader.schedule(WEEKLY)
    with pytest.raises(NotFoundError):
        await catalog.delete(WEEKLY).apply()
    assert await catalog.reader.schedules() == []
    assert Drop(WEEKLY, 2) in await relaying_scheduler.signals()
    assert Unsubscribe("partition:default.flights", WEEKLY, 2) in await relaying_scheduler.signals()
    assert (await relaying_scheduler.status_after(catalog.create(schedule()))).record.generation == 3


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda c: c.create(schedule("known")).apply(), ConflictError, "already exists"),
        (lambda c: c.enable(ScheduleRef("default", "flights", "known")).apply(), ConflictError, "is already enabled"),
        (lambda c: c.enable(WEEKLY).apply(), NotFoundError, "schedule 'default.flights.weekly'"),
        (lambda c: c.disable(WEEKLY).apply(), NotFoundError, "schedule"),
        (lambda c: c.update(schedule()).apply(), NotFoundError, "schedule"),
        (lambda c: c.reader.schedule(WEEKLY), NotFoundError, "schedule"),
        (lambda c: c.reader.program(ProgramRef("default", "flights", "nope")), NotFoundError, "program"),
        (
            lambda c: c.create(replace(schedule(), program=ProgramRef("default", "flights", "nope"))).apply(),
            NotFoundError,
            "program 'default.flights.nope'",
        ),
        (
            lambda c: c.update(replace(schedule("known"), program=ProgramRef("default", "flights", "nope"))).apply(),
            NotFoundError,
            "program 'default.flights.nope'",
        ),
        (
            lambda c: c.create(
                replace(
                    schedule(), ref=ScheduleRef("default", "other", "s"), program=ProgramRef("default", "other", "p")
                )
            ).apply(),
            NotFoundError,
            "program 'default.other.p'",
        ),
        (lambda c: c.create(schedule(trigger=Cron("0 0 30 2 *"))).apply(), InvalidDefinitionError, r"\$\.trigger"),
        (
            lambda c: c.create(schedule(trigger=Cron("0 0 * * *", "Mars/Olympus"))).apply(),
            InvalidDefinitionError,
            "Mars",
        ),
    ],
)
async def test_what_cannot_be_is_refused_with_the_name_of_it_and_changes_nothing(
    relaying_scheduler: CatalogProcess,
    ask: Callable[[Any], Any],
    error: type[StreamschedError],
    words: str,
) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule("known"))).apply()
    before = await relaying_scheduler.signals()

    with pytest.raises(error, match=words):
        await ask(relaying_scheduler.catalog)

    assert await relaying_scheduler.signals() == before
    assert [status.record.generation for status in await relaying_scheduler.catalog.reader.schedules()] == [1]


async def test_a_definition_larger_than_the_log_takes_is_refused_before_it_is_stored(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog_with(largest_record=2000)
    huge = schedule("huge", AllOf(tuple(Partitions(DatasetRef("default", f"d{n}"), 1) for n in range(100))))
    await catalog.deploy(app(schedule())).apply()
    known = await relaying_scheduler.signals()
    for refused, path in [
        (
            lambda: catalog.deploy(app(schedule(), huge)).apply(),
            r"\$\.schedules\.huge: needs \d+ bytes in one log record, the limit is 2000",
        ),
        (lambda: catalog.create(huge).apply(), r"\$: needs"),
        (lambda: catalog.update(replace(huge, ref=schedule().ref)).apply(), r"\$: needs"),
        (lambda: catalog.deploy(app(huge)).preview(), r"\$\.schedules\.huge: needs"),
        (lambda: catalog.update(replace(huge, ref=schedule().ref)).preview(), r"\$: needs"),
    ]:
        with pytest.raises(InvalidDefinitionError, match=path):
            await refused()

    assert [status.record.generation for status in await catalog.reader.schedules()] == [1]
    assert await relaying_scheduler.signals() == known


async def test_disabling_what_is_disabled_is_a_conflict(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule(), enabled=False)).apply()

    with pytest.raises(ConflictError, match="already disabled"):
        await relaying_scheduler.catalog.disable(WEEKLY).apply()


@pytest.mark.parametrize("change", ["disable", "delete", "update"])
async def test_waiting_and_ready_jobs_of_a_changed_schedule_end_as_obsolete(
    relaying_scheduler: CatalogProcess, change: str
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule(), schedule("other"))).apply()
    waiting = await job(relaying_scheduler, "weekly", 1, "PENDING_CONSTRAINT")
    ready = await job(relaying_scheduler, "weekly", 2, "PENDING_LAUNCH")
    launched = await job(relaying_scheduler, "weekly", 3, "LAUNCHED")
    others = await job(relaying_scheduler, "other", 1, "PENDING_CONSTRAINT")
    assert (await catalog.reader.schedule(WEEKLY)).waiting_jobs == 2

    requested = catalog.update(schedule(trigger=WEATHER)) if change == "update" else getattr(catalog, change)(WEEKLY)
    await requested.apply()

    states = {row["id"]: row for row in await relaying_scheduler.pool.fetch("SELECT * FROM jobs")}
    assert {name: row["state"] for name, row in states.items()} == {
        waiting: "OBSOLETE",
        ready: "OBSOLETE",
        launched: "LAUNCHED",
        others: "PENDING_CONSTRAINT",
    }
    assert states[waiting]["reason"] == f"its schedule was {change}d"
    assert states[waiting]["ended_at"] == relaying_scheduler.clock.now()
    history = await relaying_scheduler.reader.history("job", waiting)
    assert [(line.action, line.reason) for line in history] == [("obsolete", f"its schedule was {change}d")]


async def test_what_a_newer_release_stored_is_no_bad_input_of_the_caller_and_hides_no_other(
    relaying_scheduler: CatalogProcess,
) -> None:
    await relaying_scheduler.catalog.deploy(app(schedule())).apply()
    await relaying_scheduler.pool.execute("UPDATE schedules SET definition = definition || '{\"future\": 1}'")

    with pytest.raises(ConfigurationError, match="future"):
        await relaying_scheduler.catalog.reader.schedule(WEEKLY)
    assert await relaying_scheduler.catalog.reader.schedules() == []


def test_the_states_that_end_are_those_a_superseded_job_may_be_in() -> None:
    may_end = {state for state, fact in JOB_STATES.table if fact is JobFact.SUPERSEDED}
    named = re.search(r"state IN \(([^)]*)\)", queries("catalog/catalog")["end_jobs"])

    assert named is not None
    assert {JobState(name.strip(" '")) for name in named[1].split(",")} == may_end


async def test_every_change_is_in_the_history_with_what_it_made(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app()).apply()
    await catalog.create(schedule()).apply()
    await catalog.enable(WEEKLY).apply()
    await catalog.delete(WEEKLY).apply()

    lines = await relaying_scheduler.reader.history("schedule", str(WEEKLY))

    assert [line.action for line in lines] == ["deleted", "enabled", "created"]
    assert lines[1].detail == {
        "generation": 2,
        "enabled": True,
        "triggered_by": "7 new partitions of default.flights",
        "accumulation": "reset",
    }
    assert [line.action for line in await relaying_scheduler.reader.history("program", str(JOIN.ref))] == ["created"]


async def test_timers_stand_for_the_time_leaves_of_enabled_schedules_only(relaying_scheduler: CatalogProcess) -> None:
    catalog, now = relaying_scheduler.catalog, relaying_scheduler.clock.now()
    trigger = Every(timedelta(minutes=5)) | (Cron("0 4 * * *") & FLIGHTS) | At(now - timedelta(days=1))
    await catalog.deploy(app(schedule(trigger=trigger), enabled=False)).apply()
    assert await timers(relaying_scheduler) == {}

    enabled = await relaying_scheduler.status_after(catalog.enable(WEEKLY))

    assert await timers(relaying_scheduler) == {
        "every:300s": (2, now + timedelta(minutes=5)),
        "cron:0 4 * * *@UTC": (2, datetime(2026, 1, 1, 4, tzinfo=UTC)),
    }
    assert enabled.next_tick_at == now + timedelta(minutes=5)
    await catalog.update(schedule(trigger=Every(timedelta(hours=1)))).apply()
    assert await timers(relaying_scheduler) == {"every:3600s": (3, now + timedelta(hours=1))}
    await catalog.disable(WEEKLY).apply()
    assert await timers(relaying_scheduler) == {}


async def test_an_interval_counts_from_the_creation_however_late_it_is_enabled(
    relaying_scheduler: CatalogProcess,
) -> None:
    created_at = relaying_scheduler.clock.now()
    await relaying_scheduler.catalog.deploy(app(schedule(trigger=Every(timedelta(minutes=10))), enabled=False)).apply()
    relaying_scheduler.clock.advance(timedelta(minutes=25))

    enabled = await relaying_scheduler.status_after(relaying_scheduler.catalog.enable(WEEKLY))

    assert enabled.next_tick_at == created_at + timedelta(minutes=30)


async def test_listing_is_by_namespace_and_app(relaying_scheduler: CatalogProcess) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule("b"), schedule("a"))).apply()

    of_namespace = await catalog.reader.schedules(namespace="default")
    assert [status.record.definition.ref.name for status in of_namespace] == ["a", "b"]
    assert [status.record.definition.ref.name for status in await catalog.reader.schedules(app=APP)] == ["a", "b"]
    assert await catalog.reader.schedules(namespace="other") == []
    assert await catalog.reader.schedules(app=AppRef("default", "other")) == []


async def test_control_goes_to_the_judge_before_the_routing(scheduler: CatalogProcess) -> None:
    async with scheduler.relaying():
        await scheduler.catalog.deploy(app(schedule())).apply()
    changing = asyncio.create_task(scheduler.catalog.update(schedule(trigger=WEATHER)).apply())
    await scheduler.written()

    keys = [record.key for record in await scheduler.outbox.list_pending(limit=10)]
    assert keys == [schedule_key(WEEKLY, WITH_FLIGHTS), "partition:default.weather", "partition:default.flights"]
    await scheduler.relay().run_once()
    await changing


def at_homes(*signals: Signal) -> list[Signal]:
    """These signals as the log has them: partition by partition, within one as given. The schedule lives with the
    flights.
    """
    return sorted(signals, key=lambda signal: home(signal_codec.encode(signal, WITH_FLIGHTS)[0], SHARDS))


async def timers(scheduler: CatalogProcess) -> dict[str, tuple[int, datetime]]:
    rows = await scheduler.pool.fetch("SELECT leaf, generation, due_at FROM timers")
    return {row["leaf"]: (row["generation"], row["due_at"]) for row in rows}


async def job(scheduler: CatalogProcess, name: str, sequence: int, state: str) -> str:
    """A job of generation 1, stored as the intake would."""
    ref = str(schedule(name).ref)
    ended = state not in {"PENDING_CONSTRAINT", "PENDING_LAUNCH"}
    await scheduler.pool.execute(
        "INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready,"
        " ended_at) VALUES ($1, $2, 1, $3, $4, $5, now(), now(), '{}', CASE WHEN $6 THEN now() END)",
        f"{ref}.1.{sequence}",
        ref,
        sequence,
        str(JOIN.ref),
        state,
        ended,
    )
    return f"{ref}.1.{sequence}"
