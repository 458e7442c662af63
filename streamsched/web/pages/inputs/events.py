"""The newest events with their verdicts, and a form that emits one."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from starlette.responses import RedirectResponse, Response

from streamsched.api.reads.logged_events import LoggedEvent, newest_events
from streamsched.api.routing.rules import EMIT_ASKED, VIEW_ALL
from streamsched.codec import event as event_codec
from streamsched.codec.events import native
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import ForbiddenError, InvalidError
from streamsched.domain.events.event import ProgramReached
from streamsched.domain.signals.finding import KNOWN_BY
from streamsched.log.topics import EVENTS, PARTITIONS, PROGRAM_STATUS, PUBLIC, STREAM_SIZES
from streamsched.web.pages.schedule_actions import arguments_of
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.facts import FactWords, fact_words, verdict_words
from streamsched.web.views.names import event_href
from streamsched.web.views.paging import address
from streamsched.web.views.states import StateWord
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
#: Records of each partition that are searched: at first, and after each request to search further back.
DEPTHS: Final = (100, 1000, 10_000)
_LONGEST_SEARCH: Final = 200
_KINDS: Final = {
    PARTITIONS: "partitions",
    STREAM_SIZES: "streams",
    PROGRAM_STATUS: "programs",
    EVENTS: "custom events",
}


class EventRow(NamedTuple):
    """A line of the list."""

    event: LoggedEvent
    words: FactWords | None
    verdicts: list[StateWord]
    href: str


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/events", VIEW_ALL, partial(show, renderer))
    yield PageRoute("POST", "/ui/events", EMIT_ASKED, emit)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The newest of the chosen topics with the verdicts on them, as far back as the reader asks for."""
    text = visit.query("q")[:_LONGEST_SEARCH]
    topics = [each for each in visit.request.query_params.getlist("state") if each in PUBLIC]
    depth = depth_of(visit)
    tail = await newest_events(visit.api.events.search, topics or PUBLIC, depth=depth, text=text, limit=ROWS)
    found = await visit.api.work.activity.verdicts([each.id for each in tail.events])
    verdicts = verdict_words(found)
    kept = [("q", text), *(("state", topic) for topic in topics)]
    deeper = next((each for each in DEPTHS if each > depth), None)
    return renderer.page(
        visit,
        "events.html",
        rows=[_row(event, verdicts) for event in tail.events],
        tail=tail,
        text=text,
        topics=topics,
        choices=list(_KINDS.items()),
        further=None if deeper is None or tail.whole else address(visit.path, [*kept, ("depth", str(deeper))]),
        clear=visit.path if text or topics else "",
        may_emit=visit.may(Permission.EMIT, None),
        emitted=visit.query("emitted"),
        same=SameAs(
            command_line("event", "emit", "partitions", "DATASET", "day=2013-01-01"),
            curl_line(
                visit.url,
                "/v1/events",
                {"type": "partitions.added", "data": {"dataset": "DATASET", "partitions": ["day=2013-01-01"]}},
            ),
        ),
    )


async def emit(visit: Visit) -> Response:
    """Emits one event. The form has its id, so that sending it twice emits one."""
    form = visit.form
    value: dict[str, Any] = {
        "id": form.get("id") or f"page-{secrets.token_hex(8)}",
        "source": f"/ui/{visit.caller.name}",
        "time": visit.now,
        **_content(form.get("kind", ""), form.get("name", "").strip(), form.get("content", "")),
    }
    body = native.dumps(value)
    event = event_codec.decode(body, fallback_id=value["id"], fallback_time=visit.now)
    taken = await visit.api.intake.take(visit.caller, [event], body=len(body), dialect="page")
    if taken.denied:
        raise ForbiddenError(taken.denied[0].reason)
    return RedirectResponse(f"/ui/events?emitted={event_href(event.id)[len('/ui/event?id=') :]}", HTTPStatus.SEE_OTHER)


def depth_of(visit: Visit) -> int:
    """The depth that the query asks for; the least one when it is none of the known."""
    given = visit.query("depth")
    return int(given) if given in {str(each) for each in DEPTHS} else DEPTHS[0]


def _content(kind: str, name: str, text: str) -> dict[str, Any]:
    """Type and data of an event from the fields of the form.

    Raises:
        InvalidError: the kind is unknown, or a line is not of the form NAME=VALUE.
    """
    match kind:
        case "partitions":
            keys = [line.strip() for line in text.splitlines() if line.strip()]
            return {"type": native.PARTITIONS_ADDED, "data": {"dataset": name, "partitions": keys}}
        case "event":
            return {"type": native.CUSTOM, "data": {"name": name, "attributes": arguments_of(text)}}
        case _:
            raise InvalidError("$.kind", "must be partitions or event")


def _row(event: LoggedEvent, verdicts: dict[tuple[str, str], list[StateWord]]) -> EventRow:
    known = (event.id[:KNOWN_BY], event.source[:KNOWN_BY])
    words = verdicts.get(known, [])
    if isinstance(event.fact, ProgramReached):  # most programs start nothing: that is no reason to look
        words = [word._replace(tone="off") if word.tone == "wait" else word for word in words]
    return EventRow(
        event,
        None if event.fact is None else fact_words(event.fact),
        words,
        event_href(event.id, event.source, event.position),
    )
