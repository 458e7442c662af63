"""The actions of one schedule: pause, resume, run now."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from starlette.responses import RedirectResponse, Response

from streamsched.codec.schedules import pause as pause_codec
from streamsched.domain.errors import InvalidError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import job_href, schedule_href
from streamsched.web.visit import PageRoute, Visit

_SCHEDULE = "/ui/schedules/{schedule}"
#: Prefix of the fields of a form that are columns of a key.
_COLUMN = "key."


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    del renderer
    yield PageRoute("POST", f"{_SCHEDULE}/pause", pause)
    yield PageRoute("POST", f"{_SCHEDULE}/resume", resume)
    yield PageRoute("POST", f"{_SCHEDULE}/run", run)


async def pause(visit: Visit) -> Response:
    ref = ScheduleRef.parse(visit.param("schedule"))
    body: dict[str, Any] = {name: visit.form[name] for name in ("mode", "until", "note") if visit.form.get(name)}
    requested = pause_codec.from_json(body, now=visit.now)
    await visit.api.catalog.pause(ref, requested, reason=by(visit, visit.form.get("note", "")))
    return RedirectResponse(f"{schedule_href(ref)}?done=paused", HTTPStatus.SEE_OTHER)


async def resume(visit: Visit) -> Response:
    ref = ScheduleRef.parse(visit.param("schedule"))
    await visit.api.catalog.enable(ref, reason=by(visit, visit.form.get("note", "")))
    return RedirectResponse(f"{schedule_href(ref)}?done=resumed", HTTPStatus.SEE_OTHER)


async def run(visit: Visit) -> Response:
    """Makes a job. The form has a token, so that sending it twice makes one."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    columns = {name.removeprefix(_COLUMN): value for name, value in visit.form.items() if name.startswith(_COLUMN)}
    request = SubmissionRequest(
        ref,
        visit.form.get("token") or f"page-{visit.now:%Y%m%d%H%M%S%f}",
        arguments_of(visit.form.get("arguments", "")),
        columns,
        by(visit, visit.form.get("note", "")),
    )
    made = await visit.api.submissions.submit(request, now=visit.now)
    return RedirectResponse(f"{job_href(made.job)}?done=submitted", HTTPStatus.SEE_OTHER)


def by(visit: Visit, note: str) -> str:
    """Who does it and why, for the history."""
    return f"{visit.caller.name} on the page: {note}" if note else f"{visit.caller.name} on the page"


def arguments_of(text: str) -> dict[str, str]:
    """Arguments written as `NAME=VALUE`, one in a line.

    Raises:
        InvalidError: a line has no `=`.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        name, equals, value = line.partition("=")
        if not equals:
            raise InvalidError("$.arguments", f"the line '{line[:100]}' is not of the form NAME=VALUE")
        found[name.strip()] = value.strip()
    return found
