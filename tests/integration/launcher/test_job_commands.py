"""Waiting jobs obey people: forced, cancelled, held and released, with who and why in their history."""

from __future__ import annotations

import pytest

from streamsched.domain.constraints.constraint import Delay
from streamsched.domain.errors import ConflictError, NotFoundError
from streamsched.domain.jobs.job import JobCommand
from streamsched.launcher.why import explain_job

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

SLOW = schedule("slow", constraints=(Delay(5 * MINUTE),))
JOB = "default.app.slow.1.1"


@pytest.fixture
async def waiting(world: World) -> World:
    await world.define(SLOW)
    await world.satisfy(world.ready(SLOW, 1))
    await world.launcher.run_once()
    return world


@pytest.mark.parametrize(
    ("order", "state", "reason"),
    [
        (JobCommand.FORCE, "PENDING_LAUNCH", "forced: ann: it is late"),
        (JobCommand.CANCEL, "ABORTED", "cancelled: ann: it is late"),
        (JobCommand.HOLD, "PENDING_CONSTRAINT", "held: ann: it is late"),
    ],
)
async def test_a_waiting_job_obeys_at_once(waiting: World, order: JobCommand, state: str, reason: str) -> None:
    await waiting.jobs.command(JOB, order, "ann: it is late", now=waiting.clock.now())
    await waiting.launcher.run_once()

    job = await waiting.jobs.get(JOB)
    assert (job.state, job.reason) == (state, reason)
    history = (await explain_job(JOB, jobs=waiting.jobs, clock=waiting.clock)).history
    assert (f"job.{order}_ordered", "ann: it is late") in [(line.action, line.reason) for line in history]


async def test_a_held_job_stays_beyond_its_constraints_until_it_is_released(waiting: World) -> None:
    await waiting.jobs.command(JOB, JobCommand.HOLD, "ann", now=waiting.clock.now())
    waiting.clock.advance(10 * MINUTE)
    await waiting.launcher.run_once()
    answer = await explain_job(JOB, jobs=waiting.jobs, clock=waiting.clock)
    assert (answer.state, answer.summary) == ("PENDING_CONSTRAINT", "it is held until it is released: ann")

    await waiting.jobs.command(JOB, None, "ann", now=waiting.clock.now())
    await waiting.launcher.run_once()

    assert (await waiting.jobs.get(JOB)).state == "PENDING_LAUNCH"


async def test_a_job_that_waits_no_more_takes_no_commands(waiting: World) -> None:
    await waiting.jobs.command(JOB, JobCommand.CANCEL, "ann", now=waiting.clock.now())
    await waiting.launcher.run_once()

    with pytest.raises(ConflictError):
        await waiting.jobs.command(JOB, JobCommand.FORCE, "bob", now=waiting.clock.now())
    with pytest.raises(NotFoundError):
        await waiting.jobs.command("no.such.job.1.1", JobCommand.FORCE, "bob", now=waiting.clock.now())
