"""Webhooks, and one of them: whether its target accepts what it is sent, and what waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from streamsched.api.routes.webhooks.trial import send_trial
from streamsched.api.routes.webhooks.webhooks import shown_url, webhook_view
from streamsched.api.routing.rules import DEPLOY, VIEW, VIEW_LIST
from streamsched.domain.access.permission import Permission
from streamsched.domain.errors import NotFoundError
from streamsched.store.tasks.registry import TaskRecord
from streamsched.store.webhooks.webhooks import WebhookRecord
from streamsched.web.pages.schedule_actions import reason_text
from streamsched.web.rendering import Renderer
from streamsched.web.views.commands import SameAs, command_line, curl_line
from streamsched.web.views.names import webhook_href
from streamsched.web.views.paging import page_links
from streamsched.web.views.states import StateWord
from streamsched.web.visit import PageRoute, Visit

#: Most rows of one page.
ROWS: Final = 50
_TEST: Final = "test"
_ORDERS: Final = ("enable", "disable", _TEST)
_WEBHOOK: Final = "/ui/webhooks/{namespace}/{webhook}"


def routes(renderer: Renderer) -> Iterator[PageRoute]:
    yield PageRoute("GET", "/ui/webhooks", VIEW_LIST, partial(show, renderer))
    yield PageRoute("GET", _WEBHOOK, VIEW, partial(show_one, renderer))
    yield PageRoute("POST", f"{_WEBHOOK}/{{order}}", DEPLOY, order)


def word_of(record: WebhookRecord) -> StateWord:
    """Whether it is sent changes, and whether its target accepts them."""
    if not record.enabled:
        return StateWord("off", "disabled") if record.by_owner else StateWord("bad", "given up")
    return StateWord("ok", "enabled") if record.failing_since is None else StateWord("bad", "fails")


async def show(renderer: Renderer, visit: Visit) -> Response:
    """By name, in pages; of all namespaces when none is chosen. Secrets in the address are not shown."""
    after = visit.query("after")
    found = await visit.api.webhooks.store.page(visit.namespace, after=after, limit=ROWS + 1)
    last = found[ROWS - 1].webhook if len(found) > ROWS else None
    following = "" if last is None else last.id if visit.namespace is None else last.name
    return renderer.page(
        visit,
        "webhooks.html",
        webhooks=[(each, word_of(each), shown_url(each.webhook)) for each in found[:ROWS]],
        links=page_links(visit.path, [("namespace", visit.namespace or "")], after=after, following=following),
        same=SameAs(command_line("webhook", "list", *(["-n", visit.namespace] if visit.namespace else []))),
    )


async def show_one(renderer: Renderer, visit: Visit) -> Response:
    """Its deliveries, and the result of the trial that the address names."""
    namespace, name = visit.param("namespace"), visit.param("webhook")
    record = await visit.api.webhooks.store.get(f"{namespace}.{name}")
    option = [] if namespace == "default" else ["-n", namespace]
    path = f"/v1/namespaces/{namespace}/webhooks/{name}"
    return renderer.page(
        visit,
        "webhook.html",
        record=record,
        view=webhook_view(record),
        word=word_of(record),
        may_deploy=visit.may(Permission.DEPLOY, namespace),
        may_view_all=visit.may(Permission.VIEW, None),
        trial=await _trial(visit, record.webhook.queue),
        same={
            each: SameAs(command_line("webhook", each, name, *option), curl_line(visit.url, f"{path}/{each}"))
            for each in _ORDERS
        },
        command=command_line("webhook", "show", name, *option),
    )


async def _trial(visit: Visit, queue: str) -> TaskRecord | None:
    """The trial that the address names, if it is one of this webhook."""
    task = visit.query("trial")
    try:
        found = await visit.api.tasks.registry.get(task) if task else None
    except NotFoundError:
        return None
    return found if found is not None and found.queue == queue else None


async def order(visit: Visit) -> Response:
    """Enables, disables or tries a webhook."""
    webhook, wanted = f"{visit.param('namespace')}.{visit.param('webhook')}", visit.param("order")
    if wanted not in _ORDERS:
        raise NotFoundError("order", wanted)
    href = webhook_href(visit.param("namespace"), visit.param("webhook"))
    if wanted == _TEST:
        trial = await send_trial(visit.api, webhook)
        return RedirectResponse(f"{href}?{urlencode({'trial': trial.task})}", HTTPStatus.SEE_OTHER)
    note = reason_text(visit, visit.form.get("note", ""))
    await visit.api.webhooks.store.enable(webhook, wanted == "enable", note, now=visit.now)
    return RedirectResponse(href, HTTPStatus.SEE_OTHER)
