"""Preferences of a namespace are arguments of runs that are made after they were set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.launcher.start import start
from streamsched.ports.runs import RunEnd
from streamsched.store.catalog.preferences import PreferenceStore
from streamsched.store.jobs.submissions import SubmissionStore

from .conftest import PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

PLAIN = schedule("s", properties={"b": "schedule"})


async def prefer(world: World, preferences: Mapping[str, str], namespace: str = "default") -> None:
    store = PreferenceStore(world.pool)
    await store.change(namespace, lambda _: preferences, "", now=world.clock.now())


async def given(world: World, run: str) -> dict[str, str]:
    """The run's arguments, without those that say what started it."""
    found = (await world.runs.get(run)).arguments
    return {name: value for name, value in found.items() if "." not in name}


async def test_a_job_gets_the_preferences_that_stand_when_it_becomes_a_run(world: World) -> None:
    """Not those of when it was satisfied, and of no other namespace."""
    await world.define(PLAIN)
    await prefer(world, {"a": "other", "d": "other"}, "default2")
    await prefer(world, {"a": "early", "c": "early"})
    await world.satisfy(world.ready(PLAIN, 1))
    await prefer(world, {"a": "namespace", "b": "namespace", "e": "namespace"})

    await world.launcher.run_once()

    assert await given(world, "default.app.s.1.1.r1") == {"a": "namespace", "b": "schedule", "e": "namespace"}
    await prefer(world, {})
    await world.satisfy(world.ready(PLAIN, 2))
    await world.launcher.run_once()
    assert await given(world, "default.app.s.1.2.r1") == {"a": "program", "b": "schedule"}
    assert (await given(world, "default.app.s.1.1.r1"))["a"] == "namespace"


async def test_the_next_attempt_of_a_run_keeps_its_arguments(world: World) -> None:
    await world.define(replace(PLAIN, retry=Retry(2)))
    await prefer(world, {"a": "first"})
    await world.satisfy(world.ready(PLAIN, 1))
    await world.launcher.run_once()
    await prefer(world, {"a": "second"})
    run, now = "default.app.s.1.1.r1", world.clock.now()
    assert await world.run_store.claim(run, runner="host:1:1", log_path="/log", now=now)

    assert await world.run_store.finish(run, RunEnd(RunState.FAILED, "", now, 1))

    assert (await given(world, "default.app.s.1.1.r2"))["a"] == "first"


async def test_what_a_person_gives_overrides_preferences(world: World) -> None:
    await world.define(PLAIN)
    await prefer(world, {"a": "namespace", "b": "namespace", "c": "namespace"})
    request = SubmissionRequest(PROGRAM, "t", {"c": "person"})
    job = (await SubmissionStore(world.pool).submit(request, now=world.clock.now())).job
    await world.launcher.run_once()

    at_once = await start(world.runs, world.clock, PROGRAM, {"b": "person"}, token="t")

    assert await given(world, f"{job}.r1") == {"a": "namespace", "b": "namespace", "c": "person"}
    assert await given(world, at_once) == {"a": "namespace", "b": "person", "c": "namespace"}
    definition = (await world.text("programs", str(PROGRAM)))["defaults"]["a"]
    executable = (await world.run(at_once)).executable["defaults"]["a"]
    assert (definition, executable) == ("program", "program")
