"""Whether each job of a trial has run once, by what its drivers noted and what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tests.support.judgement import Judgement


class StoredRun(NamedTuple):
    """A run's row. `detached`: its driver is in a cluster. `runner`: the process id of its last runner."""

    id: str
    job: str
    state: str
    detached: bool
    runner: int


class Killed(NamedTuple):
    """Process ids of runners, and runs whose drivers were killed."""

    runners: Collection[int]
    drivers: Collection[str]


def judge_drivers(
    jobs: Sequence[str],
    runs: Sequence[StoredRun],
    notes: Sequence[Sequence[str]],
    ends: Mapping[str, Sequence[str]],
    killed: Killed,
) -> Judgement:
    """`notes`: lines of drivers, `began RUN PID`, `done RUN`, `overlap RUN`. `ends`: what the cluster says about the
    drivers of each run, `SUCCEEDED` or another end.
    """
    found = Judgement()
    began = Counter(each[1] for each in notes if each[0] == "began")
    done = Counter(each[1] for each in notes if each[0] == "done")
    for run, times in began.items():
        if times > 1:
            found.double(f"the driver of {run} began {times} times", times - 1)
    for run, drivers in ends.items():
        if len(drivers) > 1:
            found.double(f"{run} has {len(drivers)} drivers", len(drivers) - 1)
    for each in notes:
        if each[0] == "overlap":
            found.double(f"{each[1]} ran while another run of its job did")
    completed = Counter(run.job for run in runs if run.state == "COMPLETED")
    for job in jobs:
        if not completed[job]:
            found.miss(f"{job} has not completed")
        elif completed[job] > 1:
            found.double(f"{job} has completed {completed[job]} times", completed[job] - 1)
    for run in runs:
        if (why := _untrue(run, done[run.id], ends.get(run.id, ()), killed)) is not None:
            found.spoil(f"{run.id} is {run.state}: {why}")
    return found


def _untrue(run: StoredRun, done: int, ends: Sequence[str], killed: Killed) -> str | None:
    """Why this is not the state in which the run ended; None when it is."""
    match run.state:
        case "COMPLETED":
            if done != 1:
                return f"its driver was done {done} times"
            return None if not run.detached or "SUCCEEDED" in ends else f"the cluster says {ends}"
        case "FAILED":
            if run.detached and "SUCCEEDED" in ends:
                return "the cluster says that it succeeded"
            return None if run.id in killed.drivers else "its driver was not killed"
        case "LOST":
            if run.detached:
                return "its driver is in a cluster, so another runner goes on with it"
            return None if run.runner in killed.runners else "its runner was not killed"
        case _:
            return "that is no end of such a run"
