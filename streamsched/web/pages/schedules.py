"""The list of schedules: found by a part of the name, by state and by namespace; a page at a time."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.responses import Response

from streamsched.api.routing.rules import VIEW_LIST
from streamsched.domain.access.permission import Permission
from streamsched.domain.jobs.job import JobState
from streamsched.domain.jobs.run import RunState
from streamsched.domain.names import ScheduleRef
from streamsched.domain.triggers.trigger import Leaf, leaves
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.store.web.page_reads import StripEntry
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, curl_line
from streamsched.web.views.states import SCHEDULE_WORDS, StateWord, job_word
from streamsched.web.views.strips import BARS, StripBar, strip
from streamsched.web.views.trigger_tree import all_leaves, tree_of
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
_LONGEST_SEARCH: Final = 200
_LONGEST_NOTE: Final = 500
#: The commands that do what the orders for picked schedules do, and the paths of the requests.
_ORDERS: Final = (
    ("streamsched schedule pause SCHEDULE … --note WHY", "pause"),
    ("streamsched schedule enable SCHEDULE …", "enable"),
    ("streamsched run start --schedule SCHEDULE", "runs"),
)


class ScheduleRow(NamedTuple):
    """A line of the list."""

    status: ScheduleStatus
    state: StateWord
    progress: str
    strip: Markup


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/schedules", VIEW_LIST, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """By id, in pages, each with its progress and a bar for each of its last jobs. The form of the list gives orders to
    those that are picked.
    """
    text = visit.query("q")[:_LONGEST_SEARCH]
    states = [state for state in visit.request.query_params.getlist("state") if state in SCHEDULE_WORDS]
    reads = visit.services.reads
    ids = await reads.search(
        namespace=visit.namespace, text=text, states=states, after=visit.query("after"), limit=ROWS + 1
    )
    shown, more = ids[:ROWS], len(ids) > ROWS
    statuses = await visit.api.catalog.reader.find_schedules([ScheduleRef.parse(each) for each in shown])
    strips = await reads.strips(shown, limit=BARS)
    kept = [("q", text), *(("state", state) for state in states), ("namespace", visit.namespace or "")]
    kept = [(name, value) for name, value in kept if value]
    return renderer.page(
        visit,
        "schedules.html",
        rows=[_row(status, strips.get(str(status.record.definition.ref), ())) for status in statuses],
        text=text,
        states=states,
        counts=await reads.counts(namespace=visit.namespace, now=visit.now),
        done=_done_text(visit),
        failed=visit.query("failed")[:_LONGEST_NOTE],
        action=visit.path + (f"?{visit.request.url.query}" if visit.request.url.query else ""),
        token=f"page-{secrets.token_hex(8)}",
        may_operate=visit.may(Permission.OPERATE, visit.namespace),
        orders=[SameAs(cli, curl_line(visit.url, f"/v1/schedules/SCHEDULE/{path}")) for cli, path in _ORDERS],
        filtered=bool(text or states),
        next_page=f"/ui/schedules?{urlencode([*kept, ('after', shown[-1])])}" if more else "",
        first_page=f"/ui/schedules?{urlencode(kept)}" if visit.query("after") else "",
    )


def _done_text(visit: Visit) -> str:
    """What the orders for several schedules did."""
    words = {"pause": "paused", "resume": "enabled again", "run": "given a job"}.get(visit.query("done"), "")
    count = visit.query("count") if visit.query("count").isdecimal() else "0"
    return f"{count[:4]} {'schedule was' if count == '1' else 'schedules were'} {words}." if words else ""


def strip_bars(entries: Sequence[StripEntry]) -> list[StripBar]:
    """Bars of stored jobs. A run that has not ended has no duration yet."""
    return [
        StripBar(
            each.job,
            job_word(JobState(each.job_state), RunState(each.run_state) if each.run_state else None),
            each.ended_at - each.started_at if each.started_at and each.ended_at else None,
        )
        for each in entries
    ]


def _row(status: ScheduleStatus, entries: Sequence[StripEntry]) -> ScheduleRow:
    state = SCHEDULE_WORDS["error" if status.halt is not None else status.record.status]
    if status.waiting_jobs and state.word == "enabled":
        jobs = "1 job waits" if status.waiting_jobs == 1 else f"{status.waiting_jobs} jobs wait"
        state = StateWord("wait", jobs)
    return ScheduleRow(status, state, _progress(status), strip(strip_bars(entries)))


def _source(leaf: Leaf) -> str:
    """The name of what a leaf counts."""
    for name in ("dataset", "stream", "event", "program"):
        ref = getattr(leaf, name, None)
        if ref is not None:
            return str(getattr(ref, "name", ref))
    return ""


def _progress(status: ScheduleStatus) -> str:
    """`5 of 7 flights, 7 of 7 weather`: of the leaves that count to more than one; first of all removed programs."""
    if status.removed:
        return "; ".join(map(str, status.removed))
    if status.open_keys:
        return "1 key open" if status.open_keys == 1 else f"{status.open_keys:,} keys open"
    if status.progress is None:
        return ""
    trigger = status.record.definition.trigger
    shown, known = all_leaves(tree_of(trigger, status.progress)), list(leaves(trigger))
    names = [_source(leaf) for leaf in known] if len(known) == len(shown) else [""] * len(shown)
    counted = [f"{leaf.count_text} {name}".rstrip() for leaf, name in zip(shown, names, strict=True) if leaf.need > 1]
    return ", ".join(counted[:3]) + (" …" if len(counted) > 3 else "")
