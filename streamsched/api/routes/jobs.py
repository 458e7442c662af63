"""Jobs: satisfied schedules, waiting or launched, and the explanation of their state."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final

from starlette.responses import Response

from streamsched.api.access.authorise import CallerDep
from streamsched.api.body import BodyObject, reason_of
from streamsched.api.deps import AppQuery, ClockDep, JobsDep, NamespaceQuery
from streamsched.api.paging import After, Limit, read_moment_cursor
from streamsched.api.reads.job_list import newest_jobs
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE, VIEW, VIEW_LIST
from streamsched.domain.jobs.job import JobCommand, JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import AppRef, ScheduleRef
from streamsched.launcher.why import explain_job
from streamsched.wire.jobs import JOB, JOB_REASON

#: The reason in the history when the request has none.
_DEFAULT_REASON: Final = "by hand"

routes = Routes("/v1/jobs", "jobs")


@routes.get("", "List jobs", may=VIEW_LIST, answers=JOB.page("jobs"))
async def list_jobs(
    jobs: JobsDep,
    *,
    schedule: Annotated[str | None, Query(description="Only jobs of this schedule, `namespace.app.name`.")] = None,
    namespace: NamespaceQuery = None,
    app: AppQuery = None,
    state: Annotated[
        list[JobState | RunState] | None,
        Query(description="Only jobs in this state, or launched ones whose last run is in it; can be repeated."),
    ] = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, newest jobs first. `outcome` is the state of a job's last run. Jobs that are sought by it may fill less
    than a page, none even, that has a `next`.
    """
    ref = None if schedule is None else ScheduleRef.parse(schedule)
    owner = None if app is None else AppRef.parse(app)
    found, following = await newest_jobs(
        jobs,
        schedule=ref,
        app=owner,
        namespace=namespace,
        states=state or (),
        limit=limit,
        before=read_moment_cursor(after),
    )
    return json_response({"jobs": [JOB.write(each) for each in found], **({"next": following} if following else {})})


@routes.get("/{job}", "Get a job", may=VIEW, answers=JOB.answer)
async def get_job(job: str, jobs: JobsDep) -> Response:
    """The job with its runs and the outcome of the last one."""
    return json_response(JOB.write(await jobs.get(job)))


@routes.get("/{job}/why", "Explain a job's state", may=VIEW, answers=JOB_REASON.answer)
async def get_why(job: str, jobs: JobsDep, clock: ClockDep, caller: CallerDep) -> Response:
    """Why the job is in its state: each constraint, the events that satisfied the trigger, the earliest time at which
    the state can change, and the history. Runs of namespaces in which the caller has no view are counted, not named.
    """
    return json_response(JOB_REASON.write(await explain_job(job, jobs=jobs, clock=clock, sees=caller.sees)))


@routes.order("/{job}/release", "Withdraw the command of a job", may=OPERATE, answers={202: JOB.answer})
async def release(job: str, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """Withdraws a pending `force`, `cancel` or `hold`, so the job waits for its constraints again. 409 when it no
    longer waits. `reason` (optional) is stored in the history.
    """
    return await _command(job, None, body, jobs, clock)


@routes.order("/{job}/force", "Start a job without its constraints", may=OPERATE, answers={202: JOB.answer})
async def force(job: str, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """Makes a waiting job start without its constraints. Responds 202; a launcher carries it out at its next check. 409
    when the job no longer waits. `reason` (optional) is stored in the history.
    """
    return await _command(job, JobCommand.FORCE, body, jobs, clock)


@routes.order("/{job}/cancel", "Cancel a job", may=OPERATE, answers={202: JOB.answer})
async def cancel(job: str, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """Makes a waiting job end. Responds 202; a launcher carries it out at its next check. 409 when the job no longer
    waits. `reason` (optional) is stored in the history.
    """
    return await _command(job, JobCommand.CANCEL, body, jobs, clock)


@routes.order("/{job}/hold", "Hold a job", may=OPERATE, answers={202: JOB.answer})
async def hold(job: str, body: BodyObject, jobs: JobsDep, clock: ClockDep) -> Response:
    """Makes a waiting job wait until it is released. Responds 202; a launcher carries it out at its next check. 409
    when the job no longer waits. `reason` (optional) is stored in the history.
    """
    return await _command(job, JobCommand.HOLD, body, jobs, clock)


async def _command(
    job: str, command: JobCommand | None, body: dict[str, Any], jobs: JobsDep, clock: ClockDep
) -> Response:
    changed = await jobs.command(job, command, reason_of(body) or _DEFAULT_REASON, now=clock.now())
    return json_response(JOB.write(changed), status=HTTPStatus.ACCEPTED)
