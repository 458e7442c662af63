"""The judge of jobs that a pause held finds one that timed out too soon, and one that is gone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.faults.judges.runs import judge_held
from tests.faults.test_backfill_judges import Filled
from tests.faults.test_judges import JOB, at
from tests.support.judgement import Judgement


@pytest.mark.parametrize(
    ("state", "after_s", "lost", "wrong"), [("LAUNCHED", 0, 0, 0), ("TIMED_OUT", 3, 0, 0), ("TIMED_OUT", 1, 0, 1)]
)
def test_a_held_job_has_its_whole_timeout_after_the_pause(state: str, after_s: int, lost: int, wrong: int) -> None:
    filled, verdict, resumed = Filled(), Judgement(), at(20)
    filled.jobs[JOB] |= {"state": state, "ended_at": resumed + timedelta(seconds=after_s)}

    judge_held(filled.stored(), {JOB: resumed}, {"s0": timedelta(seconds=2)}, verdict)

    assert (verdict.lost, verdict.doubled, verdict.wrong) == (lost, 0, wrong), verdict


def test_a_held_job_that_is_gone_is_lost() -> None:
    filled, verdict = Filled(), Judgement()
    del filled.jobs[JOB]

    judge_held(filled.stored(), {JOB: at(20)}, {}, verdict)

    assert verdict.lost == 1
