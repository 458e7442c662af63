"""Everything that keeps a job from running, each named by one `why`: the job's own summary says what it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

import pytest

from streamsched.catalog import change
from streamsched.domain.constraints.constraint import Concurrency, Constraint, Delay, LastRun
from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.load import ClusterReading, Hysteresis, Load
from streamsched.domain.constraints.plugin import PlugIn
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.constraints.rate import Rate
from streamsched.domain.decisions.admission import WaitFor
from streamsched.domain.errors import UnavailableError
from streamsched.domain.jobs.job import JobCommand
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.pause import Pause
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import Schedule
from streamsched.launcher.loop import Launcher
from streamsched.launcher.plugin_evaluator import PluginEvaluator
from streamsched.launcher.plugins import Maker
from streamsched.launcher.start import start
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.catalog.catalog import CatalogStore
from streamsched.store.limits.clusters import ClusterStore
from streamsched.store.limits.groups import GroupStore
from streamsched.wire.jobs import JOB_REASON

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres

JOB: Final = "default.app.stuck.1.2"
HAND: Final = "default.app.load.manual-x.r1"


def stuck(*constraints: Constraint, **fields: object) -> Schedule:
    return schedule("stuck", constraints=constraints, **fields)


async def judged(world: World, known: Schedule) -> None:
    """The job of the schedule has come and a launcher has checked it."""
    await world.define(known)
    await world.satisfy(world.ready(known, 2))
    await world.launcher.run_once()


async def claimed(world: World, run: str, *ends: RunEnd) -> None:
    now = world.clock.now()
    assert await world.run_store.claim(run, runner="far:1:1", log_path="/log", now=now)
    await world.run_store.mark_started(run, runner="far:1:1", now=now)
    for ending in ends:
        await world.run_store.finish(run, replace(ending, at=now))


async def a_run_started_by_hand_is_active(world: World) -> None:
    await world.define(stuck())
    await start(world.runs, world.clock, PROGRAM, {}, token="x")
    await judged(world, stuck(Concurrency(1, wait=True)))


async def another_program_holds_the_group(world: World) -> None:
    other = replace(schedule("other", constraints=(Group("w", 1),)), program=ProgramRef("default", "app", "other"))
    await judged(world, other)
    await judged(world, stuck(Group("w", 1)))


async def somebody_shut_the_group(world: World) -> None:
    await GroupStore(world.pool).set_limit("w", 0, "ann", now=world.clock.now())
    await judged(world, stuck(Group("w", 1)))


async def the_last_run_is_too_fresh(world: World) -> None:
    await world.define(stuck())
    await start(world.runs, world.clock, PROGRAM, {}, token="x")
    await claimed(world, HAND, RunEnd(RunState.COMPLETED, "", world.clock.now(), 0))
    await judged(world, stuck(LastRun(MINUTE, wait=True)))


async def the_rate_is_used_up(world: World) -> None:
    await world.define(stuck(Rate(1, 10 * MINUTE)))
    await start(world.runs, world.clock, PROGRAM, {}, token="x")
    await judged(world, stuck(Rate(1, 10 * MINUTE)))


async def another_program_has_the_place(world: World) -> None:
    other = replace(schedule("other", constraints=(Pool("p", 1),)), program=ProgramRef("default", "app", "other"))
    await judged(world, other)
    await judged(world, stuck(Pool("p", 1, priority=1000)))


async def one_before_it_has_not_been_looked_at(world: World) -> None:
    other = replace(schedule("other", constraints=(Pool("p", 1, 9),)), program=ProgramRef("default", "app", "other"))
    await world.define(other, known := stuck(Pool("p", 1)))
    await world.satisfy(world.ready(other, 1), world.ready(known, 2))


async def plugged(world: World, plugin: str, **installed: Maker) -> None:
    """The job has come, its plug-in was asked, and a launcher has heard the answer."""
    known = stuck(PlugIn(plugin))
    await world.define(known)
    await world.satisfy(world.ready(known, 2))
    loaders = {name: partial(_itself, maker) for name, maker in installed.items()}
    plugins = PluginEvaluator(loaders, world.decisions, world.clock)
    launcher = Launcher(world.decisions, world.run_monitor, world.notifier, world.clock, plugins)
    await launcher.run_once()
    await plugins.wait_until_settled()
    await launcher.run_once()


def _itself(maker: Maker) -> Maker:
    return maker


async def a_plug_in_says_no(world: World) -> None:
    await plugged(world, "ours", ours=lambda _: lambda _: WaitFor(("auditors",), "the auditors are here"))


async def its_plug_in_is_not_installed(world: World) -> None:
    await plugged(world, "theirs")


async def nobody_knows_the_cluster(world: World) -> None:
    await judged(world, stuck(Load("main", free_cores=Hysteresis(8, 4))))


async def the_cluster_is_full(world: World) -> None:
    await nobody_knows_the_cluster(world)
    board = ClusterStore(world.pool)
    await board.record_reading("main", ClusterReading(free_cores=3), now=world.clock.now())
    world.clock.advance(timedelta(seconds=20))
    await board.record_reading("main", ClusterReading(free_cores=6), now=world.clock.now())


async def the_probe_fails(world: World) -> None:
    await the_cluster_is_full(world)
    world.clock.advance(MINUTE)
    await ClusterStore(world.pool).record_failure("main", "connection refused", now=world.clock.now())


async def somebody_holds_it(world: World) -> None:
    await judged(world, stuck(Delay(MINUTE)))
    await world.jobs.command(JOB, JobCommand.HOLD, "ann: not today", now=world.clock.now())
    await world.launcher.run_once()


async def the_run_before_does_not_end(world: World) -> None:
    known = stuck(overlap=Overlap.CANCEL_RUNNING)
    await world.define(known)
    await world.satisfy(world.ready(known, 1))
    await world.launcher.run_once()
    await claimed(world, "default.app.stuck.1.1.r1")
    await judged(world, known)


async def no_launcher_runs(world: World) -> None:
    await world.define(stuck())
    await world.satisfy(world.ready(stuck(), 2))
    world.clock.advance(MINUTE)


async def its_program_cannot_be_read(world: World) -> None:
    await world.define(stuck())
    await world.put_text("programs", {})
    await world.satisfy(world.ready(stuck(), 2))
    await world.launcher.run_once()


async def its_schedule_cannot_be_read(world: World) -> None:
    await world.define(stuck())
    await world.satisfy(world.ready(stuck(), 2))
    await world.put_text("schedules", {})


async def no_process_can_be_started(world: World) -> None:
    def refuse(run: str, kind: ProcessKind) -> None:
        raise UnavailableError("fork: out of memory")

    world.runners.spawn = refuse  # type: ignore[method-assign]
    await judged(world, stuck())


async def its_host_is_full(world: World) -> None:
    world.runners.free = 0
    await judged(world, stuck())
    world.clock.advance(MINUTE)


async def others_are_before_it(world: World) -> None:
    world.runners.free = 0
    await world.define(stuck())
    await start(world.runs, world.clock, PROGRAM, {}, token="x")
    world.clock.advance(MINUTE)
    await judged(world, stuck())


async def its_runner_never_came(world: World) -> None:
    await judged(world, stuck())
    world.clock.advance(timedelta(seconds=5))


async def its_schedule_was_paused_before_its_run_began(world: World) -> None:
    await judged(world, stuck())
    now, ref = world.clock.now(), stuck().ref
    await CatalogStore(world.pool).change(
        ref.owner, [ref], lambda app: change.pause(app, ref, Pause(), now=now), now=now
    )
    assert await world.run_store.claim(f"{JOB}.r1", runner="far:1:1", log_path="/log", now=now) is None


async def its_next_attempt_pauses(world: World) -> None:
    await judged(world, stuck(retry=Retry(2, delay=MINUTE)))
    await claimed(world, f"{JOB}.r1", RunEnd(RunState.FAILED, "exit code 3", world.clock.now(), 3))


async def its_runner_fell_silent(world: World) -> None:
    await judged(world, stuck())
    await claimed(world, f"{JOB}.r1")
    world.clock.advance(MINUTE)


CAUSES: Final[dict[Callable[[World], Awaitable[None]], str]] = {
    a_run_started_by_hand_is_active: f"it waits: 1 of 1 runs of default.app.load are active: {HAND}",
    another_program_holds_the_group: "it waits: 1 of 1 slots of group w are taken: default.app.other.1.2.r1",
    somebody_shut_the_group: "it waits: 0 of 0 slots of group w are taken",
    the_last_run_is_too_fresh: "it waits: the last run of default.app.load completed at 2026-03-01 12:00:00Z, 1m later",
    the_rate_is_used_up: "it waits: 0 of 1 tokens of program default.app.load are left, 1 come each 10m, the next at",
    another_program_has_the_place: "it waits: 1 of 1 places of pool p are taken: default.app.other.1.2.r1",
    one_before_it_has_not_been_looked_at: "it waits: 0 of 1 places of pool p are taken; 1 job is ahead of this one: "
    "default.app.other.1.1",
    a_plug_in_says_no: "it waits: the auditors are here",
    its_plug_in_is_not_installed: "it waits: plug-in theirs cannot be asked: ",
    nobody_knows_the_cluster: "it waits: there is no reading of cluster main yet",
    the_cluster_is_full: "it waits: cluster main has 6 cores free (at 2026-03-01 12:00:20Z); wanted: 8 cores or more "
    "free (until fewer than 4) on cluster main; shut since 2026-03-01 12:00:00Z",
    the_probe_fails: "it waits: the reading of cluster main is of 2026-03-01 12:00:20Z, too old to go by, "
    "its probe fails since 2026-03-01 12:01:20Z: connection refused",
    somebody_holds_it: "it is held until it is released: ann: not today",
    the_run_before_does_not_end: "it waits: default.app.stuck.1.1.r1 must end first: overlap is cancel_running",
    no_launcher_runs: "nothing stands in its way: the next check admits it, but no launcher has checked it since",
    its_program_cannot_be_read: "it cannot be decided: its program cannot be read: $",
    its_schedule_cannot_be_read: "it cannot be decided: its schedule cannot be read: $",
    no_process_can_be_started: f"no runner process can be started for run {JOB}.r1: fork: out of memory; again at",
    its_host_is_full: f"no runner process has been started for run {JOB}.r1 since 2026-03-01 12:00:00Z: its host",
    others_are_before_it: f"run {JOB}.r1 waits for a runner process: 1 before it want one too",
    its_runner_never_came: f"1 runner process was started for run {JOB}.r1 and none has claimed it; the next",
    its_schedule_was_paused_before_its_run_began: f"run {JOB}.r1 waits until its schedule is resumed",
    its_next_attempt_pauses: f"run {JOB}.r2 starts at 2026-03-01 12:00:",
    its_runner_fell_silent: f"run {JOB}.r1 is RUNNING, but its runner far:1:1 sent its last heartbeat at 2026-03-01",
}


@pytest.mark.parametrize(("cause", "said"), CAUSES.items(), ids=[each.__name__ for each in CAUSES])
async def test_one_why_names_it(world: World, cause: Callable[[World], Awaitable[None]], said: str) -> None:
    await cause(world)

    answer = await explain_job(JOB, jobs=world.jobs, clock=world.clock)

    assert answer.summary.startswith(said)
    assert JOB_REASON.write(answer)["summary"] == answer.summary


async def test_a_clause_says_what_it_needs_what_there_is_and_who_stands_in_the_way_since_when(world: World) -> None:
    await a_run_started_by_hand_is_active(world)

    [clause] = JOB_REASON.write(await explain_job(JOB, jobs=world.jobs, clock=world.clock))["clauses"]

    assert clause["needs"] == "fewer than 1 active runs"
    assert clause["text"].startswith("1 of 1 runs")
    [holder] = clause["holders"]
    assert (holder["href"], holder["since"]) == (f"/v1/runs/{HAND}", world.clock.now())


async def test_the_earliest_start_behind_a_run_is_a_guess_from_how_long_such_runs_take(world: World) -> None:
    await world.define(stuck())
    for token in "abc":
        await start(world.runs, world.clock, PROGRAM, {}, token=token)
        run = f"default.app.load.manual-{token}.r1"
        await claimed(world, run)
        world.clock.advance(4 * MINUTE)
        await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", world.clock.now(), 0))
    begun = world.clock.now()
    await a_run_started_by_hand_is_active(world)
    await claimed(world, HAND)

    answer = await explain_job(JOB, jobs=world.jobs, clock=world.clock)
    assert answer.earliest == begun + 4 * MINUTE
    assert answer.earliest_because == "a guess: 4m is what half of the latest runs of default.app.load took at most"

    world.clock.advance(5 * MINUTE)
    assert (await explain_job(JOB, jobs=world.jobs, clock=world.clock)).earliest is None
