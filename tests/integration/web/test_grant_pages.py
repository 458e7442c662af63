"""The page of grants: what is pending and decided, and the decisions, as the roles may."""

from __future__ import annotations

import pytest

from streamsched.domain.access.grant import Grant
from streamsched.domain.access.namespace_grant import GrantState, NamespaceGrant, SharedKind
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services
from streamsched.store.catalog.namespace_grants import NamespaceGrantStore
from tests.integration.web.conftest import Browser, LogIn
from tests.integration.web.test_every_page import HOSTILE, text_of

pytestmark = pytest.mark.postgres

FINANCE, SALES = "/ui/grants?namespace=finance", "/ui/grants?namespace=sales"
PAYROLL = {"kind": "program", "name": "pay.payroll", "grantee": "sales"}
WAITING = {
    "programs": [{"name": "p", "type": "http", "url": "https://example.org"}],
    "schedules": [{"name": "report", "program": "p", "trigger": {"type": "EVENT", "event": "finance.closed"}}],
}


async def add(services: Services, *, state: GrantState, kind: SharedKind, name: str, grantee: str = "sales") -> None:
    grant = NamespaceGrant(owner="finance", kind=kind, name=name, grantee=grantee, state=state, reason=HOSTILE)
    await NamespaceGrantStore(services.pool).record([grant], now=services.clock.now())


async def states(services: Services) -> dict[str, tuple[str, bool, str]]:
    found = await NamespaceGrantStore(services.pool).list_of("finance", limit=100)
    return {each.name: (each.state, each.details, each.by) for each in found}


async def send(browser: Browser, order: str, page: str = FINANCE, **fields: str) -> int:
    return (await browser.send(f"/ui/grants/finance/{order}", page=page, **fields)).status_code


async def test_grants_are_given_refused_and_removed(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    assert "Nothing is pending" in (await browser.get("/ui/grants")).text
    await add(services, state=GrantState.PENDING, kind=SharedKind.PROGRAM, name="pay.payroll")
    await add(services, state=GrantState.REFUSED, kind=SharedKind.DATASET, name="raw")

    pending, page = (await browser.get("/ui/grants")).text, (await browser.get(FINANCE)).text
    assert ("pay.payroll" in pending, ">raw<" in pending) == (True, False)
    assert ("pay.payroll" in page, ">raw<" in page, HOSTILE in text_of(page)) == (True, True, True)
    assert "<script>alert" not in page + pending

    assert await send(browser, "give", **PAYROLL, details="on", note="the report") == 303
    assert (await states(services))["pay.payroll"] == (GrantState.GRANTED, True, "token:t0")
    assert "Nothing is pending" in (await browser.get("/ui/grants")).text
    assert await send(browser, "give", kind="event", name="closed", grantee="sales", details="on") == 303
    assert (await states(services))["closed"] == (GrantState.GRANTED, False, "token:t0")

    answer = await browser.http.put("/v1/apps/sales/shop", json=WAITING, headers=browser.authorization)
    assert answer.status_code == 200, answer.text
    refused = await browser.send(
        "/ui/grants/finance/refuse", page=FINANCE, kind="event", name="closed", grantee="sales"
    )
    assert "1 schedule that relies on it is paused" in text_of((await browser.get(refused.headers["location"])).text)
    listed = await browser.http.get("/v1/schedules?namespace=sales", headers=browser.authorization)
    assert [each["state"] for each in listed.json()["schedules"]] == ["paused"]
    assert await send(browser, "remove", kind="event", name="closed", grantee="sales") == 303
    assert "closed" not in await states(services)


async def test_what_is_no_decision_changes_nothing(log_in: LogIn, services: Services) -> None:
    browser = await log_in()

    assert await send(browser, "keep", **PAYROLL) == 404
    assert await send(browser, "remove", **PAYROLL) == 404
    assert await send(browser, "give", **{**PAYROLL, "kind": "secret"}) == 400
    assert await send(browser, "give", **{**PAYROLL, "name": HOSTILE}) == 400
    assert await send(browser, "give", **{**PAYROLL, "grantee": "finance"}) == 400
    assert (await browser.get(f"{FINANCE}&after=x")).status_code == 400
    assert await states(services) == {}


async def test_only_who_may_deploy_in_the_owners_namespace_decides(log_in: LogIn, services: Services) -> None:
    await add(services, state=GrantState.PENDING, kind=SharedKind.PROGRAM, name="pay.payroll")
    await add(services, state=GrantState.GRANTED, kind=SharedKind.DATASET, name="of_ops", grantee="ops")
    owner = await log_in(Grant(role=AccessRole.DEVELOPER, namespace="finance"))
    viewer = await log_in(Grant(role=AccessRole.VIEWER, namespace="finance"))
    other = await log_in(Grant(role=AccessRole.DEVELOPER, namespace="sales"))

    assert 'action="/ui/grants/finance/give"' in (await owner.get(FINANCE)).text
    for browser, page in ((viewer, FINANCE), (other, SALES)):
        shown = (await browser.get(page)).text
        assert ("pay.payroll" in shown, 'action="/ui/grants/finance' in shown) == (True, False)
        assert await send(browser, "give", page=page, **PAYROLL) == 403
    assert "of_ops" not in (await other.get(SALES)).text
    assert (await other.get(FINANCE)).status_code == 403
    assert (await states(services))["pay.payroll"][0] == GrantState.PENDING
    assert await send(owner, "refuse", **PAYROLL) == 303


async def test_a_long_list_has_pages(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    for number in range(51):
        await add(services, state=GrantState.GRANTED, kind=SharedKind.DATASET, name=f"d{number:02}")

    first = (await browser.get(FINANCE)).text
    following = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    rest = (await browser.get(following)).text

    assert (">d49<" in first, ">d50<" in first) == (True, False)
    assert (">d49<" in rest, ">d50<" in rest) == (False, True)
