"""The list of jobs, newest first: of a schedule, in some states."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.api.routing.rules import VIEW_LIST
from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.domain.jobs.job import JobState
from streamsched.domain.names import ScheduleRef
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import read_name
from streamsched.web.views.paging import PageLinks, page_links
from streamsched.web.views.states import JOB_WORDS
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
_SHOWN: Final = tuple(state for state in JobState if state is not JobState.PENDING_TRIGGER)


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/jobs", VIEW_LIST, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """In pages. A text that is no name of a schedule is shown beside the field, with an empty list."""
    states = [JobState(each) for each in visit.request.query_params.getlist("state") if each in set(_SHOWN)]
    schedule, after = visit.query("schedule"), visit.query("after")
    named = read_name(schedule, ScheduleRef.parse, visit.namespace)
    before = read_moment_cursor(after)
    found = await named.apply(
        lambda ref: visit.api.work.jobs.list_recent(
            schedule=ref, namespace=visit.namespace, states=states, limit=ROWS + 1, before=before
        )
    )
    kept = [("schedule", schedule), *(("state", state.value) for state in states), ("namespace", visit.namespace or "")]
    last = found[ROWS - 1] if len(found) > ROWS else None
    links: PageLinks = page_links(
        visit.path, kept, after=after, following="" if last is None else moment_cursor(last.created_at, last.id)
    )
    return renderer.page(
        visit,
        "jobs.html",
        jobs=found[:ROWS],
        schedule=schedule,
        problem=named.problem,
        states=states,
        choices=[(state, JOB_WORDS[state].word) for state in _SHOWN],
        links=links,
    )
