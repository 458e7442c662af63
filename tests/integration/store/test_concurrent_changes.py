"""Changes that come together happen one after the other, and reach the log in that order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from streamsched.domain.errors import (
    ConflictError,
)
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedule import BashJob, Program
from streamsched.domain.signal import Drop, Put, Subscribe, Unsubscribe
from streamsched.domain.trigger import event_keys
from streamsched.ports.catalog import ScheduleRecord
from streamsched.store.catalog import schedule_record

from .conftest import FLIGHTS, WEATHER, House, app, schedule

WEEKLY = schedule().ref


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
