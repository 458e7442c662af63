"""The list of runs, newest first, each with a bar over time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, timedelta
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.api.routing.rules import VIEW_LIST
from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ProgramRef
from streamsched.store.web.activity_reads import COUNTED_RUNS, RunDay
from streamsched.web.rendering import Renderer
from streamsched.web.views.calendar import CalendarDay, calendar
from streamsched.web.views.names import read_name
from streamsched.web.views.paging import address, page_links
from streamsched.web.views.spans import frame_of, gantt_bar
from streamsched.web.views.states import RUN_WORDS
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
#: Days of the calendar.
DAYS: Final = 91


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/runs", VIEW_LIST, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """In pages, each with a bar over the time of the page; or the last `DAYS` days as a calendar (`view=calendar`)."""
    known = set(RunState)
    states = [RunState(each) for each in visit.request.query_params.getlist("state") if each in known]
    program, after = visit.query("program"), visit.query("after")
    view = "calendar" if visit.query("view") == "calendar" else "list"
    named = read_name(program, ProgramRef.parse, visit.namespace)
    before = read_moment_cursor(after)
    found = await named.apply(
        lambda ref: visit.api.work.runs.list_recent(
            program=ref, namespace=visit.namespace, states=states, limit=ROWS + 1, before=before
        )
    )
    shown = found[:ROWS]
    kept = [("program", program), *(("state", state.value) for state in states), ("namespace", visit.namespace or "")]
    last = shown[-1] if len(found) > ROWS else None
    days = await _days(visit, str(named.ref or "")) if view == "calendar" else []
    frame = frame_of(shown, visit.now)
    return renderer.page(
        visit,
        "runs.html",
        rows=[(run, gantt_bar(run, frame, visit.now)) for run in shown],
        frame=frame,
        calendar=calendar(days, label=_label(days)) if view == "calendar" else "",
        view=view,
        views=[
            (each, address(visit.path, [*kept, ("view", each if each != "list" else "")]))
            for each in ("list", "calendar")
        ],
        program=program,
        app_graph=await visit.graph_of(named.ref),
        problem=named.problem,
        states=states,
        choices=[(state, word.word) for state, word in RUN_WORDS.items()],
        links=page_links(
            visit.path, kept, after=after, following="" if last is None else moment_cursor(last.created_at, last.id)
        ),
    )


async def _days(visit: Visit, program: str) -> list[CalendarDay]:
    """The runs of the last days."""
    last = visit.now.astimezone(UTC).date()
    wanted = [last - timedelta(days=number) for number in range(DAYS)]
    found = await visit.api.work.activity.run_days(program=program or None, namespace=visit.namespace, days=wanted)
    return [_day(each) for each in found]


def _day(each: RunDay) -> CalendarDay:
    """A day with its runs; its tone is that of the worst of them."""
    total = sum(each.states.values())
    if not total:
        return CalendarDay(each.day, "none", f"{each.day}: no run")
    listed = ", ".join(f"{number:,} {RUN_WORDS[state].word}" for state, number in sorted(each.states.items()))
    more = " or more" if total >= COUNTED_RUNS else ""
    tones = {RUN_WORDS[state].tone for state in each.states}
    tone = next((tone for tone in ("bad", "run", "wait") if tone in tones), "ok")
    return CalendarDay(each.day, tone, f"{each.day}: {listed}{more}", number=total)


def _label(days: list[CalendarDay]) -> str:
    return f"Runs of the last {len(days)} days: " + "; ".join(each.text for each in days if each.number)[:2000]
