"""Finding anything by a part of its name: schedules and programs, and jobs and runs by their id."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from starlette.responses import Response

from streamsched.api.routing.rules import VIEW_LIST
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.domain.names import DEFAULT_NAMESPACE
from streamsched.web.navigation import PLACES
from streamsched.web.rendering import Renderer
from streamsched.web.views.names import app_graph_href, dataset_href, job_href, run_href, schedule_href
from streamsched.web.visit import PageRoute, Visit

_MOST: Final = 20
_LONGEST: Final = 1000
#: Least number of dots in the id of a job without its namespace.
_DOTS: Final = 2


class FoundThing(NamedTuple):
    """A line of the result."""

    kind: str
    name: str
    href: str


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/find", VIEW_LIST, partial(show, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """At most `_MOST` lines: places of the navigation, the job or run of this id, then what has the text in its name:
    schedules, datasets and graphs.
    """
    text = visit.query("q")[:_LONGEST]
    found = [*_places(visit, text), *await _by_id(visit, text), *await _schedules(visit, text)] if text else []
    if text and len(found) < _MOST:
        links = await visit.api.datasets.links.links(visit.caller)
        names = [each for each in links.sources("dataset", visit.namespace) if text.casefold() in each.casefold()]
        found += [FoundThing("dataset", each, dataset_href(each)) for each in names[: _MOST - len(found)]]
    if text and len(found) < _MOST:
        apps = await visit.graphs(text=text, limit=_MOST - len(found))
        found += [FoundThing("graph", str(app), app_graph_href(app)) for app in apps]
    return renderer.page(visit, "find.html", text=text, found=found, more=len(found) >= _MOST)


def _places(visit: Visit, text: str) -> list[FoundThing]:
    """The places of the navigation whose label begins with the text."""
    return [
        FoundThing("page", place.label, place.href)
        for place in PLACES
        if visit.opens(place.href) and place.label.casefold().startswith(text.casefold())
    ]


async def _schedules(visit: Visit, text: str) -> list[FoundThing]:
    ids = await visit.services.reads.search(namespace=visit.namespace, text=text, states=(), after="", limit=_MOST)
    return [FoundThing("schedule", each, schedule_href(each)) for each in ids]


async def _by_id(visit: Visit, text: str) -> list[FoundThing]:
    """The job and the run with this id, with or without the default namespace."""
    if text.count(".") < _DOTS:
        return []
    for name in (text, f"{DEFAULT_NAMESPACE}.{text}"):
        if visit.namespace is not None and not name.startswith(f"{visit.namespace}."):
            continue
        for kind, read, href in (
            ("run", visit.api.work.runs.get, run_href),
            ("job", visit.api.work.jobs.get, job_href),
        ):
            try:
                await read(name)
            except (NotFoundError, InvalidError):
                continue
            return [FoundThing(kind, name, href(name))]
    return []
