"""Datasets that schedules wait for, and one of them: what came, what is missing, and what waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from starlette.responses import Response

from streamsched.api.open_keys import key_views
from streamsched.domain.expectations.expectation import SubjectKind
from streamsched.domain.names import DatasetRef, ScheduleRef
from streamsched.domain.signals.verdict import Verdict
from streamsched.domain.triggers.trigger import Partitions, correlated
from streamsched.ports.catalog import ScheduleStatus
from streamsched.web.reads.logged_events import events_of_key
from streamsched.web.rendering import Renderer
from streamsched.web.views.calendar import calendar
from streamsched.web.views.commands import SameAs, command_line
from streamsched.web.views.names import short
from streamsched.web.views.paging import address, page_links
from streamsched.web.views.partitions import missing_words, partition_days, partition_rows
from streamsched.web.views.states import SCHEDULE_WORDS, StateWord
from streamsched.web.views.trigger_tree import all_leaves, open_leaves, tree_of
from streamsched.web.visit import PageRoute, Visit

#: Rows of the list, and of the partitions of one dataset.
ROWS: Final = 50
_PARTITIONS: Final = 2000
_SHOWN: Final = 100
_LISTENERS: Final = 20
_SOURCES: Final = 5
#: Records of its home that are searched: at first, and after each request to search further back.
_DEPTHS: Final = (2000, 20_000, 100_000)
_LONGEST_SEARCH: Final = 200
#: Open keys of a schedule that are read, and those that are named.
_KEYS: Final = 200
_INCOMPLETE: Final = 5
#: Events whose verdicts are read.
_JUDGED: Final = 500


class Listener(NamedTuple):
    """A schedule that waits for the dataset. `progress`: of its leaves on it."""

    schedule: str
    state: StateWord
    progress: str
    waits: bool


class IncompleteKey(NamedTuple):
    """An open key of a roll-up of the dataset. `missing`: its periods that have not come, as text."""

    schedule: str
    key: str
    counted: str
    missing: str


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/datasets", partial(show, renderer))
    yield PageRoute("GET", "/ui/datasets/{name}", partial(show_one, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    text, after = visit.query("q")[:_LONGEST_SEARCH], visit.query("after")
    links = await visit.services.links.links(visit.caller)
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
    ref = DatasetRef.parse(visit.param("name"))
    given = visit.query("depth")
    depth = int(given) if given in {str(each) for each in _DEPTHS} else _DEPTHS[0]
    tail = await events_of_key(visit.api.broker, f"partition:{ref}", depth=depth, limit=_PARTITIONS)
    judged = await visit.services.activity.verdicts([each.id for each in tail.events[:_JUDGED]])
    late = {each.event for each in judged if each.verdict is Verdict.LATE}
    rows = partition_rows(tail.events, late, limit=_PARTITIONS)
    days = partition_days(rows)
    links = await visit.services.links.links(visit.caller)
    names = links.listeners.get(("dataset", str(ref)), ())
    statuses = await visit.api.catalog.some([ScheduleRef.parse(each) for each in names[:_LISTENERS]])
    rolling = [each for each in statuses if _rolls_up(each, ref)]
    incomplete = [each for status in rolling for each in await _incomplete(visit, status, ref)]
    deeper = next((each for each in _DEPTHS if each > depth), None)
    return renderer.page(
        visit,
        "dataset.html",
        ref=ref,
        rows=rows[:_SHOWN],
        count=len(rows),
        last=tail.events[0] if tail.events else None,
        days=days,
        missing=missing_words(days.missing) if days else "",
        expected=bool(rolling),
        incomplete=incomplete,
        calendar=None
        if days is None
        else calendar(
            days.days,
            label=f"Days from {days.first} to {days.last}: "
            f"{len(days.days) - len(days.missing)} came, {len(days.missing)} are missing",
        ),
        sources=Counter(each.source for each in tail.events).most_common(_SOURCES),
        listeners=[_listener(status, ref) for status in statuses],
        more_listeners=max(0, len(names) - _LISTENERS),
        other_listeners=links.others.get(("dataset", str(ref)), 0),
        expectations=[
            each
            for each in await visit.api.expectations.about(SubjectKind.DATASET, str(ref), limit=_LISTENERS)
            if visit.caller.sees(each.expectation.ref.namespace)
        ],
        searched=tail.searched,
        whole=tail.whole,
        further=None if deeper is None or tail.whole else address(visit.path, [("depth", str(deeper))]),
        same=SameAs(command_line("event", "emit", "partitions", short(ref), "date=2013-01-01")),
    )


def _rolls_up(status: ScheduleStatus, ref: DatasetRef) -> bool:
    """Whether the schedule says what belongs to a period of the dataset."""
    return any(
        per is not None and per.rolled_up_to is not None and isinstance(leaf, Partitions) and leaf.dataset == ref
        for leaf, per in correlated(status.record.definition.trigger)
    )


async def _incomplete(visit: Visit, status: ScheduleStatus, ref: DatasetRef) -> list[IncompleteKey]:
    """The newest open keys of a schedule to which a part of the dataset has come and of which another is missing."""
    if not status.open_keys:
        return []
    record = status.record
    keys = await visit.api.keys.of(record.definition.ref, after="", limit=_KEYS)
    found: list[IncompleteKey] = []
    for view in await key_views(record, keys, visit.api.descendants, visit.caller.sees):
        for leaf in open_leaves(tree_of(record.definition.trigger, view["progress"])):
            if leaf.have and _about(leaf.text, ref):
                found.append(IncompleteKey(str(record.definition.ref), view["key"], leaf.counted, leaf.missing))
    return found[-_INCOMPLETE:]


def _listener(status: ScheduleStatus, ref: DatasetRef) -> Listener:
    state = SCHEDULE_WORDS["error" if status.halt is not None else status.record.status]
    if status.open_keys:
        return Listener(str(status.record.definition.ref), state, f"{status.open_keys:,} keys open", waits=True)
    leaves = [leaf for leaf in all_leaves(tree_of(status.record.definition.trigger, status.progress)) if leaf.text]
    of = [leaf for leaf in leaves if _about(leaf.text, ref)]
    return Listener(
        str(status.record.definition.ref),
        state,
        ", ".join(leaf.counted for leaf in of),
        waits=any(not leaf.holds for leaf in of),
    )


def _about(text: str, ref: DatasetRef) -> bool:
    """Whether the text of a leaf names the dataset."""
    words: Sequence[str] = text.replace(",", " ").split()
    return short(ref) in words or str(ref) in words
