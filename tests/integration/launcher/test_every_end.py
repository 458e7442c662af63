"""G10: whatever ends, ends with a state, a time and a reason, in its row and in its history: every row of both machines
that leads to an end is processed by the real store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.jobs.job import JOB_STATES, JobCommand, JobFact, JobState
from streamsched.domain.jobs.run import RUN_STATES, RunFact, RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import OnTimeout
from streamsched.domain.state_machine import StateMachine
from streamsched.ports.runs import RunEnd, StopRequest

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

JOB = "default.app.plain.1.1"
RUN = f"{JOB}.r1"
LATE = (Delay(MINUTE),)

Way = Callable[[World], Awaitable[None]]


async def come(world: World, *numbers: int, **fields: object) -> None:
    """Satisfied that often, each checked before the next one comes."""
    plain = schedule("plain", **fields)
    await world.define(plain)
    for number in numbers:
        await world.satisfy(world.ready(plain, number))
        await world.launcher.run_once()


async def claim(world: World) -> None:
    assert await world.run_store.claim(RUN, runner="here:1:1", log_path="/log", now=world.clock.now())


async def aborted(world: World) -> None:
    await come(world, 1, 2, constraints=(Concurrency(1),))


async def timed_out(world: World) -> None:
    await come(world, 1, constraints=(Delay(60 * MINUTE),), timeout=MINUTE, on_timeout=OnTimeout.DISCARD)
    world.clock.advance(MINUTE)
    await world.launcher.run_once()


async def cancelled(world: World) -> None:
    await come(world, 1, constraints=LATE)
    await world.jobs.command(JOB, JobCommand.CANCEL, "ops: no need", now=world.clock.now())
    await world.launcher.run_once()


async def superseded(world: World) -> None:
    await come(world, 1, constraints=LATE)
    await world.define(schedule("plain"), generation=2)
    world.clock.advance(MINUTE)
    await world.launcher.run_once()


async def joined(world: World) -> None:
    await come(world, 1, 2, constraints=LATE)


async def skipped(world: World) -> None:
    await come(world, 1, 2, overlap=Overlap.SKIP, constraints=LATE)


async def replaced(world: World) -> None:
    await come(world, 1, 2, overlap=Overlap.LATEST, constraints=LATE)


async def superseded_when_ready(world: World) -> None:
    await come(world, 1)
    await world.define(schedule("plain"), generation=2)
    assert await world.run_store.claim(RUN, runner="here:1:1", log_path="/log", now=world.clock.now()) is None


async def launched(world: World) -> None:
    await come(world, 1)
    await claim(world)


async def never_claimed(world: World) -> None:
    await come(world, 1)
    for _ in range(4):
        world.clock.advance(2 * MINUTE)
        await world.launcher.run_once()
        if (await world.runs.get(RUN)).state.is_terminal:
            return
    raise AssertionError("the run has not ended")


async def cancel_pending(world: World) -> None:
    await come(world, 1)
    await world.runs.stop(RUN, StopRequest("ops: not today"), now=world.clock.now())


JOB_ENDS: dict[tuple[JobState, JobFact], Way] = {
    (JobState.PENDING_CONSTRAINT, JobFact.ABORTED): aborted,
    (JobState.PENDING_CONSTRAINT, JobFact.TIMED_OUT): timed_out,
    (JobState.PENDING_CONSTRAINT, JobFact.CANCELLED): cancelled,
    (JobState.PENDING_CONSTRAINT, JobFact.SUPERSEDED): superseded,
    (JobState.PENDING_CONSTRAINT, JobFact.JOINED): joined,
    (JobState.PENDING_CONSTRAINT, JobFact.SKIPPED): skipped,
    (JobState.PENDING_CONSTRAINT, JobFact.REPLACED): replaced,
    (JobState.PENDING_LAUNCH, JobFact.LAUNCHED): launched,
    (JobState.PENDING_LAUNCH, JobFact.SUPERSEDED): superseded_when_ready,
    (JobState.PENDING_LAUNCH, JobFact.LAUNCH_FAILED): never_claimed,
}
#: What the end of a run that goes is given by; PENDING ones have their own ways.
ENDINGS = {RunFact.SUCCEEDED: RunState.COMPLETED, RunFact.FAILED: RunState.FAILED, RunFact.KILLED: RunState.KILLED}


def ends(machine: StateMachine[Any, Any]) -> set[tuple[Any, Any]]:
    """The rows of a machine that lead to an end."""
    return {row for row, after in machine.table.items() if after in machine.ends}


def test_every_end_of_a_job_is_gone_through() -> None:
    assert set(JOB_ENDS) == ends(JOB_STATES)


@pytest.mark.parametrize(("row", "way"), JOB_ENDS.items(), ids=lambda each: getattr(each, "__name__", ""))
async def test_a_job_ends_with_a_reason(world: World, row: tuple[JobState, JobFact], way: Way) -> None:
    await way(world)

    state = JOB_STATES.table[row]
    [ended] = [each for each in await world.jobs.list_recent() if each.state is state]
    assert ended.reason
    assert ended.ended_at == world.clock.now()
    await reported(world, ended.id, f"job.{state.lower()}")


@pytest.mark.parametrize("row", sorted(ends(RUN_STATES)), ids=" ".join)
async def test_a_run_ends_with_a_reason(world: World, row: tuple[RunState, RunFact]) -> None:
    before, fact = row
    if before is RunState.PENDING:
        await (never_claimed if fact is RunFact.FAILED else cancel_pending)(world)
    else:
        await come(world, 1)
        await claim(world)
        if before is not RunState.STARTING:
            await world.run_store.mark_started(RUN, runner="here:1:1", now=world.clock.now())
        await world.set_run_state(before)
        if fact is RunFact.VANISHED:
            world.clock.advance(timedelta(hours=1))
            assert await world.run_monitor.check_runs() == [RUN]
        else:
            ending = RunEnd(ENDINGS[fact], "exit code", world.clock.now())
            assert await world.run_store.finish(RUN, ending)

    ended = await world.runs.get(RUN)
    assert ended.state is RUN_STATES.table[row]
    assert ended.reason
    assert ended.ended_at is not None
    await reported(world, RUN, f"run.{ended.state.lower()}")


async def test_what_people_do_to_a_job_says_who_and_why(world: World) -> None:
    orders = (JobCommand.FORCE, JobCommand.CANCEL, JobCommand.HOLD, None)
    await come(world, *range(1, len(orders) + 1), constraints=LATE, overlap=Overlap.QUEUE)
    for number, order in enumerate(orders, 1):
        job = f"default.app.plain.1.{number}"
        await world.jobs.command(job, order, "ann: the input is late", now=world.clock.now())
        line = (await world.history(job))[-1]
        assert (line.action, line.reason) == (f"job.{order or 'release'}_ordered", "ann: the input is late")


async def reported(world: World, subject: str, action: str) -> None:
    """History has one such line about it, with a reason."""
    lines = await world.history(subject, action=action)
    assert [bool(line.reason) for line in lines] == [True]
