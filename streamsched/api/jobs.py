"""Jobs: satisfied schedules, waiting or launched, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.deps import ClockDep, JobsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import job_view, why_view
from streamsched.domain.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.launcher.why import why

router = APIRouter(prefix="/v1/jobs")


@router.get("")
async def list_jobs(
    jobs: JobsDep,
    schedule: Annotated[str | None, Query()] = None,
    state: Annotated[list[JobState] | None, Query()] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """The newest jobs first."""
    ref = None if schedule is None else ScheduleRef.parse(schedule)
    found = await jobs.recent(schedule=ref, states=state or (), limit=limit)
    return rendered({"jobs": [job_view(job) for job in found]})


@router.get("/{job}")
async def get_job(job: str, jobs: JobsDep) -> Response:
    return rendered(job_view(await jobs.get(job)))


@router.get("/{job}/why")
async def get_why(job: str, jobs: JobsDep, clock: ClockDep) -> Response:
    """Why the job is where it is: reasons, the events that fired it, and the earliest time that can change it."""
    return rendered(why_view(await why(job, jobs=jobs, clock=clock)))
