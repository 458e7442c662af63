"""The orders for a waiting job: start anyway, hold, release, end."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from streamsched.api.routing.rules import OPERATE
from streamsched.domain.errors import NotFoundError
from streamsched.domain.jobs.job import JobCommand
from streamsched.web.pages.schedule_actions import reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import job_href
from streamsched.web.visit import PageRoute, Visit

_RELEASE: Final = "release"


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    del renderer
    yield PageRoute("POST", "/ui/jobs/{job}/{order}", OPERATE, command)


async def command(visit: Visit) -> Response:
    """Gives the order of the path.

    Raises:
        NotFoundError: there is no such order, or no such job.
        ConflictError: the job does not wait for constraints.
    """
    job, order = visit.param("job"), visit.param("order")
    if order != _RELEASE and order not in set(JobCommand):
        raise NotFoundError("order", order)
    wanted = None if order == _RELEASE else JobCommand(order)
    await visit.api.work.jobs.command(job, wanted, reason_text(visit, visit.form.get("note", "")), now=visit.now)
    return RedirectResponse(f"{job_href(job)}?done={order}", HTTPStatus.SEE_OTHER)
