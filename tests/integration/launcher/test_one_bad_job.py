"""What one job's definition or row holds stops neither its neighbours nor other programs, and explains itself."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from streamsched.codec.schedules.schedule import schedule_to_json
from streamsched.domain.constraints.constraint import Concurrency
from streamsched.domain.decisions import decision_batch
from streamsched.domain.decisions.decision import Decision, DecisionInput
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import Schedule
from streamsched.launcher.deadlines import DeadlineWatch
from streamsched.launcher.why import explain_job
from streamsched.ports.runs import RunEnd
from streamsched.store.runs.deadlines import DeadlineStore

from .conftest import MINUTE, World, schedule

pytestmark = pytest.mark.postgres

LONG = "4000000d"
BAD = schedule("bad", overlap=Overlap.QUEUE)
NEXT = schedule("next", overlap=Overlap.QUEUE)  # of the same program
FAR = replace(schedule("far"), program=ProgramRef("default", "app", "far"))
JOB = "default.app.bad.1.1"

BLOCKED = {"type": "CONCURRENCY", "maxConcurrency": 1, "waitUntilMet": True}

#: What a release without limits may have stored.
STORED: dict[str, dict[str, Any]] = {
    "delay": {"constraints": [{"type": "DELAY", "millisAfterTrigger": 10**15}]},
    "rate": {"constraints": [{"type": "RATE", "maxRuns": 1, "perMillis": 345_600_000_000_000_000 // 1000}]},
    "rate-with-a-burst": {
        "constraints": [{"type": "RATE", "maxRuns": 1, "perMillis": 10**15, "burst": 1_000_000}],
    },
    "group": {"constraints": [{"type": "GROUP", "group": "g", "limit": 2**33, "weight": 2**32}]},
    "group-that-waits": {"constraints": [BLOCKED, {"type": "GROUP", "group": "g", "limit": 2**32, "weight": 2**32}]},
    "pool": {"constraints": [{"type": "POOL", "pool": "p", "size": 2**40, "priority": 1000}]},
    "load": {"constraints": [{"type": "LOAD", "cluster": "main", "freeMemory": 2**63}]},
    "last-run": {"constraints": [{"type": "LAST_RUN", "millisSinceLastRun": 10**15}]},
    "concurrency": {"constraints": [{"type": "CONCURRENCY", "maxConcurrency": 2**63}]},
    "timeout": {"constraints": [BLOCKED], "timeout": LONG},
    "deadline": {"deadlines": [{"type": "finish-by", "within": LONG}, {"type": "duration", "within": LONG}]},
    "longest-run": {"maxDuration": LONG},
    "retry": {"retry": {"attempts": 3, "delay": LONG, "longest": LONG}},
    "no-constraint-at-all": {"constraints": [7]},
    "no-trigger": {"trigger": {"type": "NONSENSE"}},
}


async def store(world: World, bad: Schedule, stored: dict[str, Any]) -> None:
    """The definition as it is in the table, whatever could be put there today."""
    await world.define(bad)
    await world.put_text("schedules", {**schedule_to_json(bad), **stored}, str(bad.ref))


async def neighbours_launch(world: World, sequence: int) -> None:
    """Another schedule of the program, and another program, go on."""
    await world.satisfy(world.ready(NEXT, sequence), world.ready(FAR, sequence))
    await world.launcher.run_once()
    states = await world.states()
    assert states[f"next.1.{sequence}"] == states[f"far.1.{sequence}"] == "PENDING_LAUNCH"


async def test_what_an_older_release_stored_stops_no_other_job(world: World) -> None:
    await world.define(NEXT, FAR)
    await world.add_run("before", program=str(BAD.program), at=world.clock.now())
    for name, stored in STORED.items():
        bad = schedule(name, overlap=Overlap.QUEUE)
        await store(world, bad, stored)
        await world.satisfy(world.ready(bad, 1), world.ready(bad, 2))

    for sequence in (1, 2, 3):
        await neighbours_launch(world, sequence)
        for name, number in itertools.product(STORED, (1, 2)):
            reported = await explain_job(f"default.app.{name}.1.{number}", jobs=world.jobs, clock=world.clock)
            assert reported.summary, name
            assert "cannot be explained" not in reported.summary, name
        world.clock.advance(2 * MINUTE)
    assert await world.decisions.recheck_all(before=world.clock.now()) >= 0
    await DeadlineWatch(DeadlineStore(world.pool), world.notifier, world.clock).run_once()


async def test_a_job_in_error_says_why_and_is_tried_again_later_and_later(world: World) -> None:
    await world.define(BAD, FAR)
    await world.satisfy(world.ready(BAD, 1))
    await world.put_text("jobs", {"v": 99}, JOB)

    waits: list[timedelta] = []
    for _ in range(9):
        assert await world.launcher.run_once() == 1
        job = await world.jobs.get(JOB)
        assert (job.state, job.failures) == ("PENDING_CONSTRAINT", len(waits) + 1)
        assert job.reason.startswith("it cannot be decided: what satisfied it cannot be read: $.v: is version 99")
        assert job.next_check_at is not None
        waits.append(job.next_check_at - world.clock.now())
        reported = await explain_job(JOB, jobs=world.jobs, clock=world.clock)
        assert job.reason in reported.summary
        assert "the next attempt is at" in reported.summary
        world.clock.advance(waits[-1])

    assert waits == [minutes * MINUTE for minutes in (1, 2, 4, 8, 16, 32, 60, 60, 60)]


async def test_a_job_that_is_mended_starts_at_its_next_attempt_and_its_failures_are_forgotten(world: World) -> None:
    one = replace(BAD, constraints=(Concurrency(1, wait=True),))
    await store(world, one, {"trigger": {"type": "NONSENSE"}})
    await world.satisfy(world.ready(one, 1), world.ready(one, 2))
    await world.launcher.run_once()
    assert (await world.jobs.get(JOB)).failures == 1

    await world.define(one)
    world.clock.advance(MINUTE)
    await world.launcher.run_once()

    assert await world.states() == {"bad.1.1": "PENDING_LAUNCH", "bad.1.2": "PENDING_CONSTRAINT"}
    assert (await world.jobs.get("default.app.bad.1.2")).failures == 0


async def test_ends_of_runs_and_the_sweep_do_not_hurry_a_job_in_error(world: World) -> None:
    await world.define(NEXT)
    await store(world, BAD, {"trigger": {"type": "NONSENSE"}})
    await world.satisfy(world.ready(BAD, 1), world.ready(NEXT, 1))
    await world.launcher.run_once()
    await world.set_failures(JOB, 9)
    world.clock.advance(MINUTE)
    await world.launcher.run_once()
    failures = (await world.jobs.get(JOB)).failures
    due = (await world.jobs.get(JOB)).next_check_at

    now = world.clock.now()
    run = "default.app.next.1.1.r1"
    assert await world.run_store.claim(run, runner="host:1:1", log_path="", now=now)
    await world.run_store.mark_started(run, runner="host:1:1", now=now)
    assert await world.run_store.finish(run, RunEnd(RunState.COMPLETED, "", now, 0))
    world.clock.advance(30 * MINUTE)
    await world.decisions.recheck_all(before=world.clock.now())

    job = await world.jobs.get(JOB)
    assert (job.failures, job.next_check_at) == (failures, due)


async def test_a_job_whose_schedule_is_gone_ends_though_it_is_in_error(world: World) -> None:
    await store(world, BAD, {"trigger": {"type": "NONSENSE"}})
    await world.satisfy(world.ready(BAD, 1))
    await world.launcher.run_once()

    await world.change_generation(str(BAD.ref), enabled=False)
    await world.decisions.recheck_all(before=world.clock.now())
    await world.launcher.run_once()

    assert await world.states() == {"bad.1.1": "OBSOLETE"}


async def test_one_ruling_that_cannot_be_stored_is_found_among_many(world: World) -> None:
    bad = 7
    await world.define(NEXT, FAR)
    await world.satisfy(*(world.ready(NEXT, sequence) for sequence in range(1, 21)), world.ready(FAR, 1))
    await world.refuse(
        f"NEW.id = 'default.app.next.1.{bad}' AND NEW.state <> 'PENDING_CONSTRAINT'",
        change="UPDATE ON jobs",
        code="numeric_value_out_of_range",
    )

    await world.launcher.run_once()

    states = await world.states()
    assert [name for name, state in states.items() if state != "PENDING_LAUNCH"] == [f"next.1.{bad}"]
    held = await world.jobs.get(f"default.app.next.1.{bad}")
    assert (held.failures, held.next_check_at) == (1, world.clock.now() + MINUTE)
    assert "refused" in held.reason


async def test_a_judge_that_raises_for_a_docket_is_asked_job_by_job(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = decision_batch.judge

    def raising(decision_input: DecisionInput, **given: Any) -> tuple[Decision, ...]:
        if any(case.job == JOB for case in decision_input.due_jobs):
            raise OverflowError("date value out of range")
        return judged(decision_input, **given)

    monkeypatch.setattr(decision_batch, "judge", raising)
    await world.define(BAD, NEXT, FAR)
    await world.satisfy(world.ready(BAD, 1), *(world.ready(BAD, number) for number in (2, 3)))

    await neighbours_launch(world, 1)

    states = await world.states()
    assert states["bad.1.1"] == "PENDING_CONSTRAINT"
    assert states["bad.1.2"] == states["bad.1.3"] == "PENDING_LAUNCH"
    assert (await world.jobs.get(JOB)).reason == "it cannot be decided: OverflowError: date value out of range"


async def test_one_deadline_that_cannot_be_judged_holds_up_no_other(world: World) -> None:
    now = world.clock.now()
    rows = [("bad", now, {"type": "nonsense"}), ("good", now, {"type": "finish-by", "within": "1m"})]
    await world.define(BAD)
    await world.satisfy(world.ready(BAD, 1))
    for run, due_at, said in rows:
        await world.add_deadline(JOB, run, due_at, said)
    world.clock.advance(MINUTE)
    watch = DeadlineWatch(DeadlineStore(world.pool), world.notifier, world.clock)

    assert await watch.run_once() is None, "what cannot be judged causes no wake-up for a while"

    assert [run for run, _ in await world.deadlines()] == ["bad"]
    assert len(await world.history(action="job.deadline_failed")) == 1
    world.clock.advance(MINUTE)
    await watch.run_once()
    assert len(await world.history(action="job.deadline_failed")) == 2


async def test_the_end_of_a_run_is_stored_though_its_schedule_cannot_pause_itself(world: World) -> None:
    await world.define(BAD)
    await world.satisfy(world.ready(BAD, 1))
    await world.launcher.run_once()
    now, run = world.clock.now(), f"{JOB}.r1"
    assert await world.run_store.claim(run, runner="host:1:1", log_path="", now=now)
    await world.run_store.mark_started(run, runner="host:1:1", now=now)
    await store(world, BAD, {"pauseAfter": {"failures": 1, "lasting": LONG}})

    assert await world.run_store.finish(run, RunEnd(RunState.FAILED, "boom", now, 1))

    assert (await world.runs.get(run)).state == "FAILED"
    assert await world.size("breaks") == 0


async def test_jobs_whose_verdicts_are_damaged_are_listed_with_the_others(world: World) -> None:
    await world.define(BAD)
    for number, damaged in enumerate((1.5, "text", {}, [1, None]), 1):
        await world.satisfy(world.ready(BAD, number))
        await world.put_text("verdicts", damaged, f"default.app.bad.1.{number}")

    assert [listed.waiting for listed in await world.jobs.list_recent(limit=10)] == [()] * 4
