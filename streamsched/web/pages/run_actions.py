"""The actions of one run: kill, rerun."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from starlette.responses import RedirectResponse, Response

from streamsched.api.routing.rules import OPERATE
from streamsched.domain.errors import ConflictError
from streamsched.domain.schedules.submission_request import RerunRequest
from streamsched.ports.runs import StopRequest
from streamsched.web.pages.schedule_actions import arguments_of, reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import job_href, run_href
from streamsched.web.visit import PageRoute, Visit


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    del renderer
    yield PageRoute("POST", "/ui/runs/{run}/kill", OPERATE, kill)
    yield PageRoute("POST", "/ui/runs/{run}/rerun", OPERATE, rerun)


async def kill(visit: Visit) -> Response:
    """Requests the end of a run, at once or with time to clean up; the page says so before the run has ended."""
    run = visit.param("run")
    stop = StopRequest(reason_text(visit, visit.form.get("note", "")), at_once=visit.form.get("at_once") == "yes")
    await visit.api.work.runs.stop(run, stop, now=visit.now)
    return RedirectResponse(f"{run_href(run)}?done=killed", HTTPStatus.SEE_OTHER)


async def rerun(visit: Visit) -> Response:
    """Makes a job with the events of the run's job. A repeated request finds the first one."""
    run = visit.param("run")
    found = await visit.api.work.runs.get(run)
    if found.job is None:
        raise ConflictError(f"run '{run}' has no job, so it has no events to repeat; start program '{found.program}'")
    request = RerunRequest(
        found.job,
        run,
        None,
        arguments_of(visit.form.get("arguments", "")),
        reason_text(visit, visit.form.get("note", "")),
        visit.form.get("mute") == "yes",
    )
    made = await visit.api.work.submissions.rerun(request, now=visit.now)
    return RedirectResponse(f"{job_href(made.job)}?done=rerun", HTTPStatus.SEE_OTHER)
