"""The pages of webhooks: whether a target accepts what it is sent, and the actions, as the roles may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from streamsched.codec.webhooks.cloud_event import trial_event
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.tasks.task import TaskRequest
from streamsched.roles.launcher import launcher_loops
from streamsched.roles.services import Services
from streamsched.store.webhooks.webhooks import WebhookStore
from tests.integration.web.conftest import Browser, LogIn
from tests.integration.web.test_every_page import HOSTILE, text_of
from tests.integration.webhooks.webhook_world import Receiver, receiving

pytestmark = pytest.mark.postgres

ALERTS = "/ui/webhooks/default/alerts"
URL = "https://alerts.example.com/hook?token=s3cr3t"


async def create(browser: Browser, name: str = "alerts", namespace: str = "default", **more: Any) -> None:
    path, body = f"/v1/namespaces/{namespace}/webhooks", {"name": name, "url": URL, **more}
    answer = await browser.http.post(path, json=body, headers=browser.authorization)
    assert answer.status_code == 201, answer.text


@asynccontextmanager
async def delivering(services: Services) -> AsyncIterator[Receiver]:
    """A target to which a launcher sends what all webhooks are sent."""
    object.__setattr__(services, "settings", services.settings.replace(outgoing_networks="127.0.0.0/8"))
    loops = launcher_loops(services, {})
    async with receiving() as far:
        change = "UPDATE webhooks SET definition = jsonb_set(definition, '{url}', to_jsonb($1::text))"
        await services.pool.execute(change, f"{far.url}/hook?token=s3cr3t")
        running = [asyncio.ensure_future(loops[name]()) for name in ("webhooks", "tasks", "broker_health")]
        try:
            yield far
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


async def test_a_webhook_is_tried_disabled_and_enabled(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    assert "There are no webhooks" in (await browser.get("/ui/webhooks")).text
    for name in ("alerts", "other"):
        await create(browser, name)
    page = (await browser.get(ALERTS)).text
    assert "Nothing was sent yet" in page
    assert ("s3cr3t" in page, "generated" in page) == (False, True)

    async with delivering(services) as far:
        tried = await browser.send(f"{ALERTS}/test", page=ALERTS)
        assert "The test was accepted: HTTP 204" in text_of((await browser.get(tried.headers["location"])).text)
        far.answer, far.body = lambda _: "500 Oops", lambda _: HOSTILE
        refused = (await browser.send(f"{ALERTS}/test", page=ALERTS)).headers["location"]
    said = (await browser.get(refused)).text
    assert "The test was not accepted: HTTP 500" in text_of(said)
    assert "<script>alert" not in said
    assert "The test was" not in (await browser.get(refused.replace("/alerts?", "/other?"))).text

    assert (await browser.send(f"{ALERTS}/disable", page=ALERTS, note=HOSTILE)).status_code == 303
    page = (await browser.get(ALERTS)).text
    assert "It is disabled since" in text_of(page)
    assert HOSTILE in text_of(page)
    assert "<script>alert" not in page
    assert (await browser.send(f"{ALERTS}/test", page=ALERTS)).status_code == 409
    assert (await browser.send(f"{ALERTS}/enable", page=ALERTS)).status_code == 303
    assert (await browser.send(f"{ALERTS}/forget", page=ALERTS)).status_code == 404
    record = await WebhookStore(services.pool).get("default.alerts")
    assert (record.enabled, record.reason) == (True, "token:t0 on the page")


async def test_a_target_that_fails_and_an_old_secret_are_shown(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    await create(browser)
    changed = {"json": {"secret": None}, "headers": browser.authorization}
    await browser.http.patch("/v1/namespaces/default/webhooks/alerts", **changed)  # type: ignore[arg-type]
    async with delivering(services) as far:
        far.answer, far.body = lambda _: "500 Oops", lambda _: HOSTILE
        now = services.clock.now()
        event = trial_event("change", "default", "default.alerts", now)
        await WebhookStore(services.pool).put("default.alerts", TaskRequest(key="1", data=event), now=now)
        await far.until(2)
    said = (await browser.get(ALERTS)).text
    assert "the one before it signs too until" in text_of(said)
    assert "has accepted nothing since" in text_of(said)
    assert "HTTP 500: " in text_of(said)
    assert "<script>alert" not in said
    listed = (await browser.get("/ui/webhooks")).text
    assert '<span class="pill bad">fails</span>' in listed
    assert "<script>alert" not in listed


async def test_a_namespace_sees_its_own_and_a_viewer_changes_none(log_in: LogIn, services: Services) -> None:
    admin = await log_in()
    for namespace in ("default", "sales"):
        await create(admin, namespace=namespace)
    listed = (await admin.get("/ui/webhooks")).text
    assert ("/ui/webhooks/sales/alerts" in listed, "/ui/webhooks/default/alerts" in listed) == (True, True)
    viewer = await log_in(Grant(role=AccessRole.VIEWER, namespace="sales"))
    listed = (await viewer.http.get("/ui/webhooks", follow_redirects=True)).text
    assert ("/ui/webhooks/sales/alerts" in listed, "/ui/webhooks/default/alerts" in listed) == (True, False)
    assert (await viewer.get(ALERTS)).status_code == 403
    own = (await viewer.get("/ui/webhooks/sales/alerts")).text
    assert ('action="/ui/webhooks' in own, "/ui/queues/webhook" in own) == (False, False)
    refused = await viewer.send("/ui/webhooks/sales/alerts/disable", page="/ui/webhooks/sales/alerts")
    assert refused.status_code == 403
    assert (await WebhookStore(services.pool).get("sales.alerts")).enabled
