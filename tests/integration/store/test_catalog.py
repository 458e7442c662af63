"""The catalog on a real PostgreSQL: what changes store, what they tell the log, and what they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.codec import signal as signal_codec
from streamsched.domain.errors import (
    ConflictError,
    InvalidDefinitionError,
    NotFoundError,
    StreamschedError,
    UnavailableError,
)
from streamsched.domain.home import home
from streamsched.domain.names import AppRef, ProgramRef, ScheduleRef
from streamsched.domain.schedule import BashJob, Program
from streamsched.domain.signal import Drop, Put, Signal, Subscribe, Unsubscribe
from streamsched.domain.trigger import At, Cron, Every, event_keys
from streamsched.ports.catalog import Action, AppChange, AppRecord, ScheduleRecord
from streamsched.store.catalog import schedule_record

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

    with pytest.raises(UnavailableError, match="it stands"):
        await impatient.create(schedule(), enabled=True)

    assert (await house.catalog.get(WEEKLY)).record.enabled
    await house.relay().run_once()
    assert Put(WEEKLY, 1, True, FLIGHTS) in await house.signals()


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
        (lambda c: c.create(schedule("known")), ConflictError, "exists already"),
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


async def test_every_change_is_in_the_history_with_what_it_made(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app())
    await catalog.create(schedule())
    await catalog.enable(WEEKLY)
    await catalog.delete(WEEKLY)

    lines = await open_house.reader.history("schedule", str(WEEKLY))

    assert [line.action for line in lines] == ["deleted", "enabled", "created"]
    assert lines[1].detail == {"generation": 2, "enabled": True, "triggered_by": "7 new partitions of default.flights"}
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


async def test_deploying_the_same_again_changes_nothing(open_house: House) -> None:
    wanted = app(schedule(), schedule("daily", Cron("0 4 * * *"), properties={"a": "b"}, timeout=timedelta(hours=2)))
    await open_house.catalog.deploy(wanted)
    before = await open_house.signals()

    applied = await open_house.catalog.deploy(wanted)

    assert applied.change == AppChange()
    assert await open_house.signals() == before


async def test_a_redeployment_changes_what_differs_and_keeps_what_is_equal(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("equal"), schedule("differs"), schedule("absent")))
    await catalog.disable(schedule("equal").ref)
    await catalog.disable(schedule("differs").ref)

    applied = await catalog.deploy(app(schedule("equal"), schedule("differs", WEATHER), schedule("new", WEATHER)))

    assert {change.after.definition.ref.name: change.action for change in applied.change.schedules} == {
        "absent": Action.DELETED,
        "differs": Action.UPDATED,
        "new": Action.CREATED,
    }
    assert {s.record.definition.ref.name: (s.record.generation, s.record.enabled) for s in await catalog.list()} == {
        "equal": (2, False),
        "differs": (3, False),
        "new": (1, True),
    }


async def test_a_redeployment_that_leaves_schedules_alone_still_takes_those_of_removed_programs(
    open_house: House,
) -> None:
    catalog = open_house.catalog
    report = Program(ProgramRef("default", "flights", "report"), BashJob("true"))
    reporting = replace(schedule("reporting"), program=report.ref)
    await catalog.deploy(app(schedule(), reporting, programs=(JOIN, report)))

    await catalog.deploy(app(schedule("new")), update_schedules=False)

    assert [status.record.definition.ref.name for status in await catalog.list()] == ["weekly"]
    assert [program.ref.name for program in await catalog.programs()] == ["join"]
    lines = await open_house.reader.history("schedule", str(reporting.ref))
    assert lines[0].reason == "its program default.flights.report was removed"


async def test_a_changed_program_leaves_its_schedules_alone(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))
    other = replace(JOIN, executable=BashJob("false"))

    await catalog.deploy(app(schedule(), programs=(other,)))

    assert await catalog.program(JOIN.ref) == other
    assert (await catalog.get(WEEKLY)).record.generation == 1


async def test_listing_is_by_namespace_and_app(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule("b"), schedule("a")))

    assert [status.record.definition.ref.name for status in await catalog.list(namespace="default")] == ["a", "b"]
    assert [status.record.definition.ref.name for status in await catalog.list(app=APP)] == ["a", "b"]
    assert await catalog.list(namespace="other") == []
    assert await catalog.list(app=AppRef("default", "other")) == []


async def test_of_many_creations_of_one_name_exactly_one_succeeds(open_house: House) -> None:
    await open_house.catalog.deploy(app())

    results = await asyncio.gather(
        *(open_house.catalog.create(schedule(description=str(n))) for n in range(6)), return_exceptions=True
    )

    refused = [result for result in results if isinstance(result, ConflictError)]
    assert len(refused) == 5
    assert (await open_house.catalog.get(WEEKLY)).record.generation == 1


async def test_concurrent_changes_of_one_schedule_happen_one_after_the_other(open_house: House) -> None:
    catalog = open_house.catalog
    await catalog.deploy(app(schedule()))

    await asyncio.gather(*(catalog.update(schedule(description=f"version {n}")) for n in range(12)))

    assert (await catalog.get(WEEKLY)).record.generation == 13
    puts = [signal.generation for signal in await open_house.signals() if isinstance(signal, Put)]
    assert puts == list(range(1, 14))


async def test_concurrent_first_deployments_leave_what_one_after_the_other_would(open_house: House) -> None:
    def variant(number: int) -> Any:
        program = Program(ProgramRef("default", "flights", f"p{number}"), BashJob("true"))
        return app(replace(schedule(f"s{number}"), program=program.ref), programs=(program,))

    await asyncio.gather(*(open_house.catalog.deploy(variant(number)) for number in range(4)))

    (left,) = await open_house.catalog.list()
    (program,) = await open_house.catalog.programs()
    assert left.record.definition.program == program.ref


async def test_two_hundred_changes_reach_the_log_in_their_order(open_house: House) -> None:
    """Promise G4 at this level: whatever is appended after a change has returned stands behind its control records."""
    catalog = open_house.catalog
    names = [f"s{number}" for number in range(5)]
    await catalog.deploy(app(*(schedule(name) for name in names)))

    async def churn(name: str) -> None:
        ref, definitions = schedule(name).ref, [schedule(name, FLIGHTS & WEATHER), schedule(name, WEATHER)]
        for turn in range(10):
            await catalog.disable(ref)
            await expect(open_house, ref)
            await catalog.update(replace(definitions[turn % 2], description=str(turn)))
            await expect(open_house, ref)
            await catalog.enable(ref)
            await expect(open_house, ref)
            await catalog.delete(ref)
            await expect(open_house, ref)
            await catalog.create(schedule(name), enabled=True)
            await expect(open_house, ref)

    async def expect(house: House, ref: ScheduleRef) -> None:
        """What the homes know now is what PostgreSQL says now: nothing of the change is still on its way."""
        record = await stored(house, ref)
        assert standing(await house.signals(), ref) == (
            record.generation,
            record.exists and record.enabled,
            event_keys(record.definition.trigger) if record.exists and record.enabled else frozenset(),
        )

    await asyncio.gather(*(churn(name) for name in names))  # 250 changes

    generations = [s.generation for s in await open_house.signals() if isinstance(s, Put | Drop)]
    assert len(generations) == 5 + 250


async def test_control_goes_to_the_judge_before_the_routing(house: House) -> None:
    async with house.relaying():
        await house.catalog.deploy(app(schedule()))
    changing = asyncio.create_task(house.catalog.update(schedule(trigger=WEATHER)))
    await house.written()

    keys = [record.key for record in await house.outbox.pending(limit=10)]
    assert keys == ["schedule:default.flights.weekly", "partition:default.weather", "partition:default.flights"]
    await house.relay().run_once()
    await changing


async def test_a_decision_that_raises_leaves_no_trace(house: House) -> None:
    def refuse(_record: AppRecord) -> AppChange:
        raise ConflictError("no")

    with pytest.raises(ConflictError):
        await house.store.change(APP, None, refuse, now=house.clock.now())

    assert await house.pool.fetchval("SELECT count(*) FROM apps") == 0


def at_homes(*signals: Signal) -> list[Signal]:
    """These signals as the log has them: partition by partition, within one as given."""
    return sorted(signals, key=lambda signal: home(signal_codec.encode(signal)[0], SHARDS))


def standing(signals: list[Any], ref: ScheduleRef) -> tuple[int, bool, frozenset[str]]:
    """What the homes know of a schedule after these signals."""
    generation, enabled, listens = 0, False, set()
    for signal in signals:
        match signal:
            case Put(schedule=of) | Drop(schedule=of) if of == ref:
                assert signal.generation > generation
                generation, enabled = signal.generation, isinstance(signal, Put) and signal.enabled
            case Subscribe(schedule=of, key=key) if of == ref:
                listens.add(key)
            case Unsubscribe(schedule=of, key=key) if of == ref:
                listens.discard(key)
            case _:
                pass
    return generation, enabled, frozenset(listens)


async def stored(house: House, ref: ScheduleRef) -> ScheduleRecord:
    return schedule_record(await house.pool.fetchrow("SELECT * FROM schedules WHERE id = $1", str(ref)))


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
