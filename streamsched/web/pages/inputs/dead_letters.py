"""Dead letters: what could not be processed, why, and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from streamsched.admin import dead_letters
from streamsched.api.routing.rules import OPERATE_ALL
from streamsched.catalog.paging import moment_cursor, read_moment_cursor
from streamsched.domain.errors import ConflictError
from streamsched.web.pages.inputs.event import payload_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.paging import page_links
from streamsched.web.visit import PageRoute, Visit

#: Rows of a page, and of the page before a purge.
ROWS: Final = 50
_COUNTED: Final = 10_000
#: Dead letters of each partition that the list reads.
DEPTH: Final = 2000
_REASONS: Final = 12
DONE: Final = {
    "replayed": "It was appended to its topic again. When it fails again, it becomes a new dead letter.",
    "purged": "They are archived: the log deletes them after its retention time.",
}
_PATH: Final = "/ui/dead-letters"


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", _PATH, OPERATE_ALL, partial(show, renderer))
    yield PageRoute("GET", f"{_PATH}/purge", OPERATE_ALL, partial(before_purge, renderer))
    yield PageRoute("POST", f"{_PATH}/purge", OPERATE_ALL, purge)
    yield PageRoute("GET", f"{_PATH}/{{partition}}/{{offset}}", OPERATE_ALL, partial(show_one, renderer))
    yield PageRoute("POST", f"{_PATH}/{{partition}}/{{offset}}/replay", OPERATE_ALL, replay)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """The newest first, in pages. Those that were purged are not listed."""
    at, after = visit.api.installation, visit.query("after")
    found = await dead_letters.dead_letters(
        at.broker, at.archived_letters, limit=ROWS + 1, before=read_moment_cursor(after), depth=DEPTH
    )
    last = found[ROWS - 1] if len(found) > ROWS else None
    return renderer.page(
        visit,
        "dead_letters.html",
        letters=found[:ROWS],
        depth=DEPTH,
        done=DONE.get(visit.query("done"), ""),
        links=page_links(
            visit.path, [], after=after, following="" if last is None else moment_cursor(last.at, last.id)
        ),
        same=SameAs(command_line("dlq", "list")),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """Why it could not be processed, with its key and value as text."""
    letter = await dead_letters.dead_letter(visit.api.installation.broker, _name(visit))
    return renderer.page(
        visit,
        "dead_letter.html",
        letter=letter,
        value=payload_text(letter.value or b""),
        key=(letter.key or b"").decode(errors="backslashreplace"),
        same=SameAs(
            command_line("dlq", "replay", letter.id),
            curl_line(visit.url, f"/v1/admin/dead-letters/{letter.id}/replay"),
        ),
    )


async def replay(visit: Visit) -> Response:
    """Appends the record to its topic again; the dead letter stays."""
    broker = visit.api.installation.broker
    await dead_letters.replay(broker, await dead_letters.dead_letter(broker, _name(visit)))
    return RedirectResponse(f"{_PATH}?done=replayed", HTTPStatus.SEE_OTHER)


async def before_purge(renderer: Renderer, visit: Visit) -> Response:
    """What a purge would archive, counted by reason."""
    at = visit.api.installation
    found = await dead_letters.dead_letters(at.broker, at.archived_letters, limit=_COUNTED, depth=_COUNTED)
    reasons = Counter(f"{letter.topic}: {letter.path}: {letter.reason}"[:200] for letter in found)
    return renderer.page(
        visit,
        "purge.html",
        count=len(found),
        more=len(found) >= _COUNTED,
        newest=found[0].id if found else "",
        reasons=reasons.most_common(_REASONS),
        others=max(0, len(reasons) - _REASONS),
        same=SameAs(command_line("dlq", "purge"), curl_line(visit.url, "/v1/admin/dead-letters/purge")),
    )


async def purge(visit: Visit) -> Response:
    """Archives them. Refused when there is a newer one than the page before showed."""
    at = visit.api.installation
    newest = await dead_letters.dead_letters(at.broker, at.archived_letters, limit=1, depth=1)
    if newest and newest[0].id != visit.form.get("newest"):
        raise ConflictError("there are newer dead letters than those the page listed: read them first")
    await dead_letters.purge(at.broker, at.archived_letters)
    return RedirectResponse(f"{_PATH}?done=purged", HTTPStatus.SEE_OTHER)


def _name(visit: Visit) -> str:
    return f"{visit.param('partition')}/{visit.param('offset')}"
