"""Changes that come together happen one after the other, and reach the log in that order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from streamsched.domain.errors import ConflictError
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.schedule import BashJob, Program, ScheduleRecord
from streamsched.domain.signals.signal import Drop, Put, Subscribe, Unsubscribe
from streamsched.domain.triggers.trigger import event_keys
from streamsched.store.catalog.app_rows import SCHEDULES_OF_APP, schedule_record

from .conftest import FLIGHTS, WEATHER, CatalogProcess, app, schedule

WEEKLY = schedule().ref


async def test_of_many_creations_of_one_name_exactly_one_succeeds(relaying_scheduler: CatalogProcess) -> None:
    await relaying_scheduler.catalog.deploy(app()).apply()

    results = await asyncio.gather(
        *(relaying_scheduler.catalog.create(schedule(description=str(n))).apply() for n in range(6)),
        return_exceptions=True,
    )

    refused = [result for result in results if isinstance(result, ConflictError)]
    assert len(refused) == 5
    assert (await relaying_scheduler.catalog.reader.schedule(WEEKLY)).record.generation == 1


async def test_concurrent_changes_of_one_schedule_happen_one_after_the_other(
    relaying_scheduler: CatalogProcess,
) -> None:
    catalog = relaying_scheduler.catalog
    await catalog.deploy(app(schedule())).apply()

    await asyncio.gather(*(catalog.update(schedule(description=f"version {n}")).apply() for n in range(12)))

    assert (await catalog.reader.schedule(WEEKLY)).record.generation == 13
    puts = [signal.generation for signal in await relaying_scheduler.signals() if isinstance(signal, Put)]
    assert puts == list(range(1, 14))


async def test_concurrent_first_deployments_leave_what_one_after_the_other_would(
    relaying_scheduler: CatalogProcess,
) -> None:
    def variant(number: int) -> Any:
        program = Program(ProgramRef("default", "flights", f"p{number}"), BashJob("true"))
        return app(replace(schedule(f"s{number}"), program=program.ref), programs=(program,))

    await asyncio.gather(*(relaying_scheduler.catalog.deploy(variant(number)).apply() for number in range(4)))

    (left,) = await relaying_scheduler.catalog.reader.schedules()
    (program,) = await relaying_scheduler.catalog.reader.programs()
    assert left.record.definition.program == program.ref


async def test_two_hundred_changes_reach_the_log_in_their_order(relaying_scheduler: CatalogProcess) -> None:
    """Promise G4 at this level: whatever is appended after a change has returned stands behind its control records."""
    catalog = relaying_scheduler.catalog
    names = [f"s{number}" for number in range(5)]
    await catalog.deploy(app(*(schedule(name) for name in names))).apply()

    async def churn(name: str) -> None:
        ref, definitions = schedule(name).ref, [schedule(name, FLIGHTS & WEATHER), schedule(name, WEATHER)]
        for turn in range(10):
            await catalog.disable(ref).apply()
            await expect(relaying_scheduler, ref)
            await catalog.update(replace(definitions[turn % 2], description=str(turn))).apply()
            await expect(relaying_scheduler, ref)
            await catalog.enable(ref).apply()
            await expect(relaying_scheduler, ref)
            await catalog.delete(ref).apply()
            await expect(relaying_scheduler, ref)
            await catalog.create(schedule(name), enabled=True).apply()
            await expect(relaying_scheduler, ref)

    async def expect(scheduler: CatalogProcess, ref: ScheduleRef) -> None:
        """What the homes know now is what PostgreSQL says now: nothing of the change is still on its way."""
        record = await stored(scheduler, ref)
        assert current(await scheduler.signals(), ref) == (
            record.generation,
            record.exists and record.enabled,
            event_keys(record.definition.trigger) if record.exists and record.enabled else frozenset(),
        )

    await asyncio.gather(*(churn(name) for name in names))  # 250 changes

    generations = [s.generation for s in await relaying_scheduler.signals() if isinstance(s, Put | Drop)]
    assert len(generations) == 5 + 250


def current(signals: list[Any], ref: ScheduleRef) -> tuple[int, bool, frozenset[str]]:
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


async def stored(scheduler: CatalogProcess, ref: ScheduleRef) -> ScheduleRecord:
    row = await SCHEDULES_OF_APP.fetchrow(scheduler.pool, "", [str(ref)])
    assert row is not None
    return schedule_record(row)
