"""Room for processes: shared by namespaces and pools, over all launchers; what waits holds nothing and says so."""

from __future__ import annotations

from datetime import timedelta

import orjson
import pytest

from streamsched.domain.constraints.group import Group
from streamsched.domain.constraints.pool import Pool
from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import EventName
from streamsched.domain.programs.spark_deployment import DeployMode
from streamsched.domain.schedules.process_job import BashJob, SparkJob
from streamsched.domain.schedules.schedule import Executable, Program, PublishJob, Schedule
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.limits import process_room
from streamsched.store.runs.launchers import LauncherLeases

from .conftest import World, sharing

pytestmark = pytest.mark.postgres

LONG = sharing("long", Pool("a", 20))
OTHER = sharing("other", Pool("b", 20))
BOX = "box:1:1"


async def places(world: World, host: int, cluster: int = 9, launcher: str = BOX) -> None:
    """A launcher that has so many places."""
    sizes = {ProcessKind.HOST: host, ProcessKind.CLUSTER: cluster}
    await LauncherLeases(world.pool).renew(launcher, timedelta(hours=1), sizes)


async def passes(world: World) -> None:
    """Until nothing is due, and every process has claimed its run."""
    while await world.launcher.run_once():
        pass
    await world.launcher.run_once()
    for run in world.runners.spawned:
        if await world.run_store.claim(run, runner=BOX, log_path=None, now=world.clock.now()) is not None:
            await world.set_run_state(RunState.RUNNING, run)


async def jobs(world: World, schedule: Schedule, count: int) -> None:
    await world.define(schedule)
    await world.satisfy(*(world.ready(schedule, n) for n in range(1, count + 1)))


async def live(world: World, of: Schedule) -> int:
    return sum(run.program == str(of.program) for run in await world.active())


async def end_one(world: World, of: Schedule) -> None:
    now = world.clock.now()
    run = next(run.id for run in await world.active() if run.program == str(of.program) and run.state == "RUNNING")
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))


async def program(world: World, of: Schedule, executable: Executable) -> None:
    await world.put_program(Program(of.program, executable))


async def test_no_more_jobs_are_admitted_than_launchers_have_places(world: World) -> None:
    await places(world, 4)
    await jobs(world, LONG, 10)

    await passes(world)

    assert await live(world, LONG) == 4
    assert len(world.runners.spawned) == 4


async def test_a_pool_without_a_process_starts_one_while_another_has_every_place(world: World) -> None:
    await places(world, 4)
    await jobs(world, LONG, 10)
    await passes(world)

    await jobs(world, OTHER, 3)
    await passes(world)

    assert await live(world, OTHER) == 1
    assert await live(world, LONG) == 4


async def test_a_place_that_becomes_free_goes_to_the_pool_with_fewer(world: World) -> None:
    await places(world, 4)
    await jobs(world, LONG, 10)
    await passes(world)
    await jobs(world, OTHER, 3)
    await passes(world)

    for _ in range(2):  # the first end frees the place in the reserve
        await end_one(world, LONG)
        await passes(world)
        await passes(world)

    assert await live(world, OTHER) == 2
    assert await live(world, LONG) == 2


async def test_the_places_of_all_launchers_count_and_those_of_one_that_is_gone_do_not(world: World) -> None:
    await places(world, 2)
    await places(world, 3, launcher="far:2:2")
    await jobs(world, LONG, 10)
    await passes(world)
    assert await live(world, LONG) == 5

    await LauncherLeases(world.pool).release("far:2:2")
    await end_one(world, LONG)
    await passes(world)
    await passes(world)

    assert await live(world, LONG) == 4


async def test_a_job_that_waits_for_room_holds_no_slot_and_says_what_it_waits_for(world: World) -> None:
    await places(world, 2)
    one = sharing("one", Pool("a", 20), Group("db", 3))
    await jobs(world, one, 3)
    await passes(world)

    found = await explain_job("default.app.one.1.3", jobs=world.jobs, clock=world.clock)

    assert found.summary == "it waits: no room: 2 of 2 processes on launcher box"
    assert found.clauses[-1].needs == "room for a process"
    assert len(await world.slots("db")) == 2
    record = await world.jobs.get("default.app.one.1.3")
    assert record.reason == "no room: 2 of 2 processes on launcher box"  # as lists and `whynot` show it


async def test_a_manual_run_that_waits_says_how_full_the_launchers_are(world: World) -> None:
    await places(world, 2)
    await jobs(world, LONG, 2)
    await passes(world)
    job, of, now = "default.app.long.1.9", str(LONG.program), world.clock.now()
    ready = await world.text("jobs", "default.app.long.1.1")
    await world.add_job(job, program=of, at=now, state=JobState.PENDING_LAUNCH, ready=ready)
    await world.add_run(f"{job}.r1", program=of, at=now, state=RunState.PENDING, job=job, pool="a")
    spawned = len(world.runners.spawned)

    await passes(world)

    assert len(world.runners.spawned) == spawned
    found = await explain_job("default.app.long.1.9", jobs=world.jobs, clock=world.clock)
    assert found.summary == "run default.app.long.1.9.r1 waits for room: 2 of 2 processes on launcher box"


async def test_runs_by_hand_of_a_full_pool_do_not_hold_up_another(world: World) -> None:
    await places(world, 4)
    await jobs(world, LONG, 4)
    await passes(world)
    for n in range(300):
        run, before = f"default.app.hand.{n}", world.clock.now() - timedelta(days=1)
        await world.add_run(run, program=str(LONG.program), at=before, state=RunState.PENDING, pool="a")

    await jobs(world, OTHER, 2)
    await passes(world)

    assert await live(world, OTHER) == 1
    assert world.runners.spawned[4:] == ["default.app.other.1.1.r1"]


async def test_programs_that_launchers_execute_and_those_of_clusters_need_no_place_of_the_host(world: World) -> None:
    await places(world, 1, cluster=3)
    await jobs(world, LONG, 3)
    await passes(world)
    quick, far = sharing("quick"), sharing("far")
    await world.define(quick, far)
    await program(world, quick, PublishJob(EventName("default", "said"), {}))
    await program(world, far, SparkJob("/main.py", master="spark://far:7077", deploy_mode=DeployMode.CLUSTER))

    await world.satisfy(*(world.ready(each, n) for each in (quick, far) for n in range(1, 6)))
    await passes(world)

    assert (await live(world, quick), await live(world, far), await live(world, LONG)) == (5, 3, 1)


async def test_high_priority_gets_the_next_place_of_its_pool(world: World) -> None:
    await places(world, 1)
    low, high = sharing("low", Pool("a", 20)), sharing("high", Pool("a", 20, priority=50))
    await jobs(world, low, 5)
    await passes(world)
    await jobs(world, high, 1)
    await passes(world)
    assert await live(world, high) == 0

    await end_one(world, low)
    await passes(world)
    await passes(world)

    assert (await live(world, high), await live(world, low)) == (1, 0)


async def test_where_no_launcher_says_how_many_places_it_has_nothing_waits(world: World) -> None:
    await jobs(world, LONG, 10)

    await passes(world)

    assert await live(world, LONG) == 10


async def test_ten_thousand_runs_that_wait_are_not_read_to_find_the_next(world: World) -> None:
    await world.define(LONG)
    await program(world, LONG, BashJob("true"))
    await world.pool.execute(
        "INSERT INTO runs (id, attempt, program, executable, arguments, state, created_at, spawn_at, pool) "
        "SELECT format('r%s', n), 1, format('n%s.app.p', n % 3), '{\"type\": \"bash\"}', '{}', 'PENDING', now(), "
        "'epoch', 'a' FROM generate_series(1, 10000) n"
    )
    await world.pool.execute(
        "INSERT INTO jobs (id, schedule, generation, sequence, program, state, satisfied_at, created_at, ready) "
        "SELECT format('default.app.long.1.%s', n), 'default.app.long', 1, n, 'default.app.long', "
        "'PENDING_CONSTRAINT', now(), now(), '{}' FROM generate_series(1, 10000) n"
    )
    await world.pool.execute(
        "INSERT INTO room_waits SELECT id, 'host', format('n%s', sequence % 3), 'a', satisfied_at FROM jobs"
    )
    await world.pool.execute("ANALYZE runs, jobs, room_waits")

    read = {
        name: await rows_read(world, name, arguments)
        for name, arguments in (
            ("any_pending", "'host', now(), 3"),
            ("pending", "'host', now(), 3, 8"),
            ("waiting", "'host', 8"),
            ("held", "'host', now(), ARRAY['box']"),
            ("wake", "'host', ARRAY['n1'], ARRAY['a'], ARRAY[8]"),
        )
    }

    assert max(read.values()) <= 200, read


async def rows_read(world: World, name: str, arguments: str) -> float:
    """The most rows that one node of the plan returned or threw away."""
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.execute(f"PREPARE q AS {process_room._SQL[name]}")
        [plan] = orjson.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE q ({arguments})"))
        await connection.execute("DEALLOCATE q")
    return _most(plan["Plan"])


def _most(node: dict[str, object]) -> float:
    own = (float(str(node["Actual Rows"])) + float(str(node.get("Rows Removed by Filter", 0)))) * float(
        str(node["Actual Loops"])
    )
    children = node.get("Plans", [])
    assert isinstance(children, list)
    return max([own, *(_most(each) for each in children)])
