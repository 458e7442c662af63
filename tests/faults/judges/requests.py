"""Whether each submission made one job, each rerun one with the events of the first, and each run at once one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamsched.domain.jobs.run import RunState
from tests.faults.judges.homes import Asked, Homes
from tests.faults.judges.jobs import Stored
from tests.faults.judges.runs import judge_job
from tests.faults.load.requests import Requests
from tests.support.judgement import Judgement


def judge_requests(homes: Homes, there: Stored, requests: Requests, asked: Asked, into: Judgement) -> None:
    """Every accepted request has one job that has ended as a job of a trigger does, and there are no others."""
    known = requests.accepted.keys() | requests.unsure
    for contradiction in requests.contradictions:
        into.spoil(contradiction)
    for job, row in there.jobs.items():
        if row["submitted"] and row["backfill"] is None and job not in known:
            into.double(f"job {job} was submitted, but no user requested it")
    for job, wanted in requests.accepted.items():
        row = there.jobs.get(job)
        if row is None:
            into.miss(f"job {job} was accepted and never stored")
            continue
        judge_job(row, homes, there, asked, into, alone=wanted.alone)
        if wanted.former is not None:
            _repeats(job, row, there.jobs.get(wanted.former), into)
    for run in requests.at_once:
        _ran_at_once(run, there, into)
    for run, row in there.runs.items():
        if row["job"] is None and run not in requests.at_once and "run" not in requests.unsure:
            into.double(f"run {run} was started, but no user requested it")


def _repeats(job: str, row: Mapping[str, Any], former: Mapping[str, Any] | None, into: Judgement) -> None:
    """The same events in the same branches, and the same key."""
    if former is None:
        into.miss(f"the job that {job} repeats is not there")
    elif _events(row["ready"]) != _events(former["ready"]):
        into.spoil(f"job {job} has other events than the one that it repeats")


def _events(ready: Mapping[str, Any]) -> tuple[Any, ...]:
    return ready.get("key"), ready["contributions"], ready.get("events")


def _ran_at_once(run: str, there: Stored, into: Judgement) -> None:
    row = there.runs.get(run)
    if row is None:
        into.miss(f"run {run} was accepted and never stored")
    elif not RunState(row["state"]).is_terminal:
        into.miss(f"run {run} is still {row['state']}")
    elif row["state"] != RunState.COMPLETED:
        into.spoil(f"run {run} is {row['state']}: {row['reason']}")
