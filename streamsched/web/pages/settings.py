"""What belongs to every page: the live feed, how times and colours are shown, and logging out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response, StreamingResponse

from streamsched.api.routing.rules import ANYBODY
from streamsched.api.streams.server_sent import HEADERS, MEDIA
from streamsched.web.pages.login import own_path
from streamsched.web.rendering import Renderer
from streamsched.web.visit import PageRoute, Visit

_YEAR_S: Final = 365 * 86400
_THEMES: Final = frozenset({"light", "dark", ""})


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    del renderer
    yield PageRoute("GET", "/ui/live", ANYBODY, live_feed)
    yield PageRoute("POST", "/ui/display", ANYBODY, display)
    yield PageRoute("POST", "/ui/logout", ANYBODY, log_out)


async def live_feed(visit: Visit) -> Response:
    """Server-sent events: `changed` when the page should be read again, `away` while that is impossible."""
    sessions, feed = visit.services.sessions, visit.services.feed
    cookie = visit.request.cookies.get(await sessions.cookie_name())
    feed.places.check(visit.caller)
    return StreamingResponse(
        feed.follow(visit.caller, partial(sessions.read, cookie)), media_type=MEDIA, headers=HEADERS
    )


async def display(visit: Visit) -> Response:
    """Stores theme or zone in a cookie, and shows the page again."""
    answer = RedirectResponse(own_path(visit.form.get("next", "")), HTTPStatus.SEE_OTHER)
    theme, zone = visit.form.get("theme"), visit.form.get("zone", "")
    if theme in _THEMES:
        answer.set_cookie("streamsched_theme", theme or "", max_age=_YEAR_S, path="/ui", samesite="strict")
    if zone and len(zone) < 100 and zone.isascii() and zone.isprintable() and ";" not in zone:
        answer.set_cookie("streamsched_zone", zone, max_age=_YEAR_S, path="/ui", samesite="strict")
    return answer


async def log_out(visit: Visit) -> Response:
    """Deletes the cookie in this browser."""
    answer = RedirectResponse("/ui/login", HTTPStatus.SEE_OTHER)
    answer.delete_cookie(await visit.services.sessions.cookie_name(), path="/ui")
    return answer
