"""Submissions and reruns: jobs that a person asks for, and runs that are started without a job."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Annotated

from starlette.responses import Response

from streamsched.api.body import BodyObject
from streamsched.api.deps import ClockDep, RunsDep, SubmissionsDep
from streamsched.api.rendering import json_response
from streamsched.api.routing.parameters import Header, Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE
from streamsched.domain.errors import ConflictError, InvalidError
from streamsched.domain.jobs.submission import plain_key
from streamsched.domain.names import ProgramRef, ScheduleRef
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.launcher.start import start
from streamsched.ports.clock import Clock
from streamsched.store.jobs.submissions import SubmissionStore, SubmittedJob
from streamsched.wire.jobs import MADE
from streamsched.wire.submissions import (
    BULK_RERUN,
    JOB_OF_FAILURE,
    MADE_JOBS,
    MADE_OR_STARTED,
    PROGRAM_SUBMISSION,
    RERUN,
    SCHEDULE_SUBMISSION,
)

routes = Routes("/v1", "runs")

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 characters. A repeat with the same key finds the first job or run; 409 when the key came "
        "with another request. Default: a random key.",
    ),
]


RerunKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 characters. A repeat with the same key finds the first job; 409 when the key came with "
        "another request. Default: the number of the repeated attempt, so a run is repeated once.",
    ),
]


BulkRerunKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="1 to 255 characters. A repeat with the same key finds the jobs of the first request and makes no "
        "others; 409 when the key came with another request. Default: the number of each repeated attempt, so a run is "
        "repeated once.",
    ),
]


@routes.order(
    "/programs/{program}/runs",
    "Submit a program",
    may=OPERATE,
    body=PROGRAM_SUBMISSION.body,
    answers={202: MADE_OR_STARTED},
)
async def submit_program(
    program: str,
    body: BodyObject,
    runs: RunsDep,
    submissions: SubmissionsDep,
    clock: ClockDep,
    *,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Makes a job of the program alone: 202 `{"job", "repeated"}`. It waits like a job of a schedule, for the limits
    that the program's schedules share: the smallest `max_concurrent`, their groups, pool, loads, and rates of the
    program or a group. Properties, windows, delays, timeouts and overlap policies of schedules do not apply. 400 when
    its schedules are in several pools. The members of the body are optional: `arguments`, which override the program's
    own; `reason`, who asks and why, for the history; `token`, the same as the header.

    With `now` a run starts at once, without a job, or is refused: 202 `{"run"}`. 409 when a group or pool has no free
    slot. `atMost`: 409 also when that many runs of the program are active. `force`: ignores all limits.
    """
    wanted = PROGRAM_SUBMISSION.read(body)
    token = _token(wanted.token, idempotency_key)
    ref = ProgramRef.parse(program)
    request = SubmissionRequest(
        ref, secrets.token_hex(8) if token is None else token, wanted.arguments, reason=wanted.reason
    )
    if not wanted.now:
        for name, given in (("atMost", wanted.at_most), ("force", wanted.force)):
            if given:
                raise InvalidError(f"$.{name}", "is only for a run that starts at once: set `now`")
        return await _submit(submissions, clock, request)
    run = await start(
        runs,
        clock,
        ref,
        wanted.arguments,
        at_most=wanted.at_most,
        force=wanted.force,
        token=None if token is None else plain_key(token),
        reason=wanted.reason,
    )
    return json_response({"run": run}, status=HTTPStatus.ACCEPTED, headers={"Location": f"/v1/runs/{run}"})


@routes.order(
    "/schedules/{schedule}/runs",
    "Submit a schedule",
    may=OPERATE,
    body=SCHEDULE_SUBMISSION.body,
    answers={202: MADE.answer},
)
async def submit_schedule(
    schedule: str,
    body: BodyObject,
    submissions: SubmissionsDep,
    clock: ClockDep,
    *,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Makes a job of the schedule, as its trigger would, without events: 202 `{"job", "repeated"}`. All its
    constraints, properties and policies apply; while the schedule is paused the job waits. The members of the body are
    optional: `arguments`, which override the schedule's properties and the program's own (with them, the job is not
    coalesced with others); `key`, an object with a value for each column of a correlating schedule, and required for
    one; `reason`, who asks and why, for the history. 409 when the schedule is disabled or
    draining.
    """
    token = secrets.token_hex(8) if idempotency_key is None else idempotency_key
    request = SCHEDULE_SUBMISSION.read(body, owner=ScheduleRef.parse(schedule), token=token)
    return await _submit(submissions, clock, request)


@routes.order("/jobs/{job}/rerun", "Rerun a job", may=OPERATE, body=RERUN.body, answers={202: MADE.answer})
async def rerun_job(
    job: str,
    body: BodyObject,
    submissions: SubmissionsDep,
    clock: ClockDep,
    *,
    idempotency_key: RerunKey = None,
) -> Response:
    """Makes a job with the triggering events, key and logical time of an earlier one whose last run has ended: 202
    `{"job", "repeated"}`. Program and schedule are as they are now. It waits for the constraints, by itself: no overlap
    policy applies. The members of the body are optional: `arguments`, which override all others; `reason`, who asks and
    why, for the history; `mute`: the status of the new runs is stored and given to no schedule (default: it is given).
    409 when the job has had no run, its last run has not ended, or its schedule is disabled or draining.
    """
    request = RERUN.read(body, job=job, token=idempotency_key)
    return _made_answer(await submissions.rerun(request, now=clock.now()))


@routes.order("/runs/{run}/rerun", "Rerun a run", may=OPERATE, body=RERUN.body, answers={202: MADE.answer})
async def rerun_run(
    run: str,
    body: BodyObject,
    runs: RunsDep,
    submissions: SubmissionsDep,
    clock: ClockDep,
    *,
    idempotency_key: RerunKey = None,
) -> Response:
    """The same of the job of a run. 409 also for a run without a job."""
    found = await runs.get(run)
    if found.job is None:
        raise ConflictError(f"run '{run}' has no job, so it has no events to repeat; start program '{found.program}'")
    request = RERUN.read(body, job=found.job, run=run, token=idempotency_key)
    return _made_answer(await submissions.rerun(request, now=clock.now()))


@routes.order(
    "/schedules/{schedule}/reruns",
    "Rerun the failed jobs of a schedule",
    may=OPERATE,
    body=BULK_RERUN.body,
    answers={200: JOB_OF_FAILURE.whole_list("jobs", "FailedJobs"), 202: MADE_JOBS.answer},
)
async def rerun_failed_jobs(
    schedule: str,
    body: BodyObject,
    submissions: SubmissionsDep,
    clock: ClockDep,
    *,
    dry_run: Annotated[bool, Query(description="Return the jobs that would be repeated, and repeat none.")] = False,
    idempotency_key: BulkRerunKey = None,
) -> Response:
    """Repeats all jobs of the schedule whose last run failed or was lost and was not repeated yet, all or none, as
    `/jobs/{job}/rerun`: 202 `{"jobs": [{"job", "repeated"}]}`, oldest first. The members of the body are optional:
    `since`, how long ago these runs ended at most (default `1d`); `runs`, a list: only these of them; `arguments`,
    `reason` and `mute` as of one rerun. 400 when there are more than 1000, or the schedule has more than 10,000 jobs
    of `since` and the week before. 409 when it is disabled or draining. With `dry_run` the answer is 200
    `{"jobs": [{"id", "run", "outcome", "outcomeReason", "lastRunEndedAt"}]}`.
    """
    request = BULK_RERUN.read(body, schedule=ScheduleRef.parse(schedule), token=idempotency_key)
    if dry_run:
        failed = await submissions.list_failed(request, now=clock.now())
        return json_response({"jobs": [JOB_OF_FAILURE.write(each) for each in failed]})
    made = await submissions.rerun_failed(request, now=clock.now())
    return json_response({"jobs": [MADE.write(each) for each in made]}, status=HTTPStatus.ACCEPTED)


async def _submit(submissions: SubmissionStore, clock: Clock, request: SubmissionRequest) -> Response:
    return _made_answer(await submissions.submit(request, now=clock.now()))


def _made_answer(found: SubmittedJob) -> Response:
    location = {"Location": f"/v1/jobs/{found.job}"}
    return json_response(MADE.write(found), status=HTTPStatus.ACCEPTED, headers=location)


def _token(member: str | None, header: str | None) -> str | None:
    """The idempotency key of a request.

    Raises:
        InvalidError: body and header name different keys.
    """
    if member is not None and header is not None and member != header:
        raise InvalidError("$.token", "is not the key of header Idempotency-Key; send one of them")
    return header if member is None else member
