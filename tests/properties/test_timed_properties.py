"""Triggers that mind the clock do what a naive machine does that is told the whole log anew for every question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from streamsched.domain.job import ReadyJob
from streamsched.testing import strategies as world
from streamsched.testing import timed_strategies as timed
from streamsched.testing.engine import Engine, told
from streamsched.testing.examples import examples
from streamsched.testing.rerun import Expected, Stamped, rerun

LONG = timedelta(days=1)
THOROUGH = examples(250)
USUAL = examples(80)


def end_of(log: Sequence[Stamped]) -> datetime:
    return log[-1][0] + LONG


def plain(job: ReadyJob) -> Expected:
    contributions = tuple(
        (each.leaf, each.count, tuple(dict.fromkeys(event.id for event in each.events))) for each in job.contributions
    )
    return Expected(job.generation, job.key, job.satisfied_at, contributions)


def jobs_of(engine: Engine) -> list[Expected]:
    return [plain(job) for _, job in engine.jobs]


@THOROUGH
@given(timed.logs(), st.booleans())
def test_the_fold_starts_the_jobs_that_the_naive_machine_starts(log: list[Stamped], prompt: bool) -> None:
    expected = rerun(log, end_of(log))

    engine = told(log, world.SCHEDULE, end=end_of(log), prompt=prompt)

    assert jobs_of(engine) == expected.jobs
