"""The catalog on a real PostgreSQL: what changes store, what they tell the log, and what they end."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.codec import signal as signal_codec
from streamsched.domain.errors import (
    ConfigurationError,
    ConflictError,
    InvalidDefinitionError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)
from streamsched.domain.home import home
from streamsched.domain.job import TRANSITIONS, JobFact, JobState
from streamsched.domain.names import AppRef, DatasetRef, ProgramRef, ScheduleRef
from streamsched.domain.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.trigger import AllOf, At, Cron, Every, Partitions
from streamsched.store.sql import queries

from .conftest import APP, FLIGHTS, JOIN, SHARDS, WEATHER, House, app, schedule

WEEKLY = schedule().ref


async def test_a_created_schedule_is_disabled_until_it_is_enabled(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app())

    created = await catalog.create(schedule())
    enabled = await catalog.enable(WEEKLY)

    assert (created.record.enabled, created.record.generation) == (False, 1)
    assert (enabled.record.enabled, enabled.record.generation) == (True, 2)
    assert await open_house.signals() == at_homes(
        Put(WEEKLY, 1, False, FLIGHTS),
        Put(WEEKLY, 2, True, FLIGHTS),
        Subscribe("partition:default.flights", WEEKLY, 2),
    )


async def test_a_change_returns_only_when_the_log_has_it(house: House) -> None:
    async with house.relaying():
        await house.catalog.deploy(app())
    creating = asyncio.create_task(house.catalog.create(schedule(), enabled=True))
    await house.written()
    assert not creating.done()

    await house.relay().run_once()

    await asyncio.wait_for(creating, 10)


async def test_a_change_the_log_does_not_take_in_time_stands_and_says_so(house: House) -> None:
    async with house.relaying():
        await house.catalog.deploy(app())
    impatient = house.catalog_with(patience=0.05)

    with pytest.raises(UnavailableError, match="the change is stored"):
        await impatient.create(schedule(), enabled=True)

    assert (await house.catalog.get(WEEKLY)).record.enabled
    await house.relay().run_once()
    assert Put(WEEKLY, 1, True, FLIGHTS) in await house.signals()


async def test_a_repeated_change_waits_for_what_the_first_wrote(house: House) -> None:
    async with house.relaying():
        await house.catalog.deploy(app(schedule()))
    impatient = house.catalog_with(patience=0.05)

    for change in (
        lambda: impatient.update(schedule(description="other")),
        lambda: impatient.deploy(app(schedule(description="another"))),
    ):
        for _ in range(2):  # the second finds nothing to change, and the log has not heard of the first
            with pytest.raises(UnavailableError, match="the change is stored"):
                await change()
        await house.relay().run_once()
        await change()


async def test_every_change_bumps_the_generation_and_an_equal_update_does_not(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app())
    generations = [(await catalog.create(schedule(), enabled=True)).record.generation]
    generations.append((await catalog.update(schedule())).record.generation)
    generations.append((await catalog.update(schedule(trigger=WEATHER))).record.generation)
    generations.append((await catalog.disable(WEEKLY)).record.generation)
    generations.append((await catalog.update(schedule(trigger=FLIGHTS & WEATHER))).record.generation)
    generations.append((await catalog.enable(WEEKLY)).record.generation)
    await catalog.delete(WEEKLY)
    generations.append((await catalog.create(schedule())).record.generation)

    assert generations == [1, 1, 2, 3, 4, 5, 7]


async def test_an_update_keeps_enabled_and_moves_the_subscriptions(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))

    await catalog.update(schedule(trigger=FLIGHTS & WEATHER))
    await catalog.update(schedule(trigger=WEATHER))

    assert (await catalog.get(WEEKLY)).record.enabled
    assert await open_house.signals() == at_homes(
        Put(WEEKLY, 1, True, FLIGHTS),
        Subscribe("partition:default.flights", WEEKLY, 1),
        Put(WEEKLY, 2, True, FLIGHTS & WEATHER),
        Subscribe("partition:default.weather", WEEKLY, 2),
        Put(WEEKLY, 3, True, WEATHER),
        Unsubscribe("partition:default.flights", WEEKLY, 3),
    )


async def test_a_deleted_schedule_is_gone_and_its_name_goes_on_counting(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))

    await catalog.delete(WEEKLY)

    with pytest.raises(NotFoundError):
        await catalog.get(WEEKLY)
    with pytest.raises(NotFoundError):
        await catalog.delete(WEEKLY)
    assert await catalog.list() == []
    assert Drop(WEEKLY, 2) in await open_house.signals()
    assert Unsubscribe("partition:default.flights", WEEKLY, 2) in await open_house.signals()
    assert (await catalog.create(schedule())).record.generation == 3


@pytest.mark.parametrize(
    ("ask", "error", "words"),
    [
        (lambda c: c.create(schedule("known")), ConflictError, "already exists"),
        (lambda c: c.enable(ScheduleRef("default", "flights", "known")), ConflictError, "is already enabled"),
        (lambda c: c.enable(WEEKLY), NotFoundError, "schedule 'default.flights.weekly'"),
        (lambda c: c.disable(WEEKLY), NotFoundError, "schedule"),
        (lambda c: c.update(schedule()), NotFoundError, "schedule"),
        (lambda c: c.get(WEEKLY), NotFoundError, "schedule"),
        (lambda c: c.program(ProgramRef("default", "flights", "nope")), NotFoundError, "program"),
        (
            lambda c: c.create(replace(schedule(), program=ProgramRef("default", "flights", "nope"))),
            NotFoundError,
            "program 'default.flights.nope'",
        ),
        (
            lambda c: c.update(replace(schedule("known"), program=ProgramRef("default", "flights", "nope"))),
            NotFoundError,
            "program 'default.flights.nope'",
        ),
        (
            lambda c: c.create(
                replace(
                    schedule(), ref=ScheduleRef("default", "other", "s"), program=ProgramRef("default", "other", "p")
                )
            ),
            NotFoundError,
            "program 'default.other.p'",
        ),
        (lambda c: c.create(schedule(trigger=Cron("0 0 30 2 *"))), InvalidDefinitionError, r"\$\.trigger"),
        (lambda c: c.create(schedule(trigger=Cron("0 0 * * *", "Mars/Olympus"))), InvalidDefinitionError, "Mars"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_name_of_it_and_changes_nothing(
    open_house: House,
    ask: Callable[[Any], Any],
    error: type[StreamschedError],
    words: str,
) -> None:
    await open_house.catalog.deploy(app(schedule("known")))
    before = await open_house.signals()

    with pytest.raises(error, match=words):
        await ask(open_house.catalog)

    assert await open_house.signals() == before
    assert [status.record.generation for status in await open_house.catalog.list()] == [1]


async def test_a_definition_larger_than_the_log_takes_is_refused_before_it_is_stored(open_house: House) -> None:
    catalog = open_house.catalog_with(largest_record=2000)
    huge = schedule("huge", AllOf(tuple(Partitions(DatasetRef("default", f"d{n}"), 1) for n in range(100))))
    await catalog.deploy(app(schedule()))
    known = await open_house.signals()
    for refused, path in [
        (lambda: catalog.deploy(app(schedule(), huge)), r"\$\.schedules\.huge: needs \d+ bytes .* 2000 at most"),
        (lambda: catalog.create(huge), r"\$: needs"),
        (lambda: catalog.update(replace(huge, ref=schedule().ref)), r"\$: needs"),
        (lambda: catalog.preview(app(huge)), r"\$\.schedules\.huge: needs"),
        (lambda: catalog.preview_update(replace(huge, ref=schedule().ref)), r"\$: needs"),
    ]:
        with pytest.raises(InvalidDefinitionError, match=path):
            await refused()

    assert [status.record.generation for status in await catalog.list()] == [1]
    assert await open_house.signals() == known


async def test_disabling_what_is_disabled_is_a_conflict(open_house: House) -> None:
    await open_house.catalog.deploy(app(schedule(), enabled=False))

    with pytest.raises(ConflictError, match="already disabled"):
        await open_house.catalog.disable(WEEKLY)


@pytest.mark.parametrize("change", ["disable", "delete", "update"])
async def test_waiting_and_ready_jobs_of_a_changed_schedule_end_as_obsolete(open_house: House, change: str) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule(), schedule("other")))
    waiting = await job(open_house, "weekly", 1, "PENDING_CONSTRAINT")
    ready = await job(open_house, "weekly", 2, "PENDING_LAUNCH")
    launched = await job(open_house, "weekly", 3, "LAUNCHED")
    others = await job(open_house, "other", 1, "PENDING_CONSTRAINT")
    assert (await catalog.get(WEEKLY)).waiting_jobs == 2

    await (catalog.update(schedule(trigger=WEATHER)) if change == "update" else getattr(catalog, change)(WEEKLY))

    states = {row["id"]: row for row in await open_house.pool.fetch("SELECT * FROM jobs")}
    assert {name: row["state"] for name, row in states.items()} == {
        waiting: "OBSOLETE",
        ready: "OBSOLETE",
        launched: "LAUNCHED",
        others: "PENDING_CONSTRAINT",
    }
    assert states[waiting]["reason"] == f"its schedule was {change}d"
    assert states[waiting]["ended_at"] == open_house.clock.now()
    history = await open_house.reader.history("job", waiting)
    assert [(line.action, line.reason) for line in history] == [("obsolete", f"its schedule was {change}d")]


async def test_what_a_newer_release_stored_is_no_bad_input_of_the_caller(open_house: House) -> None:
    await open_house.catalog.deploy(app(schedule()))
    await open_house.pool.execute("UPDATE schedules SET definition = definition || '{\"future\": 1}'")

    with pytest.raises(ConfigurationError, match="future"):
        await open_house.catalog.list()


def test_the_states_that_end_are_those_a_superseded_job_may_be_in() -> None:
    may_end = {state for state, fact in TRANSITIONS if fact is JobFact.SUPERSEDED}
    named = re.search(r"state IN \(([^)]*)\)", queries("catalog")["end_jobs"])

    assert named is not None
    assert {JobState(name.strip(" '")) for name in named[1].split(",")} == may_end


async def test_every_change_is_in_the_history_with_what_it_made(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app())
    await catalog.create(schedule())
    await catalog.enable(WEEKLY)
    await catalog.delete(WEEKLY)

    lines = await open_house.reader.history("schedule", str(WEEKLY))

    assert [line.action for line in lines] == ["deleted", "enabled", "created"]
    assert lines[1].detail == {
        "generation": 2,
        "enabled": True,
        "triggered_by": "7 new partitions of default.flights",
        "accumulation": "reset",
    }
    assert [line.action for line in await open_house.reader.history("program", str(JOIN.ref))] == ["created"]


async def test_timers_stand_for_the_time_leaves_of_enabled_schedules_only(open_house: House) -> None:
    catalog, now = open_house.catalog, open_house.clock.now()
    trigger = Every(timedelta(minutes=5)) | (Cron("0 4 * * *") & FLIGHTS) | At(now - timedelta(days=1))
    await catalog.deploy(app(schedule(trigger=trigger), enabled=False))
    assert await timers(open_house) == {}

    enabled = await catalog.enable(WEEKLY)

    assert await timers(open_house) == {
        "every:300s": (2, now + timedelta(minutes=5)),
        "cron:0 4 * * *@UTC": (2, datetime(2026, 1, 1, 4, tzinfo=UTC)),
    }
    assert enabled.next_tick_at == now + timedelta(minutes=5)
    await catalog.update(schedule(trigger=Every(timedelta(hours=1))))
    assert await timers(open_house) == {"every:3600s": (3, now + timedelta(hours=1))}
    await catalog.disable(WEEKLY)
    assert await timers(open_house) == {}


async def test_an_interval_counts_from_the_creation_however_late_it_is_enabled(open_house: House) -> None:
    created_at = open_house.clock.now()
    await open_house.catalog.deploy(app(schedule(trigger=Every(timedelta(minutes=10))), enabled=False))
    open_house.clock.advance(timedelta(minutes=25))

    enabled = await open_house.catalog.enable(WEEKLY)

    assert enabled.next_tick_at == created_at + timedelta(minutes=30)


async def test_listing_is_by_namespace_and_app(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("b"), schedule("a")))

    assert [status.record.definition.ref.name for status in await catalog.list(namespace="default")] == ["a", "b"]
    assert [status.record.definition.ref.name for status in await catalog.list(app=APP)] == ["a", "b"]
    assert await catalog.list(namespace="other") == []
    assert await catalog.list(app=AppRef("default", "other")) == []


async def test_control_goes_to_the_judge_before_the_routing(house: House) -> None:
    async with house.relaying():
        await house.catalog.deploy(app(schedule()))
    changing = asyncio.create_task(house.catalog.update(schedule(trigger=WEATHER)))
    await house.written()

    keys = [record.key for record in await house.outbox.pending(limit=10)]
    assert keys == ["schedule:default.flights.weekly", "partition:default.weather", "partition:default.flights"]
    await house.relay().run_once()
    await changing


def at_homes(*signals: Signal) -> list[Signal]:
    """These signals as the log has them: partition by partition, within one as given."""
    return sorted(signals, key=lambda signal: home(signal_codec.encode(signal)[0], SHARDS))


async def timers(house: House) -> dict[str, tuple[int, datetime]]:
    rows = await house.pool.fetch("SELECT leaf, generation, due_at FROM timers")
    return {row["leaf"]: (row["generation"], row["due_at"]) for row in rows}


async def job(house: House, name: str, sequence: int, state: str) -> str:
    """A job of generation 1, stored as the intake would."""
    ref = str(schedule(name).ref)
    ended = state not in {"PENDING_CONSTRAINT", "PENDING_LAUNCH"}
    await house.pool.execute(
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
