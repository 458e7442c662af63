"""The quota of active runs: jobs of a namespace wait for one of its runs to end, whatever admits them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from streamsched.domain.constraints.group import Group
from streamsched.domain.errors import NotFoundError, QuotaExceededError
from streamsched.domain.jobs.job import JobCommand
from streamsched.domain.jobs.run import RunState
from streamsched.domain.quotas.limited import Quota
from streamsched.domain.schedules.schedule import OnTimeout
from streamsched.launcher.loop import Launcher
from streamsched.launcher.start import start
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.access.quotas import QuotaStore
from streamsched.store.limits.groups import GroupStore
from streamsched.store.runs.run_monitor import SilentRun

from .conftest import World, sharing

pytestmark = pytest.mark.postgres

LEFT, RIGHT = sharing("left"), sharing("right")
QUOTA = "quota:default"


async def limit(world: World, most: int) -> None:
    await QuotaStore(world.pool).set("default", Quota.RUNS, most, "the pilot", now=world.clock.now())


async def end(world: World, run: str) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner=f"host:1:{run}", log_path="/log", now=now)
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))


@pytest.fixture
async def full(world: World) -> World:
    """`left.1.1` has the only place of the namespace, `right.1.1` waits for it."""
    await limit(world, 1)
    await world.define(LEFT, RIGHT)
    await world.satisfy(world.ready(LEFT, 1))
    await world.launcher.run_once()
    await world.satisfy(world.ready(RIGHT, 1))
    await world.launcher.run_once()
    assert await world.states() == {"left.1.1": "PENDING_LAUNCH", "right.1.1": "PENDING_CONSTRAINT"}
    return world


async def test_the_end_of_a_run_starts_a_job_of_another_program(full: World) -> None:
    await end(full, "default.app.left.1.1.r1")
    assert await full.launcher.run_once() == 1

    assert (await full.states())["right.1.1"] == "PENDING_LAUNCH"
    assert await full.holders(QUOTA) == ["default.app.right.1.1.r1"]
    assert await full.group_waits() == []


async def test_why_names_the_quota_and_the_run(full: World) -> None:
    answer = await explain_job("default.app.right.1.1", jobs=full.jobs, clock=full.clock)

    reason = "1 of 1 runs of namespace default are active (quota runs): default.app.left.1.1.r1"
    assert answer.summary == f"it waits: {reason}"
    assert (answer.clauses[-1].needs, answer.clauses[-1].text) == ("quota runs", reason)
    assert [holder.run for holder in answer.clauses[-1].holders] == ["default.app.left.1.1.r1"]
    assert (await full.job("default.app.right.1.1")).reason == reason
    assert await GroupStore(full.pool).all() == [], "a quota is no group"


async def test_neither_a_command_nor_a_timeout_passes_the_quota(full: World) -> None:
    hasty = sharing("hasty", Group("shut", 1), timeout=timedelta(seconds=1), on_timeout=OnTimeout.LAUNCH)
    await full.define(hasty)
    await GroupStore(full.pool).set_limit("shut", 0, "", now=full.clock.now())
    await full.satisfy(full.ready(hasty, 1))
    await full.jobs.command("default.app.right.1.1", JobCommand.FORCE, "ann", now=full.clock.now())
    full.clock.advance(timedelta(minutes=1))
    await full.launcher.run_once()

    waiting = {"left.1.1": "PENDING_LAUNCH", "right.1.1": "PENDING_CONSTRAINT", "hasty.1.1": "PENDING_CONSTRAINT"}
    assert await full.states() == waiting
    await limit(full, 3)
    await full.launcher.run_once()
    assert set((await full.states()).values()) == {"PENDING_LAUNCH"}
    assert await full.holders(QUOTA) == [f"default.app.{name}.1.1.r1" for name in ("hasty", "left", "right")]


async def test_a_job_that_times_out_while_it_waits_for_the_quota_ends(full: World) -> None:
    brief = sharing("brief", timeout=timedelta(seconds=30))
    await full.define(brief)
    await full.satisfy(full.ready(brief, 1))
    await full.launcher.run_once()
    full.clock.advance(timedelta(seconds=30))
    await full.launcher.run_once()

    assert (await full.states())["brief.1.1"] == "TIMED_OUT"


async def test_a_run_to_start_at_once_is_refused_also_by_force(full: World) -> None:
    for force in (False, True):
        with pytest.raises(QuotaExceededError, match="quota runs of namespace 'default' is 1: 1 in use"):
            await start(full.runs, full.clock, RIGHT.program, {}, force=force, token=f"t{force}")
    await end(full, "default.app.left.1.1.r1")
    run = await start(full.runs, full.clock, RIGHT.program, {}, token="now")

    assert await full.holders(QUOTA) == [run]
    await full.launcher.run_once()
    assert (await full.states())["right.1.1"] == "PENDING_CONSTRAINT"


async def test_the_next_attempt_of_a_lost_run_keeps_its_place(full: World) -> None:
    run, now = "default.app.left.1.1.r1", full.clock.now()
    assert await full.run_store.claim(run, runner="host:1:1", log_path="/log", now=now)
    lost = await full.run_store.mark_lost(SilentRun(run, 1, "host:1:1", now), "gone", now=now, attempts=2)
    await full.launcher.run_once()

    assert lost is not None
    assert await full.holders(QUOTA) == [lost.next_run]
    assert (await full.states())["right.1.1"] == "PENDING_CONSTRAINT"


async def test_runs_that_are_active_when_the_quota_is_set_count(world: World) -> None:
    await world.define(LEFT, RIGHT)
    await world.satisfy(world.ready(LEFT, 1))
    await world.launcher.run_once()
    assert await world.size("groups") == 0, "without a quota nothing is counted"
    await limit(world, 1)
    await world.satisfy(world.ready(RIGHT, 1))
    await world.launcher.run_once()

    assert (await world.states())["right.1.1"] == "PENDING_CONSTRAINT"
    await end(world, "default.app.left.1.1.r1")
    await world.launcher.run_once()
    assert (await world.states())["right.1.1"] == "PENDING_LAUNCH"


async def test_the_sweep_counts_runs_that_were_stored_while_the_quota_was_set(full: World) -> None:
    await full.free_slots()

    await full.decisions.recheck_all(before=full.clock.now())

    assert await full.holders(QUOTA) == ["default.app.left.1.1.r1"]


async def test_without_the_quota_all_who_wait_start(full: World) -> None:
    await full.satisfy(full.ready(RIGHT, 2))
    await full.launcher.run_once()
    quotas = QuotaStore(full.pool)

    removed = await quotas.unset("default", Quota.RUNS, "the pilot is over", now=full.clock.now())

    assert (removed.limit, removed.used) == (1, 1.0)
    await full.launcher.run_once()
    assert "PENDING_CONSTRAINT" not in (await full.states()).values()
    assert await full.holders() == []
    with pytest.raises(NotFoundError):
        await quotas.unset("default", Quota.RUNS, "", now=full.clock.now())
    assert await full.reasons(kind="namespace") == [
        "runs is 1: the pilot",
        "runs is without limit: the pilot is over",
    ]


async def test_several_launchers_never_start_more_runs_than_the_quota(world: World) -> None:
    await limit(world, 3)
    schedules = [sharing(f"s{n}") for n in range(8)]
    await world.define(*schedules)
    await world.satisfy(*(world.ready(each, 1) for each in schedules))
    others = [Launcher(world.decisions, world.run_monitor, world.notifier, world.clock) for _ in range(3)]

    await asyncio.gather(*(each.run_once() for each in (world.launcher, *others)))

    assert len(await world.holders(QUOTA)) == 3
    assert list((await world.states()).values()).count("PENDING_LAUNCH") == 3
