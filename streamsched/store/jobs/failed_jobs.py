"""The jobs of a schedule whose last run failed or was lost, and their reruns by one request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from streamsched.codec.records import launch
from streamsched.domain.errors import InvalidError
from streamsched.domain.jobs.job import ReadyJob
from streamsched.domain.jobs.run import RunState
from streamsched.domain.jobs.submission import rerun_job_id
from streamsched.domain.limits import add_duration
from streamsched.domain.schedules.submission_request import MOST_RERUNS, BulkRerunRequest
from streamsched.store.connections import Connection
from streamsched.store.sql import Select, queries

_SQL: Final = queries("jobs/failed_jobs")
_FAILED: Final = (RunState.FAILED, RunState.LOST)
#: Most jobs of a schedule that are searched, and as many in the history.
_EXAMINED: Final = 10_000
#: How long before a run's end its job was made, at most.
_LONGEST: Final = timedelta(days=7)
#: Between the satisfactions of reruns made together, so that they start in the order of the jobs they repeat.
_STEP: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job whose last run failed or was lost. `run`: that run, the attempt of this number, with its state, reason and
    end.
    """

    id: str
    run: str
    attempt: int
    state: RunState
    reason: str
    ended_at: datetime


class _Examined(NamedTuple):
    examined: int
    id: str | None
    run: str
    attempt: int
    outcome: str
    reason: str
    ended_at: datetime
    repeated: bool


class _Ready(NamedTuple):
    id: str
    ready: str


_FAILED_JOBS: Final = Select(_SQL["failed"], _Examined)
_READIES: Final = Select(_SQL["readies"], _Ready)


async def failed_jobs(connection: Connection, request: BulkRerunRequest, now: datetime) -> Sequence[FailedJob]:
    """The jobs that the request repeats, oldest first.

    Raises:
        InvalidError: there are more than `MOST_RERUNS`, or too many jobs to search.
    """
    begin = add_duration(now, -request.since)
    found = [
        _failed_job(job, row)
        for job, row in (await _examine(connection, request, now)).items()
        if not row.repeated and row.ended_at >= begin and (request.runs is None or row.run in request.runs)
    ]
    if len(found) > MOST_RERUNS:
        raise InvalidError("$.since", f"covers {len(found)} failed jobs; one request reruns at most {MOST_RERUNS}")
    return found


async def reruns_of(
    connection: Connection, request: BulkRerunRequest, jobs: Iterable[FailedJob], now: datetime
) -> Sequence[ReadyJob]:
    """The satisfactions that repeat these jobs, in their order, of generation 0."""
    attempts = {job.id: job for job in jobs}
    readies = dict(await _READIES.fetch(connection, list(attempts)))
    return [
        request.request_for(name).satisfaction(
            launch.decode(readies[name]),
            job.run,
            job.attempt,
            generation=0,
            sequence=0,
            now=add_duration(now, number * _STEP),
        )
        for number, (name, job) in enumerate(attempts.items())
        if name in readies
    ]


async def known_reruns(connection: Connection, request: BulkRerunRequest, now: datetime) -> Sequence[ReadyJob]:
    """The reruns that an earlier request with this token made, as this one would make them; of a request without a
    token none.
    """
    if request.token is None:
        return []
    examined = await _examine(connection, request, now)
    known = dict(await _READIES.fetch(connection, [rerun_job_id(job, request.token) for job in examined]))
    repeated = [_failed_job(job, row) for job, row in examined.items() if rerun_job_id(job, request.token) in known]
    return await reruns_of(connection, request, repeated, now)


async def _examine(connection: Connection, request: BulkRerunRequest, now: datetime) -> Mapping[str, _Examined]:
    """The failed jobs of the schedule that were made since `_LONGEST` before `since`, oldest first, by id.

    Raises:
        InvalidError: too many jobs were made since.
    """
    since = add_duration(now, -request.since - _LONGEST)
    rows = await _FAILED_JOBS.fetch(connection, str(request.schedule), since, _EXAMINED + 1, list(_FAILED))
    if rows[0].examined > _EXAMINED:
        raise InvalidError("$.since", f"covers more than {_EXAMINED} jobs of schedule '{request.schedule}'")
    return {row.id: row for row in rows if row.id is not None}


def _failed_job(job: str, row: _Examined) -> FailedJob:
    return FailedJob(job, row.run, row.attempt, RunState(row.outcome), row.reason, row.ended_at)
