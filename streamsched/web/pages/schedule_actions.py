"""The actions of schedules: pause, resume, run now, start over; the first three also for several at once."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.responses import RedirectResponse, Response

from streamsched.api.access.authorise import require
from streamsched.api.routing.rules import OPERATE, OPERATE_ASKED
from streamsched.codec.schedules import pause as pause_codec
from streamsched.domain.access.permission import Permission
from streamsched.domain.access.references import schedule_references
from streamsched.domain.errors import InvalidError, NotFoundError, StreamschedError
from streamsched.domain.names import ScheduleRef
from streamsched.domain.schedules.submission_request import SubmissionRequest
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import job_href, schedule_href, short_name
from streamsched.web.visit import PageRoute, Visit

_SCHEDULE = "/ui/schedules/{schedule}"
#: Prefix of the fields of a form that are columns of a key.
_COLUMN = "key."
#: Prefix of the fields of the list's form that are schedules, and most of them.
_PICK = "pick."
MOST_PICKED = 200


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    del renderer
    yield PageRoute("POST", f"{_SCHEDULE}/pause", OPERATE, pause)
    yield PageRoute("POST", f"{_SCHEDULE}/resume", OPERATE, resume)
    yield PageRoute("POST", f"{_SCHEDULE}/run", OPERATE, run)
    yield PageRoute("POST", f"{_SCHEDULE}/reset", OPERATE, reset)
    yield PageRoute("POST", "/ui/schedules", OPERATE_ASKED, bulk)


async def pause(visit: Visit) -> Response:
    """`mode`, `until` and `note` as in the API. A paused schedule with an equal pause is refused."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    body: dict[str, Any] = {name: visit.form[name] for name in ("mode", "until", "note") if visit.form.get(name)}
    requested = pause_codec.from_json(body, now=visit.now)
    await visit.api.catalog.pause(ref, requested, reason=reason_text(visit, visit.form.get("note", ""))).apply()
    return RedirectResponse(f"{schedule_href(ref)}?done=paused", HTTPStatus.SEE_OTHER)


async def resume(visit: Visit) -> Response:
    """Enables a schedule, paused or disabled; an enabled one is refused."""
    ref = ScheduleRef.parse(visit.param("schedule"))
    await visit.api.catalog.enable(ref, reason=reason_text(visit, visit.form.get("note", ""))).apply()
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
        reason_text(visit, visit.form.get("note", "")),
    )
    made = await visit.api.work.submissions.submit(request, now=visit.now)
    return RedirectResponse(f"{job_href(made.job)}?done=submitted", HTTPStatus.SEE_OTHER)


async def reset(visit: Visit) -> Response:
    """Drops what the schedule has accumulated and ends its waiting jobs: disables it and enables it again. Events that
    come in between do not count.
    """
    ref = ScheduleRef.parse(visit.param("schedule"))
    reason = reason_text(visit, visit.form.get("note", "") or "starts over")
    definition = (await visit.api.catalog.reader.schedule(ref)).record.definition
    # before anything is dropped: what another namespace has refused cannot be enabled
    await visit.api.access.references.check(visit.caller, ref.namespace, schedule_references(definition))
    await visit.api.catalog.disable(ref, reason=reason).apply()
    await visit.api.catalog.enable(ref, reason=reason).apply()
    return RedirectResponse(f"{schedule_href(ref)}?done=reset", HTTPStatus.SEE_OTHER)


async def bulk(visit: Visit) -> Response:
    """Pauses, resumes or runs the picked schedules. Those that cannot be are counted; the others are not held up."""
    refs = [ScheduleRef.parse(name.removeprefix(_PICK)) for name in visit.form if name.startswith(_PICK)]
    order, note = visit.form.get("order", ""), reason_text(visit, visit.form.get("note", ""))
    if order not in {"pause", "resume", "run"}:
        raise NotFoundError("order", order)
    if not 0 < len(refs) <= MOST_PICKED:
        raise InvalidError("$", f"pick 1 to {MOST_PICKED} schedules; {len(refs)} are picked")
    for ref in refs:
        require(visit.caller.may(Permission.OPERATE, ref.namespace))
    failed: list[str] = []
    for ref in refs:
        try:
            await _carry_out(visit, order, ref, note)
        except StreamschedError as error:
            failed.append(f"{short_name(ref)}: {error}")
    outcome = {"done": order, "count": str(len(refs) - len(failed)), "failed": "; ".join(failed)[:500]}
    given = [(name, value) for name, value in outcome.items() if value]
    kept = [pair for pair in parse_qsl(visit.request.url.query) if pair[0] in {"q", "state", "namespace", "after"}]
    return RedirectResponse(f"/ui/schedules?{urlencode([*kept, *given])}", HTTPStatus.SEE_OTHER)


async def _carry_out(visit: Visit, order: str, ref: ScheduleRef, note: str) -> None:
    if order == "pause":
        await visit.api.catalog.pause(ref, pause_codec.from_json({"mode": "keep"}, now=visit.now), reason=note).apply()
    elif order == "resume":
        await visit.api.catalog.enable(ref, reason=note).apply()
    else:
        token = f"{visit.form.get('token', '')[:100] or f'page-{visit.now:%Y%m%d%H%M%S%f}'}"
        await visit.api.work.submissions.submit(SubmissionRequest(ref, token, {}, {}, note), now=visit.now)


def reason_text(visit: Visit, note: str) -> str:
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
