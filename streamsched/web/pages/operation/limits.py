"""Groups, pools, clusters and quotas: what is taken, by which runs, and who waits. Limits of groups and pools are set
here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import RedirectResponse, Response

from streamsched.api.routing.rules import ADMINISTER_ALL, VIEW_ALL
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidError
from streamsched.web.pages.schedule_actions import reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.paging import page_links
from streamsched.web.visit import PageRoute, Visit

#: Groups, pools and namespaces with quotas of a page, and holders of each that are listed.
ROWS: Final = 30
HOLDERS: Final = 10
_MOST_DIGITS: Final = 9


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/limits", VIEW_ALL, partial(show, renderer))
    yield PageRoute("POST", "/ui/groups/{name}", ADMINISTER_ALL, set_group)
    yield PageRoute("POST", "/ui/pools/{name}", ADMINISTER_ALL, set_pool)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """Groups by name, in pages; of pools, clusters and quotas the first `ROWS`. Each with those that hold it, at most
    `HOLDERS`.
    """
    after = visit.query("after")
    groups = await visit.api.limits.groups.all(after=after, limit=ROWS + 1)
    pools = await visit.api.limits.pools.all(limit=ROWS)
    return renderer.page(
        visit,
        "limits.html",
        groups=groups[:ROWS],
        pools=pools,
        clusters=(await visit.api.limits.clusters.all())[:ROWS],
        quotas=await visit.api.limits.quotas.list_all(now=visit.now, limit=ROWS),
        holders=HOLDERS,
        links=page_links(visit.path, [], after=after, following=groups[ROWS - 1].name if len(groups) > ROWS else ""),
        may_set=visit.may(Permission.ADMINISTER, None),
        done="The limit is set. Waiting jobs are checked again." if visit.query("done") else "",
        same={
            "group": lambda name: SameAs(
                command_line("group", "set", name, "4"),
                curl_line(visit.url, f"/v1/groups/{name}", {"limit": 4}, method="PUT"),
            ),
            "pool": lambda name: SameAs(
                command_line("pool", "set", name, "4"),
                curl_line(visit.url, f"/v1/pools/{name}", {"size": 4}, method="PUT"),
            ),
        },
    )


async def set_group(visit: Visit) -> Response:
    """Sets the limit; an empty one leaves it to the schedules."""
    limit = _slots(visit.form.get("limit", ""))
    await visit.api.limits.groups.set_limit(
        visit.param("name"), limit, reason_text(visit, visit.form.get("note", "")), now=visit.now
    )
    return RedirectResponse("/ui/limits?done=set", HTTPStatus.SEE_OTHER)


async def set_pool(visit: Visit) -> Response:
    """Sets the size, and leaves as it is how waiting counts; an empty size leaves it to the schedules."""
    size = _slots(visit.form.get("limit", ""))
    await visit.api.limits.pools.set(
        visit.param("name"), size, None, reason_text(visit, visit.form.get("note", "")), now=visit.now
    )
    return RedirectResponse("/ui/limits?done=set", HTTPStatus.SEE_OTHER)


def _slots(text: str) -> int | None:
    """A number of slots; None for an empty text: what the schedules say.

    Raises:
        InvalidError: it is no number.
    """
    if not text.strip():
        return None
    if not (text.isascii() and text.strip().isdigit()) or len(text.strip()) > _MOST_DIGITS:
        raise InvalidError("$.limit", "must be a number of slots, or empty")
    return int(text)
