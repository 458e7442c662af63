"""The form that emits an event, under a quota and under a grant of names."""

from __future__ import annotations

import pytest

from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.domain.quotas.limited import Quota
from streamsched.roles.services import Services
from streamsched.store.access.quotas import QuotaStore
from tests.integration.web.conftest import LogIn

pytestmark = pytest.mark.postgres


async def test_the_form_is_charged_to_the_quota_and_its_page_says_when_it_is_used_up(
    log_in: LogIn, services: Services
) -> None:
    quotas = QuotaStore(services.pool)
    await quotas.set("sales", Quota.EVENTS, 1, "a test", now=services.clock.now())
    browser = await log_in(Grant(role=AccessRole.OPERATOR, namespace="sales"))
    page = await browser.get("/ui/?namespace=sales")
    assert page.status_code == 200
    answers = [
        await browser.send(
            "/ui/events", page="/ui/?namespace=sales", kind="event", name="sales.q", content="a=b", id=f"ui{n}"
        )
        for n in range(80)
    ]

    refused = [each for each in answers if each.status_code == 429]
    assert refused, {each.status_code for each in answers}
    assert "events_per_second" in refused[0].text or "events per second" in refused[0].text
    assert "sales" in refused[0].text


async def test_the_form_announces_only_what_the_grant_names(log_in: LogIn) -> None:
    browser = await log_in(Grant(role=AccessRole.OPERATOR, namespace="sales", names=("raw_*",)))
    sent = {"page": "/ui/?namespace=sales", "kind": "event", "content": ""}
    assert (await browser.send("/ui/events", name="sales.raw_a", id="u1", **sent)).status_code == 303
    assert (await browser.send("/ui/events", name="sales.done", id="u2", **sent)).status_code == 403
