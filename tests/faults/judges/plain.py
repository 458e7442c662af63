"""The verdict on plain loads, once everything has come home."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from tests.faults.judges.homes import judge_changes, judge_homes
from tests.faults.judges.jobs import judge_jobs
from tests.faults.judges.log import Log
from tests.faults.load.plain_load import PlainLoad
from tests.support.judgement import Judgement


async def settled(log: Log, *loads: PlainLoad, within_s: float) -> Judgement:
    """The verdict as soon as nothing is missing; what is missing after so many seconds is lost."""
    deadline = time.monotonic() + within_s
    while True:
        await log.look(quiet_s=1.0)
        verdict = Judgement()
        for load in loads:
            judge_load(log, load, verdict)
        if not verdict.lost or time.monotonic() > deadline:
            return verdict


def judge_load(log: Log, load: PlainLoad, into: Judgement) -> None:
    """Every event once at every schedule that listens, every change in force, and the jobs that the model wants. While
    something has not come home, no job can be right.
    """
    homes = log.homes_of(load.name)
    judge_homes(homes, load.emitted, (), into)
    judge_changes(homes, load, load.after, into)
    if not into.lost:
        jobs = [job for job in log.jobs if job.schedule.app == load.name]
        judge_jobs(homes, jobs, load, datetime.now(UTC), into)
