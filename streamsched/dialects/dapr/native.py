"""Jobs of all apps, for people and programs of this product."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from http import HTTPStatus
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from streamsched.api.body import LINES, BodyBytes, read_lines
from streamsched.api.deps import TasksDep, dialect_service
from streamsched.api.rendering import json_response
from streamsched.api.routes.tasks.views import task_view
from streamsched.api.routing.calls import Depends
from streamsched.api.routing.dialect import HttpDialect
from streamsched.api.routing.parameters import Query
from streamsched.api.routing.routes import Body, Routes
from streamsched.api.routing.rules import OPERATE, VIEW, Rule
from streamsched.api.streams.long_lists import start_reading, stream_object
from streamsched.dialects.dapr import schemas
from streamsched.dialects.dapr.codec.export import export_end, export_head, export_line
from streamsched.dialects.dapr.codec.job_json import job_from_json
from streamsched.dialects.dapr.codec.scope import DaprApp
from streamsched.dialects.dapr.desk import DaprDesk, KnownJob
from streamsched.dialects.dapr.sidecar import FireCount, fires_view, job_view
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidError, NotFoundError

routes = Routes("/v1/dapr/{namespace}/{app}", "Dapr", HttpDialect(name="dapr", prefix="/v1/dapr/", reads_lines=True))

#: Ends of ticks that are shown with a job.
_ENDS = 20


async def _app(namespace: str, app: str) -> DaprApp:
    return DaprApp(namespace, app)


DaprDep = Annotated[DaprDesk, dialect_service("dapr")]
AppDep = Annotated[DaprApp, Depends(_app)]
PrefixQuery = Annotated[str, Query(description="Only jobs whose names begin with this.")]


@routes.get("/jobs", "List the jobs of an app", may=VIEW, answers=schemas.JOBS)
async def list_jobs(app: AppDep, dapr: DaprDep, prefix: PrefixQuery = "") -> Response:
    """All at one moment, by name. `lastFire` is in the answer for one job only."""
    found = dapr.jobs(app, prefix)
    return await stream_object({}, [("jobs", found, lambda part: [job_view(each) for each in part])])


@routes.delete("/jobs", "Delete jobs by prefix, or all", may=OPERATE, answers=schemas.DELETED)
async def delete_prefix(
    app: AppDep,
    dapr: DaprDep,
    prefix: Annotated[str, Query(description="Beginning of their names.")] = "",
    every: Annotated[bool, Query(alias="all", description="All jobs of the app, instead of a prefix.")] = False,
) -> Response:
    """Ends all jobs whose names begin with the prefix, or with `all=true` all jobs of the app; `deleted` says how many.
    400 without either, and with both.
    """
    if bool(prefix) == every:
        raise InvalidError("$.prefix", "must name the beginning of names; or give all=true, without a prefix")
    return json_response({"deleted": await dapr.delete_prefix(app, prefix)})


@routes.get("/export", "Export the jobs of an app", may=VIEW, answers="AnyText", media=(LINES,))
async def export(app: AppDep, dapr: DaprDep, prefix: PrefixQuery = "") -> Response:
    """All at one moment, with their counters, as lines of JSON: a version, a job a line, and the number of jobs."""

    async def lines(batches: AsyncIterator[Sequence[KnownJob]]) -> AsyncIterator[bytes]:
        count = 0
        yield export_head()
        async for batch in batches:
            count += len(batch)
            yield b"".join(export_line(each.job, each.task.counters) for each in batch)
        yield export_end(count)

    return StreamingResponse(lines(await start_reading(dapr.jobs(app, prefix))), media_type=LINES)


@routes.post(
    "/import",
    "Import exported jobs",
    may=OPERATE,
    body=Body({LINES: "AnyText"}),
    answers=schemas.IMPORTED,
    conflict=True,
)
async def import_jobs(
    request: Request,
    app: AppDep,
    dapr: DaprDep,
    overwrite: Annotated[bool, Query(description="Replace jobs of the same names.")] = False,
) -> Response:
    """The body is that of `export`, as `application/x-ndjson`. Stores its jobs with their counters, all or none, so
    that repeats go on where they were. 409 when one exists, unless `overwrite` is true.
    """
    return json_response({"imported": await dapr.restore(app, read_lines(request), overwrite=overwrite)})


@routes.get("/jobs/{name}/next", "List the next deliveries of a job", may=VIEW, answers=schemas.FIRES)
async def next_fires(name: str, app: AppDep, dapr: DaprDep, count: FireCount = 10) -> Response:
    """`next`: instants, soonest first; of missed deliveries those that the misfire policy makes up for."""
    return json_response(fires_view(name, await dapr.next_fires(app, name, count)))


@routes.get("/jobs/{name:path}", "Show a job", may=VIEW, answers=schemas.JOB)
async def show(name: str, app: AppDep, dapr: DaprDep, tasks: TasksDep) -> Response:
    """A job with its task and the latest ends of its ticks, newest first."""
    found = await dapr.get(app, name)
    ends = await tasks.ends(found.task.task, limit=_ENDS)
    shown: dict[str, Any] = {
        **job_view(found),
        "task": task_view(await tasks.get(found.task.task)),
        "history": [task_view(each) for each in ends],
    }
    return json_response(shown)


@routes.post(
    "/jobs/{name:path}",
    "Schedule a job",
    may=Rule(Permission.EMIT, emits="{app}.{name}"),
    body=schemas.JOB,
    answers={201: schemas.JOB},
    conflict=True,
)
async def schedule(name: str, body: BodyBytes, app: AppDep, dapr: DaprDep) -> Response:
    """The body is that of Dapr's `POST /v1.0/jobs/{name}`. 409 when the job exists, unless `overwrite` is true."""
    job, overwrite = job_from_json(name, body)
    await dapr.schedule(app, job, overwrite=overwrite)
    return json_response(job_view(await dapr.get(app, name)), status=HTTPStatus.CREATED)


@routes.delete("/jobs/{name:path}", "Delete a job", may=OPERATE, answers={204: ""})
async def delete(name: str, app: AppDep, dapr: DaprDep) -> Response:
    """Ends a job in any state; 404 without one."""
    if not await dapr.delete(app, name):
        raise NotFoundError("job", name)
    return Response(status_code=HTTPStatus.NO_CONTENT)
