"""Expectations, and one of them: whether what must be there is there, and what was missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from starlette.responses import Response

from streamsched.api.routing.rules import VIEW, VIEW_LIST
from streamsched.domain.names import ExpectationRef
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line
from streamsched.web.views.names import short_name
from streamsched.web.views.paging import page_links
from streamsched.web.visit import PageRoute, Visit

#: Rows of the list, and misses of one expectation.
ROWS: Final = 50
_MISSES: Final = 50


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/expectations", VIEW_LIST, partial(show, renderer))
    yield PageRoute("GET", "/ui/expectations/{expectation}", VIEW, partial(show_one, renderer))


async def show(renderer: Renderer, visit: Visit) -> Response:
    """By name, in pages; `missing`: only those whose subject is missing now."""
    missing, after = visit.query("missing") == "yes", visit.query("after")
    found = await visit.api.schedules.expectations.page(
        namespace=visit.namespace, missing=missing, after=after, limit=ROWS + 1
    )
    following = str(found[ROWS - 1].expectation.ref) if len(found) > ROWS else ""
    kept = [("namespace", visit.namespace or ""), ("missing", "yes" if missing else "")]
    options = [*(["--namespace", visit.namespace] if visit.namespace else []), *(["--missing"] if missing else [])]
    return renderer.page(
        visit,
        "expectations.html",
        expectations=found[:ROWS],
        missing=missing,
        links=page_links(visit.path, kept, after=after, following=following),
        same=SameAs(command_line("expectation", "list", *options)),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """Its state, what was missing before, and when it usually comes."""
    ref = ExpectationRef.parse(visit.param("expectation"))
    record = await visit.api.schedules.expectations.get(ref)
    return renderer.page(
        visit,
        "expectation.html",
        record=record,
        misses=await visit.api.schedules.expectations.misses(ref, limit=_MISSES),
        usual=record.usual,
        same=SameAs(command_line("expectation", "show", short_name(ref))),
    )
