"""The list of runs, newest first, each with a bar over time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.web.rendering import Renderer
from streamsched.web.views.paging import page_links
from streamsched.web.views.spans import frame_of, gantt_bar
from streamsched.web.views.states import RUN_WORDS
from streamsched.web.visit import PageRoute, Visit

#: Rows of a page.
ROWS: Final = 50


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/runs", partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    known = set(RunState)
    states = [RunState(each) for each in visit.request.query_params.getlist("state") if each in known]
    program, after = visit.query("program"), visit.query("after")
    found = await visit.api.runs.recent(
        program=ProgramRef.parse(program) if program else None,
        namespace=visit.namespace,
        states=states,
        limit=ROWS + 1,
        before=read_moment_cursor(after),
    )
    shown = found[:ROWS]
    kept = [("program", program), *(("state", state.value) for state in states), ("namespace", visit.namespace or "")]
    last = shown[-1] if len(found) > ROWS else None
    frame = frame_of(shown, visit.now)
    return renderer.page(
        visit,
        "runs.html",
        rows=[(run, gantt_bar(run, frame, visit.now)) for run in shown],
        frame=frame,
        program=program,
        states=states,
        choices=[(state, word.word) for state, word in RUN_WORDS.items()],
        links=page_links(
            visit.path, kept, after=after, following="" if last is None else moment_cursor(last.created_at, last.id)
        ),
    )
