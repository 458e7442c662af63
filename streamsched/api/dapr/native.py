"""Jobs of all apps, for people and programs of this product."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from fastapi.responses import Response

from streamsched.api.body import BodyBytes, BodyObject
from streamsched.api.dapr.sidecar import job_view
from streamsched.api.deps import DaprDep, TasksDep
from streamsched.api.rendering import rendered
from streamsched.api.routes.tasks.views import task_view
from streamsched.codec.dapr.export import export_from_json, export_to_json
from streamsched.codec.dapr.job_json import job_from_json
from streamsched.codec.dapr.scope import DaprApp
from streamsched.codec.json.reading import Fields
from streamsched.domain.errors import NotFoundError

router = APIRouter(prefix="/v1/dapr/{namespace}/{app}", tags=["Dapr"])

#: Ends of ticks that are shown with a job.
_ENDS = 20


def _app(namespace: str, app: str) -> DaprApp:
    return DaprApp(namespace, app)


AppDep = Annotated[DaprApp, Depends(_app)]
PrefixQuery = Annotated[str, Query(description="Only jobs whose names begin with this.")]


@router.get("/jobs", summary="List the jobs of an app")
async def list_jobs(app: AppDep, dapr: DaprDep, prefix: PrefixQuery = "") -> Response:
    """All at one moment, by name. `lastFire` is in the answer for one job only."""
    return rendered({"jobs": [job_view(each) for each in await dapr.list(app, prefix)]})


@router.delete("/jobs", summary="Delete jobs by prefix")
async def delete_prefix(
    app: AppDep, dapr: DaprDep, prefix: Annotated[str, Query(min_length=1, description="Beginning of their names.")]
) -> Response:
    """Ends all jobs whose names begin with the prefix; `deleted` says how many."""
    return rendered({"deleted": await dapr.delete_prefix(app, prefix)})


@router.get("/export", summary="Export the jobs of an app")
async def export(app: AppDep, dapr: DaprDep, prefix: PrefixQuery = "") -> Response:
    """All at one moment, with their counters."""
    return rendered(export_to_json([(each.job, each.task.counters) for each in await dapr.list(app, prefix)]))


@router.post("/import", summary="Import exported jobs")
async def import_jobs(body: BodyObject, app: AppDep, dapr: DaprDep) -> Response:
    """Stores the jobs of an `export` with their counters, all or none, so that repeats go on where they were. 409 when
    one exists, unless `overwrite` is true.
    """
    fields = Fields(body)
    overwrite = fields.optional_boolean("overwrite") or False
    content = fields.object("export")
    jobs = export_from_json({name: content.optional(name) for name in ("version", "jobs")})
    fields.done()
    await dapr.restore(app, jobs, overwrite=overwrite)
    return rendered({"imported": len(jobs)})


@router.get("/jobs/{name:path}", summary="Show a job")
async def show(name: str, app: AppDep, dapr: DaprDep, tasks: TasksDep) -> Response:
    """A job with its task and the latest ends of its ticks, newest first."""
    found = await dapr.get(app, name)
    ends = await tasks.ends(found.task.task, limit=_ENDS)
    shown: dict[str, Any] = {
        **job_view(found),
        "task": task_view(await tasks.get(found.task.task)),
        "history": [task_view(each) for each in ends],
    }
    return rendered(shown)


@router.post("/jobs/{name:path}", summary="Schedule a job")
async def schedule(name: str, body: BodyBytes, app: AppDep, dapr: DaprDep) -> Response:
    """The body is that of Dapr's `POST /v1.0/jobs/{name}`. 409 when the job exists, unless `overwrite` is true."""
    job, overwrite = job_from_json(name, body)
    await dapr.schedule(app, job, overwrite=overwrite)
    return rendered(job_view(await dapr.get(app, name)), status=HTTPStatus.CREATED)


@router.delete("/jobs/{name:path}", summary="Delete a job")
async def delete(name: str, app: AppDep, dapr: DaprDep) -> Response:
    """Ends a job in any state; 404 without one."""
    if not await dapr.delete(app, name):
        raise NotFoundError("job", name)
    return Response(status_code=HTTPStatus.NO_CONTENT)
