"""Whether the right jobs were made, with the right events, and each was submitted once: stations 5 to 9."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import asyncpg

from streamsched.domain.jobs.job import JobState, ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.schedules.overlap import Overlap
from streamsched.domain.signals.signal import Drop, Put
from tests.faults.judges.homes import Asked, Homes
from tests.judgement import Judgement
from tests.support.rerun import Stamped, rerun

#: When it was satisfied, and what it says: leaf, how much, of which events.
Content = tuple[datetime, tuple[tuple[str, int, tuple[str, ...]], ...]]

_WAITING: Final = frozenset({JobState.PENDING_CONSTRAINT, JobState.PENDING_LAUNCH})


_JOBS: Final = """
SELECT * FROM jobs WHERE schedule LIKE $1
UNION ALL
SELECT j.* FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.schedule LIKE $1
"""
_RUNS: Final = """
SELECT * FROM runs WHERE program LIKE $1
UNION ALL
SELECT r.* FROM runs_history h, jsonb_populate_record(NULL::runs, h.record) AS r WHERE h.program LIKE $1
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """What PostgreSQL holds of one app, and what its runs have written."""

    jobs: Mapping[str, Mapping[str, Any]]
    runs: Mapping[str, Mapping[str, Any]]
    started: Counter[str]

    @property
    def completed(self) -> list[tuple[str, str]]:
        """(Run, program) of those that completed."""
        return [(run, row["program"]) for run, row in self.runs.items() if row["state"] == RunState.COMPLETED]


async def stored(pool: asyncpg.Pool, app: str, started: Callable[[], Sequence[str]]) -> Stored:
    """As it is now, with what has left for the history. What has `started` is read last: a run that is known to have
    completed has begun before."""
    jobs = await pool.fetch(_JOBS, f"{app}.%")
    runs = await pool.fetch(_RUNS, f"{app}.%")
    mine = Counter(run for run in started() if run.startswith(f"{app}."))
    return Stored({row["id"]: row for row in jobs}, {row["id"]: row for row in runs}, mine)


def judge_jobs(homes: Homes, launched: Sequence[ReadyJob], asked: Asked, end: datetime, into: Judgement) -> None:
    """Of each schedule's home the jobs that the oracle wants, and nothing else. Jobs of different keys may be numbered
    in any order."""
    for job, times in Counter(job.id for job in launched).items():
        if times > 1:
            into.double(f"job {job} is on its way {times} times", times - 1)
    found: dict[tuple[str, int, str], list[ReadyJob]] = defaultdict(list)
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for job in {job.id: job for job in launched}.values():
        found[str(job.schedule), job.generation, job.key].append(job)
        numbers[str(job.schedule), job.generation].append(job.sequence)
    for which, some in numbers.items():
        if some != list(range(1, len(some) + 1)):
            into.spoil(f"{which} has jobs in this order: {some}")
    wanted: dict[tuple[str, int, str], list[Content]] = defaultdict(list)
    for definition in asked.schedules.values():
        ref = str(definition.ref)
        for each in rerun(homes.get(f"schedule:{ref}", ()), end).jobs:
            wanted[ref, each.generation, each.key].append((each.at, tuple(sorted(each.reported))))
    for place in wanted.keys() | found.keys():
        jobs = sorted(found.get(place, ()), key=lambda job: job.sequence)
        into.compare(f"jobs of {place}", list(map(str, wanted.get(place, ()))), [str(_content(job)) for job in jobs])


async def judge_rows(pool: asyncpg.Pool, launched: Mapping[str, int], into: Judgement) -> None:
    """Every launch is one row, there are no others, and none is on its way twice. `launched`: job → how often it is."""
    rows = await pool.fetch("SELECT id FROM jobs UNION ALL SELECT id FROM jobs_history")
    into.compare("rows of all launches", sorted(launched), sorted(row["id"] for row in rows))
    for job, times in launched.items():
        if times > 1:
            into.double(f"job {job} was launched {times} times", times - 1)


def judge_submissions(homes: Homes, launched: Sequence[ReadyJob], there: Stored, asked: Asked, into: Judgement) -> None:
    """Every job is a row that has ended, and has started one run; or it says why not, and that is true."""
    ids = {job.id for job in launched}
    for job in there.jobs.keys() - ids:
        into.double(f"job {job} was stored and never launched")
    runs: dict[str, list[str]] = defaultdict(list)
    for run, row in there.runs.items():
        runs[row["job"]].append(run)
        if row["state"] == RunState.COMPLETED and there.started[run] != 1:
            into.spoil(f"run {run} has completed and started {there.started[run]} times")
    for run, times in there.started.items():
        if times > 1:
            into.double(f"run {run} started {times} times", times - 1)
    for job in {job.id: job for job in launched}.values():
        row = there.jobs.get(job.id)
        if row is None:
            into.miss(f"job {job.id} was never stored")
            continue
        times = sum(there.started[run] for run in runs[job.id])
        log = homes.get(f"schedule:{job.schedule}", ())
        match JobState(row["state"]):
            case state if state in _WAITING:
                into.miss(f"job {job.id} is still {state}: {row['reason']} {row['waiting']}")
            case JobState.LAUNCHED:
                _submitted(job, runs[job.id], there, into)
                _in_time(job, row["ended_at"], asked, into)
            case JobState.OBSOLETE if superseded(log, job.generation):
                if times:
                    into.double(f"job {job.id} is obsolete ({row['reason']}) and has started {runs[job.id]}")
            case JobState.COALESCED if asked.schedules[job.schedule.name].overlap is Overlap.COALESCE:
                if times or row["joined"] not in there.jobs:
                    into.spoil(f"job {job.id} has joined {row['joined']} and started {times} times")
            case state:
                into.spoil(f"job {job.id} is {state}: {row['reason']}")


def _submitted(job: ReadyJob, runs: Sequence[str], there: Stored, into: Judgement) -> None:
    states = {run: RunState(there.runs[run]["state"]) for run in runs}
    times = sum(there.started[run] for run in runs)
    if times > 1 or len(runs) > 1:
        into.double(f"job {job.id} was submitted {times} times: {states}")
    elif not all(state.terminal for state in states.values()):
        into.miss(f"job {job.id} has not ended: {states}")
    elif not times:
        into.miss(f"job {job.id} was launched and has started nothing: {states}")


def _in_time(job: ReadyJob, claimed_at: datetime, asked: Asked, into: Judgement) -> None:
    """None that was made under a definition is claimed after a change has returned that began anew (promise G4)."""
    for change in asked.returned:
        gone = change.schedule == job.schedule.name and change.anew and job.generation < change.generation
        if gone and claimed_at > change.at:
            into.spoil(f"job {job.id} was launched after generation {change.generation} stood")


def superseded(log: Sequence[Stamped], generation: int) -> bool:
    """Whether a schedule's home heard of a change that began anew, or of its end."""
    return any(
        (isinstance(signal, Put) and signal.generation > generation and not signal.keep)
        or (isinstance(signal, Drop) and signal.generation >= generation)
        for _, signal in log
    )


def _content(job: ReadyJob) -> Content:
    said = (
        (part.leaf, part.count, tuple(dict.fromkeys(event.id for event in part.events))) for part in job.contributions
    )
    return job.satisfied_at, tuple(sorted(said))
