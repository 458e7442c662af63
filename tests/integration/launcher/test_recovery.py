"""The runs of a launcher that died: found together, given back once, and repeated only when their request had left."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from streamsched.domain.addresses import EVERYWHERE
from streamsched.domain.constraints.group import Group
from streamsched.domain.jobs.failure import Failure
from streamsched.domain.jobs.in_flight import FIRST
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.deadline import Deadline, DeadlineKind
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.retry import Retry
from streamsched.domain.schedules.schedule import HttpJob, PublishJob
from streamsched.launcher.inline_executor import InlineExecutor
from streamsched.launcher.start import start
from streamsched.ports.runs import StopRequest
from streamsched.process.http_client import HttpClient
from streamsched.store.runs.launchers import LauncherLeases, RecoveredRuns
from streamsched.store.runs.run_batch import RunBatch
from streamsched.store.runs.run_monitor import LostRun, SilentRun

from .conftest import MINUTE, PROGRAM, World, schedule
from .inline import HERE, LEASE, OTHER, QUICK, SAY, THIRD, Answering, Staffed, answering, request, run, satisfied

pytestmark = pytest.mark.postgres


async def died(world: World, *launchers: Staffed, alive: bool = False) -> None:
    """The lease of the first launcher runs out; the others have held theirs for long."""
    dead, *others = launchers
    world.runners.living[dead.me] = alive
    for each in launchers:
        await each.recovery.renew()
    await world.expire_launchers(str(dead.me))
    await held_for_long(world, *others)


async def held_for_long(world: World, *launchers: Staffed) -> None:
    names = [str(each.me) for each in launchers]
    await world.age_launchers(*names, by=timedelta(hours=1))


async def recover(world: World, *, gone: bool = True, attempts: int = 3) -> RecoveredRuns | None:
    leases = LauncherLeases(world.pool)
    return await leases.recover(str(HERE), LEASE, gone=gone, attempts=attempts, now=world.clock.now())


async def holding(world: World, program: HttpJob | PublishJob, jobs: int, **fields: Any) -> Staffed:
    """A launcher that has taken runs of so many jobs, more than it may send at a time, and not claimed one yet."""
    one = schedule("quick", overlap=Overlap.QUEUE, **fields)
    await world.define(one)
    await world.execute(program)
    await world.satisfy(*(world.ready(one, n) for n in range(1, jobs + 1)))
    dead = Staffed(world)
    while await world.launcher.run_once():  # without an executor: all become PENDING
        pass
    taken = await world.run_store.claim_inline(
        world.clock.now(), retry_at=[world.clock.now() + MINUTE], jitter=0, limit=jobs, inline_by=str(HERE)
    )
    assert len(taken) == jobs
    dead.inline_executor.claim_and_execute([each.run for each in taken])
    return dead


async def asked(far: Answering, requests: int) -> None:
    async with asyncio.timeout(30):
        while len(far.asked) < requests:
            await far.asking.wait()
            far.asking.clear()


async def everything_ends(world: World, staffed: Staffed) -> None:
    async with asyncio.timeout(60):
        while await world.active():
            await staffed.once()
            await asyncio.sleep(0.01)


async def test_no_request_leaves_before_its_start_is_stored(world: World) -> None:
    async with answering("") as far:
        await satisfied(world, request(far), jobs=3)
        await world.refuse(f"NEW.id = '{run(2)}' AND NEW.state = 'RUNNING'")
        staffed = Staffed(world)
        await staffed.once()
        await asked(far, 2)

        assert sorted(far.keys()) == ["default.app.quick.1.1", "default.app.quick.1.3"]
        assert await world.run_states() == ["RUNNING", "STARTING", "RUNNING"]
        assert not staffed.inline_executor.holds(run(2))


async def test_a_launcher_takes_and_sends_no_more_than_its_window(world: World) -> None:
    async with answering("") as far:
        await world.define(QUICK)
        await world.execute(request(far))
        await world.satisfy(*(world.ready(QUICK, n) for n in range(1, 3 * FIRST + 1)))
        staffed = Staffed(world)
        while await staffed.launcher.run_once():
            pass

        states = Counter(await world.run_states())
        assert states == {"STARTING": FIRST, "PENDING": 2 * FIRST}
        assert staffed.inline_executor.room() == 0


async def test_what_was_not_sent_is_requeued_and_what_was_sent_is_repeated_once_under_its_key(world: World) -> None:
    jobs = 500
    async with answering("") as far:
        dead = await holding(world, request(far), jobs)
        await dead.inline_executor.run_once()
        sent = [run.job for run in await world.stored_runs() if run.state == RunState.RUNNING]
        await asked(far, len(sent))
        heirs = [Staffed(world, OTHER), Staffed(world, THIRD)]
        await died(world, dead, *heirs)
        far.answer = "200 OK"

        with capture_logs() as logs:
            await asyncio.gather(*(each.recovery.run_once() for each in heirs))
            await asyncio.gather(*(each.recovery.run_once() for each in heirs))
        found = [line for line in logs if line["event"] == "launcher.lost"]
        assert [(line["launcher"], line["requeued"], line["repeated"]) for line in found] == [
            (str(HERE), jobs - len(sent), len(sent))
        ]
        assert len(await world.history(action="run.requeued")) == jobs - len(sent)
        await everything_ends(world, heirs[0])

    assert 0 < len(sent) <= FIRST
    assert Counter(far.keys()) == {f"default.app.quick.1.{n}": 1 for n in range(1, jobs + 1)} | dict.fromkeys(sent, 2)
    states = await world.pool.fetch("SELECT state, attempt, count(*) AS runs FROM runs GROUP BY 1, 2 ORDER BY 1, 2")
    assert [tuple(row) for row in states] == [
        ("COMPLETED", 1, jobs - len(sent)),
        ("COMPLETED", 2, len(sent)),
        ("LOST", 1, len(sent)),
    ]
    assert await world.launchers() == [str(OTHER), str(THIRD)]


async def test_a_run_that_was_taken_but_not_claimed_is_given_back_too(world: World) -> None:
    dead = await holding(world, SAY, 3)
    heir = Staffed(world, OTHER)
    await died(world, dead, heir)

    await heir.recovery.run_once()
    await everything_ends(world, heir)

    assert {run.runner for run in await world.stored_runs()} == {str(OTHER)}
    assert await world.history(action="run.requeued") == []  # it began nothing that its history would show


async def test_a_paused_launcher_of_this_host_keeps_what_it_sent_and_sends_nothing_that_was_taken_back(
    world: World,
) -> None:
    async with answering("") as far:
        paused = await holding(world, request(far), 2)
        paused.inline_executor = InlineExecutor(
            RunBatch(world.pool), HERE, HttpClient(EVERYWHERE), world.clock, capacity=1
        )
        paused.inline_executor.claim_and_execute([run(1), run(2)])
        await paused.inline_executor.run_once()  # both are claimed, but its window is full
        await far.asking.wait()
        assert await world.run_states() == ["RUNNING", "STARTING"]
        heir = Staffed(world, OTHER)
        await died(world, paused, heir, alive=True)

        with capture_logs() as logs:
            for _ in range(3):
                await heir.recovery.run_once()
        assert [line["event"] for line in logs if line["event"].startswith("launcher.")] == ["launcher.paused"]
        assert await world.run_states() == ["RUNNING", "PENDING"]
        far.answer = "200 OK"
        await heir.until(run(2), "COMPLETED")
        far.answer_all()
        async with asyncio.timeout(30):
            while paused.inline_executor.holds(run(1)) or paused.inline_executor.holds(run(2)):
                await paused.inline_executor.run_once()
                await asyncio.sleep(0.01)

    assert sorted(far.keys()) == ["default.app.quick.1.1", "default.app.quick.1.2"]
    assert await world.run_states() == ["COMPLETED", "COMPLETED"]


async def test_a_launcher_that_was_given_up_and_comes_back_stores_no_end(world: World) -> None:
    async with answering("") as far:
        await satisfied(world, request(far))
        paused, heir = Staffed(world), Staffed(world, OTHER)
        await paused.once()
        await far.asking.wait()
        await died(world, paused, heir)
        await heir.recovery.run_once()
        far.answer_all()
        async with asyncio.timeout(30):
            while paused.inline_executor.holds(run()):
                await paused.inline_executor.run_once()
                await asyncio.sleep(0.01)

    assert await world.run_states() == ["LOST", "PENDING"]


async def test_nobody_is_given_up_by_a_launcher_that_has_not_held_its_own_lease_for_its_time(world: World) -> None:
    dead = await holding(world, SAY, 1)
    heir = Staffed(world, OTHER)
    await died(world, dead, heir)
    await world.expire_launchers()  # the database was away

    await heir.recovery.run_once()
    assert [run.runner for run in await world.stored_runs()] == [str(HERE)]

    await held_for_long(world, heir)
    await heir.recovery.run_once()
    assert [run.runner for run in await world.stored_runs()] == [None]


async def test_a_lease_that_was_renewed_meanwhile_is_not_recovered(world: World) -> None:
    dead = await holding(world, SAY, 1)
    await died(world, dead)
    await dead.recovery.renew()

    assert await recover(world) is None
    assert [run.runner for run in await world.stored_runs()] == [str(HERE)]


async def test_a_launcher_that_stops_gives_its_runs_back_at_once(world: World) -> None:
    dead, heir = await holding(world, SAY, 2), Staffed(world, OTHER)
    for each in (dead, heir):
        await each.recovery.renew()
    await held_for_long(world, heir)
    leases = LauncherLeases(world.pool)

    await leases.release(str(HERE))
    await heir.recovery.run_once()
    assert [run.runner for run in await world.stored_runs()] == [None, None]
    assert await world.launchers() == [str(OTHER)]

    await leases.release(str(OTHER))  # nothing is left of it
    assert await world.launchers() == []


async def test_a_set_leaves_what_one_by_one_leaves(world: World) -> None:
    left: list[Any] = []
    for together in (False, True):
        await world.clear()
        world.__init__(world.dsn, world.pool, world.broker)  # type: ignore[misc]
        await holding(world, SAY, 5, constraints=(Group("w", 9),), retry=Retry(2, delay=MINUTE))
        await start(world.runs, world.clock, PROGRAM, {"a": "b"}, token="x")
        await world.pool.execute("UPDATE runs SET runner = $1", str(HERE))
        now = world.clock.now()
        runs = [run.id for run in await world.stored_runs()]
        for each in runs:
            assert await world.run_store.claim(each, runner=str(HERE), log_path=None, now=now)
            await world.run_store.mark_started(each, runner=str(HERE), now=now)
        await world.request_stop(run(5))
        await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))
        if together:
            assert await recover(world) == RecoveredRuns(repeated=4, ended=2)
        else:
            for each in runs:
                silent = SilentRun(each, 1, str(HERE), now)
                lost = await world.run_store.mark_lost(silent, f"its launcher {HERE} is gone", now=now, attempts=3)
                assert isinstance(lost, LostRun)
        left.append(await world.everything())

    assert left[0] == left[1]
    assert await world.run("default.app.quick.1.1.r2")


async def test_a_policy_that_repeats_no_lost_run_ends_what_was_sent_and_keeps_what_was_not(world: World) -> None:
    await holding(world, SAY, 4, retry=Retry(3, on=frozenset({Failure.ERROR})))
    now = world.clock.now()
    for each in (run(1), run(2), run(3)):
        await world.run_store.claim(each, runner=str(HERE), log_path=None, now=now)
    await world.run_store.mark_started(run(1), runner=str(HERE), now=now)
    await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))

    assert await recover(world) == RecoveredRuns(requeued=3, ended=1)
    assert await world.run_states() == ["LOST", "PENDING", "PENDING", "PENDING"]
    assert [run.attempt for run in await world.stored_runs()] == [1, 1, 1, 1]


async def test_started_runs_that_end_one_by_one_are_ended_in_several_calls(world: World) -> None:
    await world.define(QUICK)
    await world.execute(SAY)
    for n in range(150):
        await world.add_run(
            f"m.{n}", program=str(PROGRAM), at=world.clock.now(), state=RunState.RUNNING, runner=str(HERE)
        )
    await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))

    assert await recover(world) == RecoveredRuns(ended=100, more=True)
    assert await recover(world) == RecoveredRuns(ended=50)
    assert await recover(world) is None
    assert set(await world.run_states()) == {"LOST"}


async def test_a_run_that_cannot_be_changed_keeps_no_other_from_being_given_back(world: World) -> None:
    await holding(world, SAY, 9)
    now = world.clock.now()
    for each in (run(1), run(2)):
        await world.run_store.claim(each, runner=str(HERE), log_path=None, now=now)
        await world.run_store.mark_started(each, runner=str(HERE), now=now)
    await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))
    await world.refuse(f"NEW.id = '{run(1)}' OR NEW.id = '{run(5)}'")

    with capture_logs() as logs:
        assert await recover(world) == RecoveredRuns(requeued=6, repeated=1)

    assert [line["run"] for line in logs if line["event"] == "run.recovery_failed"] == [run(5), run(1)]
    assert [run.id for run in await world.active() if run.runner == str(HERE)] == [
        run(1),
        run(5),
    ]


async def test_a_run_that_ends_its_launchers_is_not_taken_forever(world: World) -> None:
    await holding(world, SAY, 1)
    leases = LauncherLeases(world.pool)
    retry_at = [world.clock.now() + MINUTE] * 3
    for _ in range(3):
        await leases.renew(str(HERE), timedelta(0))
        assert await recover(world) == RecoveredRuns(requeued=1)
        await world.run_store.claim_inline(world.clock.now(), retry_at=retry_at, jitter=0, limit=9, inline_by=str(HERE))
    await leases.renew(str(HERE), timedelta(0))
    await recover(world)

    assert await world.run_store.fail_unstarted(world.clock.now(), spawns=3) == [run()]
    assert (await world.runs.get(run())).reason == "launchers took it 3 times and none started it"


async def test_the_deadline_of_a_requeued_run_begins_with_its_next_claim(world: World) -> None:
    promised = Deadline(DeadlineKind.DURATION, MINUTE)
    await holding(world, SAY, 1, deadlines=(promised,), max_duration=MINUTE)
    first = world.clock.now()
    await world.run_store.claim(run(), runner=str(HERE), log_path=None, now=first)
    assert await world.deadlines() == [(run(), first + MINUTE)]
    await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))
    await recover(world)
    world.clock.advance(MINUTE)

    await world.run_store.claim(run(), runner=str(OTHER), log_path=None, now=world.clock.now())

    assert await world.deadlines() == [(run(), first + 2 * MINUTE)]
    assert (await world.run(run())).deadline_at == first + 2 * MINUTE


async def test_a_requeued_run_that_is_to_stop_ends_without_being_started(world: World) -> None:
    await holding(world, SAY, 1)
    await world.run_store.claim(run(), runner=str(HERE), log_path=None, now=world.clock.now())
    await world.runs.stop(run(), StopRequest("ann: enough"), now=world.clock.now())
    await LauncherLeases(world.pool).renew(str(HERE), timedelta(0))
    await recover(world)

    await Staffed(world, OTHER).once()

    assert (await world.runs.get(run())).state == "KILLED"
    assert len(await world.published("events")) == 0
