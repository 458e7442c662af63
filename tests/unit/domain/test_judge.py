"""What the judge decides by the overlap of a schedule, its timeout and the commands of people."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streamsched.domain.constraints.constraint import Concurrency, Delay
from streamsched.domain.decisions.decision import Admit, Decision, DecisionInput, DueJob, End, Join, Wait
from streamsched.domain.decisions.judge import judge
from streamsched.domain.jobs.job import JobCommand, JobFact, ReadyJob, ScheduleKey
from streamsched.domain.jobs.submission import Submission, backfill_id, backfill_job_id
from streamsched.domain.names import EventName, ProgramRef, ScheduleRef
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.schedules.schedule import BashJob, OnTimeout, Program, Schedule
from streamsched.domain.triggers.trigger import CustomEvent

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE, TICK = timedelta(minutes=1), timedelta(microseconds=1)
PROGRAM = Program(ProgramRef("default", "app", "load"), BashJob("true"), {"a": "program", "b": "program"})
REF = ScheduleRef("default", "app", "s")
KEY = ScheduleKey(REF)
PLAIN = Schedule(REF, PROGRAM.ref, CustomEvent(EventName("default", "go")))
WAITS = (Concurrency(1, wait=True),)
RUN = "default.app.s.1.0.r1"


def due(of: Schedule, number: int, at: datetime = NOW, **more: Any) -> DueJob:
    return DueJob(ReadyJob(of.ref, 1, number, at, ()), of, 1, True, **more)


def judged(*jobs: DueJob, now: datetime = NOW, **known: Any) -> tuple[Decision, ...]:
    return judge(DecisionInput(PROGRAM, jobs, **known), now=now)


def facts(decisions: tuple[Decision, ...]) -> list[object]:
    """What each decision is: a fact of an end, or its kind."""
    return [each.fact if isinstance(each, End) else type(each) for each in decisions]


@pytest.mark.parametrize(
    ("overlap", "decided"),
    [
        (Overlap.COALESCE, [Admit, Wait, Join]),
        (Overlap.QUEUE, [Admit, Wait, Wait]),
        (Overlap.SKIP, [Admit, JobFact.SKIPPED, JobFact.SKIPPED]),
        (Overlap.LATEST, [Admit, JobFact.REPLACED, Wait]),
        (Overlap.CANCEL_RUNNING, [JobFact.REPLACED, JobFact.REPLACED, Admit]),
        (Overlap.KILL_RUNNING, [JobFact.REPLACED, JobFact.REPLACED, Admit]),
    ],
)
def test_satisfactions_of_one_place_are_treated_as_the_overlap_says(overlap: Overlap, decided: list[object]) -> None:
    one = replace(PLAIN, constraints=WAITS, overlap=overlap)
    assert facts(judged(*(due(one, number) for number in (1, 2, 3)))) == decided


def test_the_newest_takes_the_place_of_those_that_wait_but_of_none_that_a_person_holds() -> None:
    latest = replace(PLAIN, constraints=WAITS, overlap=Overlap.LATEST)
    jobs = (due(latest, 2, held_by=(0,), command=JobCommand.HOLD), due(latest, 3, held_by=(0,)), due(latest, 4))
    held, replaced, waits = judged(*jobs, active_runs=(RUN,), waiting={KEY: jobs[0].number})
    assert (type(held), type(waits)) == (Wait, Wait)
    assert replaced == End(jobs[1].job, JobFact.REPLACED, f"{jobs[2].job} took its place: overlap is latest")


def test_one_that_a_person_holds_takes_the_place_of_none() -> None:
    latest = replace(PLAIN, constraints=WAITS, overlap=Overlap.LATEST)
    jobs = (due(latest, 2), due(latest, 3, command=JobCommand.HOLD))
    assert facts(judged(*jobs, active_runs=(RUN,))) == [Wait, Wait]


def test_a_satisfaction_is_skipped_while_the_one_before_waits() -> None:
    slow = replace(PLAIN, constraints=(Delay(MINUTE),), overlap=Overlap.SKIP)
    first, second = judged(due(slow, 1), due(slow, 2))
    assert isinstance(first, Wait)
    assert second == End("default.app.s.1.2", JobFact.SKIPPED, "skipped: default.app.s.1.1 still waits")


@pytest.mark.parametrize("overlap", [Overlap.CANCEL_RUNNING, Overlap.KILL_RUNNING])
def test_a_run_is_ended_only_for_a_job_that_could_start_then(overlap: Overlap) -> None:
    newer = due(replace(PLAIN, constraints=(Delay(MINUTE), Concurrency(1)), overlap=overlap), 1)
    known: Any = {"active_runs": (RUN,), "own_runs": {KEY: (RUN,)}}
    for at, stops in ((NOW, ()), (NOW + MINUTE, (RUN,))):
        [wait] = judged(newer, now=at, **known)
        assert isinstance(wait, Wait)
        assert (wait.stops, wait.kill) == (stops, overlap is Overlap.KILL_RUNNING)


@pytest.mark.parametrize("overlap", Overlap)
def test_a_live_job_and_one_of_a_backfill_neither_skip_join_nor_replace_each_other(overlap: Overlap) -> None:
    owner = replace(PLAIN, overlap=overlap)
    job = backfill_job_id(backfill := backfill_id(REF, "week"), 1)
    ready = ReadyJob(REF, 1, 1, NOW, (), "", Submission(job, "", {}, backfill=backfill))
    old = DueJob(ready, owner, 1, True)
    assert facts(judged(due(owner, 1), old)) == [Admit, Admit]
    assert facts(judged(old, waiting={KEY: due(owner, 1).number})) == [Admit]


@pytest.mark.parametrize(("outcome", "launched"), [(OnTimeout.DISCARD, False), (OnTimeout.LAUNCH, True)])
@pytest.mark.parametrize("active", [(), (RUN,)])
def test_a_job_waits_no_longer_than_its_timeout(outcome: OnTimeout, launched: bool, active: tuple[str, ...]) -> None:
    limited = due(replace(PLAIN, constraints=WAITS, timeout=MINUTE, on_timeout=outcome), 1)
    [before] = judged(limited, now=NOW + MINUTE - TICK, active_runs=active)
    if active:
        assert isinstance(before, Wait)
        assert before.until == NOW + MINUTE
    else:
        assert isinstance(before, Admit)

    [after] = judged(limited, now=NOW + MINUTE, active_runs=active)
    assert isinstance(after, Admit if launched else End)
    late = "passed while it waited" if active else "passed at 2026-03-01 12:01:00Z, before its constraints were checked"
    assert f"its timeout of 0:01:00 {late}" in after.reason
    if isinstance(after, End):
        assert after.fact is JobFact.TIMED_OUT


def test_one_that_does_not_wait_ends_with_the_reason() -> None:
    strict = replace(PLAIN, constraints=(Concurrency(1),), overlap=Overlap.QUEUE)
    first, second = judged(due(strict, 1), due(strict, 2))
    assert isinstance(first, Admit)
    assert second == End(
        "default.app.s.1.2", JobFact.ABORTED, "1 of 1 runs of default.app.load are active: default.app.s.1.1.r1"
    )


def test_arguments_of_the_schedule_go_before_those_of_the_program() -> None:
    [admitted] = judged(due(replace(PLAIN, properties={"b": "schedule", "trigger.job": "mine"}), 1))
    assert isinstance(admitted, Admit)
    given = admitted.arguments
    assert (given["a"], given["b"], given["trigger.job"]) == ("program", "schedule", "mine")
    assert given["trigger.schedule"] == str(REF)
