"""Jobs by the state that lists show: of a launched job that of its last run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from streamsched.catalog.paging import moment_cursor
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.store.jobs.job_record import JobRecord
from streamsched.store.jobs.jobs import JobStore

#: Launched jobs whose last run is read for a page, at most, and how many at a time.
_EXAMINED: Final = 10_000
_STEP: Final = 1000


class JobPage(NamedTuple):
    """`next` is the cursor of the following page; "" after the last one. A page whose jobs are sought by the states of
    their runs may have fewer jobs than asked for, none even, and a following page.
    """

    jobs: Sequence[JobRecord]
    next: str


async def newest_jobs(
    jobs: JobStore,
    *,
    schedule: ScheduleRef | None,
    app: AppRef | None,
    namespace: str | None,
    states: Sequence[JobState | RunState],
    limit: int,
    before: tuple[datetime, str] | None,
) -> JobPage:
    """The newest jobs before a moment, in these states; any state without one. `LAUNCHED` has all launched jobs."""
    own = [each for each in states if isinstance(each, JobState)]
    of_runs = [each for each in states if isinstance(each, RunState)]
    asked = [*own, JobState.LAUNCHED] if of_runs and JobState.LAUNCHED not in own else own
    step = _STEP if of_runs else limit + 1
    found: list[JobRecord] = []
    for _ in range(_EXAMINED // _STEP if of_runs else 1):
        part = await jobs.list_recent(
            schedule=schedule, app=app, namespace=namespace, states=asked, limit=step, before=before
        )
        for each in part:
            if of_runs and not (each.state in own or (each.outcome is not None and each.outcome.state in of_runs)):
                continue
            if len(found) == limit:
                return JobPage(found, _cursor(found[-1]))
            found.append(each)
        if len(part) < step:
            return JobPage(found, "")
        before = part[-1].created_at, part[-1].id
    return JobPage(found, moment_cursor(*before) if before else "")


def _cursor(job: JobRecord) -> str:
    return moment_cursor(job.created_at, job.id)
