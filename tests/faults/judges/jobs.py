"""Whether the right jobs were made, with the right events, each once: stations 5 to 7."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any, Final

import asyncpg

from streamsched.domain.fold.effect import Launch
from streamsched.domain.fold.fold import NO_CELLS, fold
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.signals.signal import Put
from tests.faults.judges.homes import Homes
from tests.faults.sites.visibility import Visibility, read_visibility
from tests.support.judgement import Judgement
from tests.support.rerun import Expected, Stamped, can_keep, rerun

#: When it was satisfied, and what it says: leaf, how much, of which events.
Content = tuple[datetime, tuple[tuple[str, int, tuple[str, ...]], ...]]

_JOBS: Final = """
SELECT * FROM jobs WHERE id LIKE $1
UNION ALL
SELECT j.* FROM jobs_history h, jsonb_populate_record(NULL::jobs, h.record) AS j WHERE h.id LIKE $1
"""
_RUNS: Final = """
SELECT * FROM runs WHERE program LIKE $1
UNION ALL
SELECT r.* FROM runs_history h, jsonb_populate_record(NULL::runs, h.record) AS r WHERE h.program LIKE $1
"""
_BACKFILLS: Final = """
SELECT b.*, (SELECT jsonb_object_agg(number, jsonb_build_array(state, ready)) FROM backfill_items WHERE backfill = b.id)
    AS found
FROM backfills b WHERE id LIKE $1
"""

_LAUNCHED: Final = """
SELECT id FROM jobs WHERE NOT submitted
UNION ALL
SELECT id FROM jobs_history WHERE NOT coalesce((record ->> 'submitted')::boolean, false)
"""


@dataclass(frozen=True, slots=True)
class Left:
    """What runs have left outside of the database.

    Attributes:
        started: ids of runs, one for each start of a command.
        serial: ids of runs of lanes, each after `+` when it began and after `-` at its end.
        calls: how many requests came for each job.
    """

    started: Sequence[str]
    serial: Sequence[str] = ()
    calls: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Stored:
    """What PostgreSQL holds of one app, and what its runs have left (see `Left`).

    Attributes:
        visibility: which jobs were not yet visible when a run was made.
        backfills: their rows; in `found` the number of each item as a text → its state, and its job as it is stored.
    """

    jobs: Mapping[str, Mapping[str, Any]]
    runs: Mapping[str, Mapping[str, Any]]
    started: Counter[str]
    serial: Sequence[str] = ()
    calls: Counter[str] = field(default_factory=Counter)
    backfills: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    visibility: Visibility = field(default_factory=Visibility)

    runs_of: Mapping[str, Sequence[str]] = field(init=False)

    def __post_init__(self) -> None:
        runs_of: dict[str, list[str]] = defaultdict(list)
        for run, row in self.runs.items():
            runs_of[row["job"]].append(run)
        object.__setattr__(self, "runs_of", runs_of)

    def job_of(self, run: str) -> Mapping[str, Any] | None:
        """The job of a run, if both are there."""
        return self.jobs.get(self.runs[run]["job"]) if run in self.runs else None

    @property
    def completed(self) -> list[tuple[str, str, bool]]:
        """(Run, program, whether it is muted) of those that completed."""
        return [
            (run, row["program"], bool(row["muted"]))
            for run, row in self.runs.items()
            if row["state"] == RunState.COMPLETED
        ]

    @property
    def repeated(self) -> int:
        """Requests beyond the first of each job."""
        return self.calls.total() - len(self.calls)


async def stored(pool: asyncpg.Pool, app: str, left: Callable[[], Left]) -> Stored:
    """As it is now, with what has left for the history. What runs have left is read last: a run that is known to have
    completed has begun before."""
    backfills = await pool.fetch(_BACKFILLS, f"{app}.%")
    jobs = await pool.fetch(_JOBS, f"{app}.%")
    runs = await pool.fetch(_RUNS, f"{app}.%")
    found, mine = left(), f"{app}."
    return Stored(
        {row["id"]: row for row in jobs},
        {row["id"]: row for row in runs},
        Counter(run for run in found.started if run.startswith(mine)),
        [line for line in found.serial if line[1:].startswith(mine)],
        Counter({job: times for job, times in found.calls.items() if job.startswith(mine)}),
        {row["id"]: row for row in backfills},
        await read_visibility(pool),
    )


def judge_jobs(homes: Homes, launched: Sequence[ReadyJob], end: datetime | None, into: Judgement) -> None:
    """Of each schedule's home the jobs that the oracle wants up to `end`, or to the last signal; and nothing else. Jobs
    of different keys may be numbered in any order.
    """
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
    backlogs: dict[tuple[str, int], bool] = {}
    for key, log in homes.items():
        if not key.startswith("schedule:"):
            continue
        ref = key.removeprefix("schedule:")
        backlogs |= {(ref, put.generation): put.backlog for _, put in log if isinstance(put, Put)}
        for each in expected(log, end or log[-1][0]):
            wanted[ref, each.generation, each.key].append((each.at, tuple(sorted(each.reported))))
    for job in launched:
        if job.backlog is not backlogs.get((str(job.schedule), job.generation), False):
            into.spoil(f"job {job.id} is {'' if job.backlog else 'not '}of a backlog")
    for place in wanted.keys() | found.keys():
        jobs = sorted(found.get(place, ()), key=lambda job: job.sequence)
        into.compare(f"jobs of {place}", list(map(str, wanted.get(place, ()))), [str(_content(job)) for job in jobs])


def expected(log: Sequence[Stamped], end: datetime) -> Sequence[Expected]:
    """The jobs that a schedule's log must start: by the naive model, and by the fold itself where a definition keeps
    what another trigger has, which that model does not know in general.
    """
    puts = [signal for _, signal in log if isinstance(signal, Put)]
    if all(put.trigger == before.trigger or not put.keep or _known(before, put) for before, put in pairwise(puts)):
        return rerun(log, end).jobs
    state, jobs = None, list[Expected]()
    for at, signal in log:
        folded = fold(state, signal, at=at, cells=NO_CELLS)
        state = folded.state
        jobs += [Expected.of(effect.job) for effect in folded.effects if isinstance(effect, Launch)]
    return jobs


def _known(before: Put, put: Put) -> bool:
    return can_keep(before.trigger) and can_keep(put.trigger)


async def launched_rows(pool: asyncpg.Pool) -> list[str]:
    """The ids of all jobs of triggers."""
    return [row["id"] for row in await pool.fetch(_LAUNCHED)]


def judge_rows(rows: Iterable[str], launched: Mapping[str, int], into: Judgement) -> None:
    """Every launch is one row, there are no others, and none is on its way twice. `launched`: job → how often it is."""
    into.compare("rows of all launches", sorted(launched), sorted(rows))
    for job, times in launched.items():
        if times > 1:
            into.double(f"job {job} was launched {times} times", times - 1)


def _content(job: ReadyJob) -> Content:
    said = (
        (part.leaf, part.count, tuple(dict.fromkeys(event.id for event in part.events))) for part in job.contributions
    )
    return job.satisfied_at, tuple(sorted(said))
