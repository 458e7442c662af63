"""Datasets that schedules wait for, and one of them: what came, what is missing, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from starlette.responses import Response

from streamsched.api.dataset_view import DEEPEST, DEPTH, dataset_view
from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.domain.names import DatasetRef
from streamsched.store.catalog.records import ScheduleStatus
from streamsched.web.rendering import Renderer
from streamsched.web.views.calendar import calendar
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import short_name
from streamsched.web.views.paging import address, page_links
from streamsched.web.views.partitions import missing_words, partition_days, partition_row
from streamsched.web.views.states import SCHEDULE_WORDS, StateWord
from streamsched.web.views.trigger_tree import all_leaves, tree_of
from streamsched.web.visit import PageRoute, Visit

#: Rows of the list, and of the partitions of one dataset.
ROWS: Final = 50
_SHOWN: Final = 100
#: Records of its home that are searched: at first, and after each request to search further back.
_DEPTHS: Final = (DEPTH, 20_000, DEEPEST)
_LONGEST_SEARCH: Final = 200


class Listener(NamedTuple):
    """A schedule that waits for the dataset. `progress`: of its leaves on it."""

    schedule: str
    state: StateWord
    progress: str
    waits: bool


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/datasets", VIEW_LIST, partial(show, renderer))
    yield PageRoute("GET", "/ui/datasets/{name}", VIEW, partial(show_one, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The datasets that schedules wait for, by name, with the schedules."""
    text, after = visit.query("q")[:_LONGEST_SEARCH], visit.query("after")
    links = await visit.api.datasets.links.links(visit.caller)
    found = [
        name
        for name in links.sources("dataset", visit.namespace)
        if name > after and text.casefold() in name.casefold()
    ]
    shown = found[:ROWS]
    kept = [("q", text), ("namespace", visit.namespace or "")]
    return renderer.page(
        visit,
        "datasets.html",
        rows=[
            (name, links.listeners.get(("dataset", name), ()), links.others.get(("dataset", name), 0)) for name in shown
        ],
        total=len(found),
        text=text,
        whole=links.whole,
        links=page_links(visit.path, kept, after=after, following=shown[-1] if len(found) > ROWS else ""),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """What came, by day and partition, which days are missing, and what waits for it. Commits are searched in the
    newest `depth` records only, as deep as the reader asks for.
    """
    ref = DatasetRef.parse(visit.param("name"))
    given = visit.query("depth")
    depth = int(given) if given in {str(each) for each in _DEPTHS} else _DEPTHS[0]
    view = await dataset_view(visit.api, visit.caller, ref, depth=depth)
    rows = [partition_row(each) for each in view.commits]
    days = partition_days(rows)
    deeper = next((each for each in _DEPTHS if each > depth), None)
    return renderer.page(
        visit,
        "dataset.html",
        view=view,
        ref=ref,
        rows=rows[:_SHOWN],
        days=days,
        missing=missing_words(days.missing) if days else "",
        incomplete=[(each.schedule, key) for each in view.roll_ups for key in each.keys if not key.whole],
        calendar=None
        if days is None
        else calendar(
            days.days,
            label=f"Days from {days.first} to {days.last}: "
            f"{len(days.days) - len(days.missing)} came, {len(days.missing)} are missing",
        ),
        listeners=[_listener(status, ref) for status in view.schedules],
        expectations=[each.record for each in view.expectations],
        further=None if deeper is None or view.whole else address(visit.path, [("depth", str(deeper))]),
        same=SameAs(
            command_line("dataset", "show", short_name(ref)),
            curl_line(visit.url, f"/v1/datasets/{ref.namespace}/{ref.name}", method="GET"),
        ),
        emit=command_line("event", "emit", "partitions", short_name(ref), "date=2013-01-01"),
    )


def _listener(status: ScheduleStatus, ref: DatasetRef) -> Listener:
    state = SCHEDULE_WORDS[status.state]
    if status.open_keys:
        return Listener(str(status.record.definition.ref), state, f"{status.open_keys:,} keys open", waits=True)
    leaves = [leaf for leaf in all_leaves(tree_of(status.record.definition.trigger, status.progress)) if leaf.text]
    of = [leaf for leaf in leaves if _names_dataset(leaf.text, ref)]
    return Listener(
        str(status.record.definition.ref),
        state,
        ", ".join(leaf.count_text for leaf in of),
        waits=any(not leaf.holds for leaf in of),
    )


def _names_dataset(text: str, ref: DatasetRef) -> bool:
    """Whether the text of a leaf names the dataset."""
    words: Sequence[str] = text.replace(",", " ").split()
    return short_name(ref) in words or str(ref) in words
