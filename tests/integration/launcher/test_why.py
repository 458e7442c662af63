"""`why` names what stands in a job's way, by the same judgement that holds it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay, LastRun
from streamsched.domain.errors import NotFoundError
from streamsched.domain.schedules.schedule import OnTimeout
from streamsched.launcher.start import start
from streamsched.launcher.why import Why, explain_job

from .conftest import MINUTE, PROGRAM, World, schedule

pytestmark = pytest.mark.postgres


async def asked(world: World, job: str) -> Why:
    return await explain_job(job, jobs=world.jobs, clock=world.clock)


async def test_a_job_held_by_a_run_names_the_run_and_since_when(world: World) -> None:
    one = schedule("one", constraints=(Concurrency(1, wait=True),))
    await world.define(one)
    run = await start(world.runs, world.clock, PROGRAM, {}, token="x")
    await world.satisfy(world.ready(one, 1, events=2))
    await world.launcher.run_once()

    answer = await asked(world, "default.app.one.1.1")

    assert answer.summary == f"it waits: 1 of 1 runs of {PROGRAM} are active: {run}"
    [clause] = answer.clauses
    assert [(holder.run, holder.state, holder.since) for holder in clause.holders] == [
        (run, "PENDING", world.clock.now())
    ]
    assert answer.earliest is None
    assert answer.satisfied_by == ("event:default.go:1: 2 from 2 events",)
    assert [line.action for line in answer.history] == ["job.waits"]


async def test_a_job_held_by_clocks_alone_says_its_earliest_start(world: World) -> None:
    slow = schedule("slow", constraints=(Delay(5 * MINUTE), LastRun(10 * MINUTE, wait=True)))
    await world.define(slow)
    await world.satisfy(world.ready(slow, 1))
    await world.launcher.run_once()

    answer = await asked(world, "default.app.slow.1.1")

    assert answer.earliest == world.clock.now() + 5 * MINUTE
    assert [clause.holds for clause in answer.clauses] == [False, True]
    assert answer.earliest_because == answer.clauses[0].text


async def test_a_job_with_a_timeout_says_what_it_will_do(world: World) -> None:
    for outcome, says in ((OnTimeout.DISCARD, "TIMED_OUT"), (OnTimeout.LAUNCH, "launched all the same")):
        limited = schedule(outcome.lower(), constraints=(Delay(5 * MINUTE),), timeout=MINUTE, on_timeout=outcome)
        await world.define(limited)
        await world.satisfy(world.ready(limited, 1))

        answer = await asked(world, f"default.app.{outcome.lower()}.1.1")

        assert says in (answer.timeout or "")
        assert "12:01:00Z" in (answer.timeout or "")


async def test_settled_jobs_say_where_they_went(world: World) -> None:
    one = schedule("one", constraints=(Concurrency(1, wait=True),))
    await world.define(one)
    await world.satisfy(*(world.ready(one, n) for n in (1, 2, 3)))
    await world.launcher.run_once()
    await world.run_store.claim("default.app.one.1.1.r1", runner="h:1:0", log_path="", now=world.clock.now())

    assert (await asked(world, "default.app.one.1.1")).summary == (
        "launched as default.app.one.1.1.r1, which is STARTING since 2026-03-01 12:00:00Z"
    )
    assert "default.app.one.1.2" in (await asked(world, "default.app.one.1.3")).summary
    assert (await asked(world, "default.app.one.1.2")).satisfied_by == ("event:default.go:1: 2 from 2 events",)


async def test_a_job_that_nothing_holds_any_more_says_so(world: World) -> None:
    delayed = schedule("delayed", constraints=(Delay(MINUTE),))
    await world.define(delayed)
    await world.satisfy(world.ready(delayed, 1))
    await world.launcher.run_once()
    world.clock.advance(MINUTE + timedelta(seconds=1))

    assert "next check admits it" in (await asked(world, "default.app.delayed.1.1")).summary


async def test_an_unknown_job_is_not_found(world: World) -> None:
    with pytest.raises(NotFoundError):
        await asked(world, "default.app.none.1.1")
