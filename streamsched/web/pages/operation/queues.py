"""Queues of tasks, and one queue: its tasks, its lanes, and why one waits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from streamsched.api.routes.tasks.views import queue_view
from streamsched.api.routing.rules import OPERATE_ALL, VIEW_ALL
from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import NotFoundError
from streamsched.web.pages.schedule_actions import reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import queue_href
from streamsched.web.views.paging import page_links
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
_LONGEST_LANE: Final = 1000


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/queues", VIEW_ALL, partial(show, renderer))
    yield PageRoute("GET", "/ui/queues/{queue}", VIEW_ALL, partial(show_one, renderer))
    yield PageRoute("POST", "/ui/queues/{queue}/{order}", OPERATE_ALL, order)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """By name, in pages."""
    after = visit.query("after")
    found = await visit.api.tasks.queues.page(after=after, limit=ROWS + 1)
    last = found[ROWS - 1].queue.name if len(found) > ROWS else ""
    return renderer.page(
        visit,
        "queues.html",
        queues=[(each, queue_view(each)) for each in found[:ROWS]],
        links=page_links(visit.path, [], after=after, following=last),
        same=SameAs(command_line("queue", "list")),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """The tasks that are due next, of one lane when it is named; or those that have ended (`ended=yes`), in pages."""
    name, lane, after = visit.param("queue"), visit.query("lane")[:_LONGEST_LANE], visit.query("after")
    record = await visit.api.tasks.queues.get(name)
    ended = visit.query("ended") == "yes"
    at = read_moment_cursor(after)
    tasks = (
        await visit.api.tasks.registry.ended_tasks(name, after=at, limit=ROWS + 1)
        if ended
        else await visit.api.tasks.registry.live_tasks(name, lane=lane or None, after=at, limit=ROWS + 1)
    )
    last = tasks[ROWS - 1] if len(tasks) > ROWS else None
    moment = None if last is None else last.ended_at if ended else last.due_at
    kept = [("lane", lane), ("ended", "yes" if ended else "")]
    return renderer.page(
        visit,
        "queue.html",
        record=record,
        view=queue_view(record),
        tasks=tasks[:ROWS],
        lane=lane,
        lane_record=await visit.api.tasks.registry.lane(name, lane, now=visit.now) if lane else None,
        ended=ended,
        links=page_links(
            visit.path,
            kept,
            after=after,
            following="" if last is None or moment is None else moment_cursor(moment, last.id),
        ),
        may_operate=visit.may(Permission.OPERATE, None),
        same={
            each: SameAs(command_line("queue", each, name), curl_line(visit.url, f"/v1/queues/{name}/{each}"))
            for each in ("pause", "resume")
        },
    )


async def order(visit: Visit) -> Response:
    """Pauses or resumes a queue."""
    name, wanted = visit.param("queue"), visit.param("order")
    if wanted not in {"pause", "resume"}:
        raise NotFoundError("order", wanted)
    await visit.api.tasks.queues.pause(
        name, wanted == "pause", reason_text(visit, visit.form.get("note", "")), now=visit.now
    )
    return RedirectResponse(queue_href(name), HTTPStatus.SEE_OTHER)
