"""Runs of another scheduler in the history: rules look back on them, and nothing reacts to them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from streamsched.admin.imported_runs import ImportedRunReport, add_imported_runs
from streamsched.codec.moving.imported_run import imported_run_to_json
from streamsched.domain.constraints.constraint import LastRun
from streamsched.domain.decisions.retention import Retention
from streamsched.domain.jobs.imported_run import ImportedRun
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef, ProgramRef
from streamsched.launcher.retention import ArchiveLoop
from streamsched.store.jobs.archive import Archive
from streamsched.store.jobs.imported_runs import ImportedRunStore

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

KEEP = timedelta(days=30)
HOUR = timedelta(hours=1)


def past(world: World, number: int, *, ended: timedelta, state: RunState = RunState.COMPLETED) -> ImportedRun:
    """A run that ended so long ago, after a minute."""
    at = world.clock.now() - ended
    arguments = {"day": str(number)}
    return ImportedRun(PROGRAM, f"cdap-{number}", state, at - MINUTE, at - MINUTE, at, arguments, "ended in CDAP")


def line(run: ImportedRun) -> bytes:
    return json.dumps(imported_run_to_json(run)).encode() + b"\n"


async def add(world: World, *runs: ImportedRun, lines: tuple[bytes, ...] = ()) -> ImportedRunReport:
    given = (*map(line, runs), *lines)
    return await add_imported_runs(given, store=ImportedRunStore(world.pool), keep=KEEP, now=world.clock.now(), batch=3)


async def retire(world: World) -> int:
    return await ArchiveLoop(Archive(world.pool), Retention(jobs=KEEP), world.clock).run_once()


async def counts(world: World) -> tuple[int, int]:
    """Runs beside live ones, and in the history."""
    return await world.size("runs"), await world.size("runs_history")


async def test_they_are_listed_once_however_often_they_are_imported(world: World) -> None:
    await world.define(schedule("plain"))
    runs = [past(world, number, ended=number * HOUR) for number in range(1, 8)]

    first = await add(world, *runs)
    again = await add(world, *reversed(runs), runs[0])

    assert (first.added, first.known, again.added, again.known) == (7, 0, 0, 8)
    listed = await world.runs.list_recent(program=PROGRAM)
    assert [each.id for each in listed] == [f"{PROGRAM}.cdap-{number}.r1" for number in range(1, 8)]
    shown = await world.runs.get(listed[3].id)
    assert (shown.state, shown.ended_at, dict(shown.arguments), shown.reason, shown.muted) == (
        *(RunState.COMPLETED, runs[3].ended_at, {"day": "4"}, "ended in CDAP", True),
    )
    assert [
        each.id for each in await world.runs.list_recent(app=AppRef("default", "app"), states=[RunState.FAILED])
    ] == []


async def test_two_imports_at_once_add_each_run_once(world: World) -> None:
    await world.define(schedule("plain"))
    runs = [past(world, number, ended=number * HOUR) for number in range(1, 30)]

    reports = await asyncio.gather(*(add(world, *runs) for _ in range(4)))

    assert sum(each.added for each in reports) == 29
    assert sum(await counts(world)) == 29


async def test_the_last_completed_one_counts_for_what_looks_back(world: World) -> None:
    """It stays beside live runs as long as a constraint looks back, and goes to the history after that."""
    limited = schedule("limited", constraints=(LastRun(5 * HOUR, wait=True),))
    await world.define(limited)
    await add(
        world,
        past(world, 1, ended=2 * HOUR, state=RunState.FAILED),
        past(world, 2, ended=3 * HOUR),
        past(world, 3, ended=4 * HOUR),
    )

    assert await counts(world) == (1, 2)
    assert await retire(world) == 0
    await world.satisfy(world.ready(limited, 1))
    await world.launcher.run_once()
    assert await world.states() == {"limited.1.1": "PENDING_CONSTRAINT"}

    world.clock.advance(2 * HOUR)
    await world.launcher.run_once()
    assert await world.states() != {"limited.1.1": "PENDING_CONSTRAINT"}
    world.clock.advance(HOUR)
    assert await retire(world) >= 1
    assert (await counts(world))[1] == 3


async def test_an_older_one_does_not_hide_a_run_of_ours(world: World) -> None:
    await world.define(schedule("plain"))
    await add(world, past(world, 1, ended=HOUR))
    await add(world, past(world, 2, ended=2 * HOUR))

    assert await counts(world) == (1, 1)


async def test_nothing_is_said_of_them(world: World) -> None:
    """Messages, webhooks and expectations follow `decisions`; triggers follow what is published."""
    await world.define(schedule("plain"))
    await add(world, *(past(world, number, ended=number * HOUR) for number in range(1, 9)))

    for table in ("decisions", "outbox", "jobs", "jobs_history"):
        assert await world.size(table) == 0, table
    await world.launcher.run_once()
    assert world.runners.spawned == []
    assert not any(run.spans == "due" for run in await world.stored_runs())


async def test_what_the_history_does_not_keep_is_not_added_and_the_rest_goes_with_it(world: World) -> None:
    await world.define(schedule("plain"))
    days = timedelta(days=1)
    found = await add(world, *(past(world, number, ended=number * days) for number in (1, 29, 32, 4000)))

    assert (found.added, found.old) == (2, 2)
    world.clock.advance(3 * days)
    await retire(world)
    assert [each.id for each in await world.runs.list_recent()] == [f"{PROGRAM}.cdap-1.r1"]
    world.clock.advance(30 * days)
    await retire(world)
    assert await counts(world) == (0, 0)


async def test_a_bad_line_does_not_hold_up_others_and_is_named(world: World) -> None:
    await world.define(schedule("plain"))
    good = past(world, 1, ended=HOUR)
    unknown = replace(good, program=ProgramRef("default", "gone", "x"))
    bad = imported_run_to_json(good)
    lines = (
        *(b"{", b"[]", b"\n", b"7", json.dumps({**bad, "state": "RUNNING"}).encode()),
        json.dumps({**bad, "id": "a b"}).encode(),
        json.dumps({**bad, "endedAt": "2999-01-01T00:00:00Z"}).encode(),
        json.dumps({**bad, "startedAt": "2999-01-01T00:00:00Z"}).encode(),
        json.dumps({**bad, "program": "x"}).encode(),
        json.dumps({**bad, "more": 1}).encode(),
        json.dumps({**bad, "arguments": {"x": "a\0b"}}).encode(),
    )

    found = await add(world, unknown, good, lines=lines)

    assert (found.added, found.without_program, found.unknown, found.refused) == (1, 1, {"default.gone.x"}, 10)
    assert [each.partition(" $")[0] for each in found.reasons] == [
        f"line {number}:" for number in (3, 4, 6, 7, 8, 9, 10, 11, 12, 13)
    ]
    assert "line 7: $.state: is RUNNING: it has not ended" in found.reasons


@pytest.mark.long
async def test_100000_runs(world: World) -> None:
    await world.define(schedule("plain"))
    now = world.clock.now()

    def lines() -> Iterator[bytes]:
        for number in range(100_000):
            yield line(replace(past(world, number, ended=number * timedelta(seconds=20)), id=f"cdap-{number}"))

    store, begun = ImportedRunStore(world.pool), time.monotonic()
    found = await add_imported_runs(lines(), store=store, keep=KEEP, now=now)
    taken = time.monotonic() - begun

    assert (found.added, sum(await counts(world))) == (100_000, 100_000)
    assert (await add_imported_runs(lines(), store=store, keep=KEEP, now=now)).known == 100_000
    assert taken < 120, taken
