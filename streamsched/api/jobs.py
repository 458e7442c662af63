"""Jobs: satisfied schedules, waiting or launched, and why."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query
from fastapi.responses import Response

from streamsched.api.body import BodyObject, reason_of
from streamsched.api.deps import ClockDep, JobsDep
from streamsched.api.rendering import rendered
from streamsched.api.views import job_view, why_view
from streamsched.domain.job import JobState, Order
from streamsched.domain.names import ScheduleRef
from streamsched.launcher.why import why

#: What its history says when nobody gave a reason.
_BY_HAND: Final = "by hand"

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


@router.post("/{job}/release")
async def release(job: str, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """Takes back what the job was told. `reason` (optional): who wants it and why."""
    told = await jobs.tell(job, None, reason_of(body) or _BY_HAND, now=clock.now())
    return rendered(job_view(told), status=HTTPStatus.ACCEPTED)


@router.post("/{job}/{order}")
async def tell(job: str, order: Order, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """202: a waiting job is told to run without its constraints (`force`), to end (`cancel`) or to stay (`hold`); 409
    when it waits no more. `reason` (optional): who wants it and why, for its history.
    """
    told = await jobs.tell(job, order, reason_of(body) or _BY_HAND, now=clock.now())
    return rendered(job_view(told), status=HTTPStatus.ACCEPTED)
