"""Backfills: many jobs of one schedule over a span, as one object."""

from __future__ import annotations

import secrets
from http import HTTPStatus
from typing import Annotated, Any

from starlette.responses import Response

from streamsched.api.body import BodyObject, reason_of
from streamsched.api.bounds.request_limits import LISTS
from streamsched.api.deps import BackfillsDep, ClockDep, NamespaceQuery
from streamsched.api.paging import After, Limit, moment_cursor, page, read_moment_cursor
from streamsched.api.rendering import json_response
from streamsched.api.routes.submissions import IdempotencyKey
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Routes
from streamsched.api.routing.rules import OPERATE, VIEW, VIEW_LIST
from streamsched.codec.backfills import NEW, request_from_json
from streamsched.domain.backfills.backfill import BackfillFact, ItemState
from streamsched.domain.errors import DecodeError
from streamsched.domain.names import ScheduleRef
from streamsched.store.jobs.backfills import BackfillRecord
from streamsched.wire.backfills import (
    BACKFILL,
    BACKFILL_PLAN,
    BACKFILL_STATE,
    BACKFILLS,
    JOB_OF_BACKFILL,
    JOBS_OF_BACKFILL,
    STARTED_BACKFILL,
)

routes = Routes("/v1", "backfills")

#: Requests of a person to a backfill, and what they do.
_FACTS = {"pause": BackfillFact.PAUSED, "resume": BackfillFact.RESUMED, "cancel": BackfillFact.CANCELLED}


@routes.post(
    "/schedules/{schedule}/backfills",
    "Start a backfill",
    may=OPERATE,
    body=NEW,
    answers={200: BACKFILL_PLAN.answer, 202: STARTED_BACKFILL.answer},
    conflict=True,
    limit=LISTS,
)
async def start_backfill(
    schedule: str,
    body: BodyObject,
    backfills: BackfillsDep,
    clock: ClockDep,
    *,
    dry_run: Annotated[bool, Query(description="Return the jobs that would be made, and make none.")] = False,
    limit: Limit = 100,
    idempotency_key: IdempotencyKey = None,
) -> Response:
    """Makes jobs of the schedule for a span, at most `maxActive` (1 to 1000, default 4) at a time, after all other
    waiting jobs: 202 `{"id", …, "repeated"}`. The body has one span:

    - `from` and `to`, for a schedule with a clock: its ticks between two instants or dates (in the zone of the clock),
      both included;
    - `keys`, for a correlating schedule: an object with the values of each column, `"2013-01-01..2013-01-31"`,
      `"a,b"` or a list of texts. Several columns make all combinations;
    - `dataset` and `partitions`, for a schedule that waits for partitions: a list of their keys, or of objects as in
      events. A job for each key of a `per`, otherwise for as many partitions as the trigger waits for.

    Optional: `only` `missing` (default: what no run of the schedule was about), `failed` (whose latest run failed) or
    `all`; `order` `oldest` (default) or `newest`; `maxFailures` (0 to 1000, default 20): it pauses when the runs of so
    many jobs in a row, in its order, have failed, 0: it goes on; `mute`: the status of the runs is given to no
    schedule; `arguments`, which override all others; `reason`, who asks and why; `confirmed`, required for more than
    10,000 jobs. A span of more than 100,000 is refused. With `dry_run` the answer is 200 with the numbers and the first
    `limit` jobs: logical time, key, arguments, what is `known` of it (missing, active, failed, succeeded) and the
    `latest` such job. 409 when the schedule is disabled.
    """
    token = secrets.token_hex(8) if idempotency_key is None else idempotency_key
    request = request_from_json(ScheduleRef.parse(schedule), token, body)
    if dry_run:
        return json_response(BACKFILL_PLAN.write(await backfills.plan(request, now=clock.now(), limit=limit)))
    found, repeated = await backfills.start(request, now=clock.now())
    headers = {"Location": f"/v1/backfills/{found.id}"}
    return json_response({**_view(found), "repeated": repeated}, status=HTTPStatus.ACCEPTED, headers=headers)


@routes.get("/backfills", "List backfills", may=VIEW_LIST, answers=BACKFILLS)
async def list_backfills(
    backfills: BackfillsDep,
    *,
    schedule: Annotated[str | None, Query(description="Only backfills of this schedule, `namespace.app.name`.")] = None,
    namespace: NamespaceQuery = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, newest first. Ended backfills are kept as long as jobs are (STREAMSCHED_JOBS_KEEP)."""
    ref = None if schedule is None else ScheduleRef.parse(schedule)
    found = await backfills.list_recent(
        schedule=ref, namespace=namespace, limit=limit + 1, before=read_moment_cursor(after)
    )
    return json_response(page("backfills", found, limit, _view, lambda each: moment_cursor(each.created_at, each.id)))


@routes.get("/schedules/{schedule}/backfills", "List the backfills of a schedule", may=VIEW, answers=BACKFILLS)
async def list_backfills_of_schedule(
    schedule: str, backfills: BackfillsDep, *, after: After = "", limit: Limit = 100
) -> Response:
    """A page, newest first."""
    return await list_backfills(backfills, schedule=schedule, after=after, limit=limit)


@routes.get("/backfills/{backfill}", "Get a backfill", may=VIEW, answers=BACKFILL.answer)
async def get_backfill(backfill: str, backfills: BackfillsDep) -> Response:
    """What was asked for, its state, and how many of its jobs are in which state."""
    return json_response(_view(await backfills.get(backfill)))


@routes.get(
    "/backfills/{backfill}/jobs",
    "List the jobs of a backfill",
    may=VIEW,
    answers=JOBS_OF_BACKFILL,
)
async def list_jobs_of_backfill(
    backfill: str,
    backfills: BackfillsDep,
    *,
    state: Annotated[list[ItemState] | None, Query(description="Only jobs in this state; can be repeated.")] = None,
    after: After = "",
    limit: Limit = 100,
) -> Response:
    """A page, in the order of the span, those that do not exist yet (`WAITING`) included. `DROPPED`: the job ended
    without a run.
    """
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise DecodeError("$.after", "is no cursor of this list")
    found = await backfills.jobs(backfill, states=state or (), limit=limit + 1, after=int(after or 0))
    return json_response(page("jobs", found, limit, JOB_OF_BACKFILL.write, lambda each: str(each.number)))


@routes.order("/backfills/{backfill}/pause", "Pause a backfill", may=OPERATE, answers={202: BACKFILL.answer})
async def pause(backfill: str, body: BodyObject, backfills: BackfillsDep, clock: ClockDep) -> Response:
    """Makes no further jobs, and holds those that wait; active runs go on. 409 when it has ended. `reason` (optional)
    is stored in the history.
    """
    return await _change("pause", backfill, body, backfills, clock)


@routes.order("/backfills/{backfill}/resume", "Resume a backfill", may=OPERATE, answers={202: BACKFILL.answer})
async def resume(backfill: str, body: BodyObject, backfills: BackfillsDep, clock: ClockDep) -> Response:
    """Releases its held jobs and makes further ones. 409 when it has ended."""
    return await _change("resume", backfill, body, backfills, clock)


@routes.order("/backfills/{backfill}/cancel", "Cancel a backfill", may=OPERATE, answers={202: BACKFILL.answer})
async def cancel(backfill: str, body: BodyObject, backfills: BackfillsDep, clock: ClockDep) -> Response:
    """Makes no further jobs, and ends those that wait; active runs go on. 409 when it is completed."""
    return await _change("cancel", backfill, body, backfills, clock)


async def _change(order: str, backfill: str, body: BodyObject, backfills: BackfillsDep, clock: ClockDep) -> Response:
    found = await backfills.change(backfill, _FACTS[order], reason_of(body), now=clock.now())
    return json_response(_view(found), status=HTTPStatus.ACCEPTED)


def _view(backfill: BackfillRecord) -> dict[str, Any]:
    return {**BACKFILL_STATE.write(backfill), **backfill.request}
