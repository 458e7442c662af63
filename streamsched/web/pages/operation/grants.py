"""Grants between namespaces: what owners have not decided about, and what a namespace has given and has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from streamsched.api.routes.needs.grants import grant_cursor, grant_position
from streamsched.api.routing.rules import DEPLOY, VIEW_LIST
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import InvalidError, NotFoundError
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line
from streamsched.web.views.paging import page_links
from streamsched.web.views.states import StateWord
from streamsched.web.visit import PageRoute, Visit

#: Most grants of one page.
ROWS: Final = 50
_WORDS: Final = {
    GrantState.PENDING: StateWord("wait", "pending"),
    GrantState.GRANTED: StateWord("ok", "granted"),
    GrantState.REFUSED: StateWord("bad", "refused"),
}
_ORDERS: Final = ("give", "refuse", "remove")
_DONE: Final = {"give": "given", "refuse": "refused", "remove": "removed"}


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/grants", VIEW_LIST, partial(show, renderer))
    yield PageRoute("POST", "/ui/grants/{namespace}/{order}", DEPLOY, decide)


async def show(renderer: Renderer, visit: Visit) -> Response:
    """Of a namespace, all; of the installation, those that are pending."""
    after = visit.query("after")
    found = await _read_grants(visit, after)
    done, paused = visit.query("done"), visit.query("paused")
    return renderer.page(
        visit,
        "grants.html",
        grants=[
            (each, _WORDS[each.state], visit.may(Permission.DEPLOY, each.owner), _commands(each))
            for each in found[:ROWS]
        ],
        namespace=visit.namespace,
        kinds=list(SharedKind),
        may_give=visit.namespace is not None and visit.may(Permission.DEPLOY, visit.namespace),
        done=done if done in _DONE.values() else "",
        paused=paused if paused.isdecimal() else "",
        links=page_links(
            visit.path,
            [("namespace", visit.namespace or "")],
            after=after,
            following=grant_cursor(found[ROWS - 1]) if len(found) > ROWS and visit.namespace else "",
        ),
        same=SameAs(command_line("grant", "list", visit.namespace or "NAMESPACE")),
    )


async def decide(visit: Visit) -> Response:
    """Gives, refuses or removes a grant of the namespace."""
    order, form = visit.param("order"), visit.form
    if order not in _ORDERS:
        raise NotFoundError("order", order)
    kind = form.get("kind", "")
    if kind not in list(SharedKind):
        raise InvalidError("kind", f"must be one of {', '.join(SharedKind)}")
    grant = NamespaceGrant(
        owner=visit.param("namespace"),
        kind=SharedKind(kind),
        name=form.get("name", "").strip(),
        grantee=form.get("grantee", "").strip(),
        state=GrantState.GRANTED if order == "give" else GrantState.REFUSED,
        details=order == "give" and kind == SharedKind.PROGRAM and "details" in form,
        reason=form.get("note", "").strip(),
        by=visit.caller.name,
    )
    desk = visit.api.grant_desk
    suspended = (await desk.remove(grant))[1] if order == "remove" else await desk.decide(grant)
    shown = {"namespace": grant.owner, "done": _DONE[order], "paused": str(len(suspended))}
    return RedirectResponse(f"/ui/grants?{urlencode(shown)}", HTTPStatus.SEE_OTHER)


async def _read_grants(visit: Visit, after: str) -> Sequence[NamespaceGrant]:
    desk = visit.api.grant_desk
    if visit.namespace is None:
        return await desk.list_pending(limit=ROWS)
    return await desk.list_of(visit.namespace, after=grant_position(after) if after else None, limit=ROWS + 1)


def _commands(grant: NamespaceGrant) -> dict[str, SameAs]:
    words = (grant.owner, grant.kind, grant.name, grant.grantee)
    return {order: SameAs(command_line("grant", order, *words)) for order in _ORDERS}
