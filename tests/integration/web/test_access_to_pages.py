"""Who sees which page: sessions, forms, roles, and the headers of every answer."""

from __future__ import annotations

import httpx
import pytest

from streamsched.api.access.security_headers import POLICY
from streamsched.api.routing.rules import Scope
from streamsched.domain.access.grant import Grant
from streamsched.domain.access.permission import PERMISSIONS, AccessRole
from streamsched.ports.clock import SystemClock
from streamsched.roles.api import api_services, make_http
from streamsched.roles.services import Services
from streamsched.store.access.tokens import TokenStore
from streamsched.web.session import Sessions
from tests.integration.web.conftest import LogIn
from tests.support.api_routes import rules_of_pages

pytestmark = pytest.mark.postgres

#: What path parameters stand for.
NAMES = {
    "{schedule}": "sales.app.nothing",
    "{expectation}": "sales.app.nothing",
    "{job}": "sales.app.nothing.1.1",
    "{run}": "sales.app.nothing.1.1.r1",
    "{order}": "cancel",
    "{name}": "sales.nothing",
    "{backfill}": "sales.app.nothing.backfill-x",
    "{namespace}": "sales",
    "{app}": "app",
    "{queue}": "nothing",
    "{webhook}": "nothing",
    "{partition}": "0",
    "{offset}": "0",
}
#: Fields of the forms that name what they are about.
FIELDS = {
    "POST /ui/schedules": {"order": "pause", "pick.sales.app.nothing": "on"},
    "POST /ui/events": {"kind": "event", "name": "sales.done", "id": "e1"},
}

APP = {
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {
            "name": "weekly",
            "program": "join",
            "trigger": {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
        }
    ],
}


def filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(name, value)
    return path


async def test_a_page_without_a_session_leads_to_the_login_and_back(log_in: LogIn) -> None:
    browser = await log_in(enter=False)
    answer = await browser.get("/ui/schedules", q="a b")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/login?next=%2Fui%2Fschedules%3Fq%3Da%2Bb")
    form = await browser.get("/ui/login", next="/ui/schedules?q=a b")
    assert 'name="next" value="/ui/schedules?q=a b"' in form.text
    entered = await browser.log_in(next="/ui/schedules?q=a")
    assert 'content="0;url=/ui/schedules?q=a"' in entered.text
    cookie = entered.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/ui")), cookie
    assert browser.token.split("_", 2)[2] not in cookie
    assert (await browser.get("/ui/schedules")).status_code == 200


async def test_what_is_no_valid_session(log_in: LogIn, services: Services) -> None:
    browser = await log_in(enter=False)
    for token in ("", "nonsense", "sst_" + "0" * 12 + "_" + "A" * 43, "ssr_default.a.b.1.1.r1_" + "A" * 43, "é" * 3000):
        answer = await browser.http.post("/ui/login", data={"token": token})
        assert (answer.status_code, "set-cookie" in answer.headers) == (401, False), token
    await browser.log_in()
    ((name, value),) = browser.http.cookies.items()
    for wrong in (
        value[:-1],
        value[:-1] + ("A" if value[-1] != "A" else "B"),
        value.replace("session", "code"),
        "é.x",
        "a.b.c.d",
    ):
        browser.http.cookies.clear()
        sent = {b"Cookie": f"{name}={wrong}".encode()}
        assert (await browser.http.get("/ui/", headers=sent)).status_code == 303
    kept = {"Cookie": f"{name}={value}"}
    assert (await browser.http.get("/ui/", headers=kept)).status_code == 200
    await TokenStore(services.pool).revoke("t0", by="test", now=services.clock.now())
    assert (await browser.http.get("/ui/", headers=kept)).status_code == 303
    asked = await browser.http.get(
        "/ui/live", headers={**kept, "Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}
    )
    assert asked.status_code == 401


async def test_a_login_link_works_once(log_in: LogIn, services: Services) -> None:
    browser = await log_in(enter=False)
    sessions = Sessions(TokenStore(services.pool), SystemClock())
    code = await sessions.code(browser.token.split("_")[1])
    assert (await browser.get("/ui/login", code=code)).status_code == 200
    assert (await browser.get("/ui/")).status_code == 200
    browser.http.cookies.clear()
    again = await browser.get("/ui/login", code=code)
    assert (again.status_code, "each works once" in again.text) == (401, True)
    assert (await browser.get("/ui/login", code=code[:-2])).status_code == 401
    cookie = await sessions.begin(browser.token)
    assert (await browser.get("/ui/login", code=cookie)).status_code == 401


async def test_a_link_on_another_site_finds_the_session(log_in: LogIn) -> None:
    browser = await log_in()
    kept = dict(browser.http.cookies)
    browser.http.cookies.clear()  # what a strict cookie does with such a link
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    sent = await browser.http.get("/ui/schedules?q=a", headers=link)
    page = await browser.http.get(sent.headers["location"], headers=link)
    assert 'content="0;url=/ui/login?next=%2Fui%2Fschedules%3Fq%3Da"' in page.text
    browser.http.cookies.update(kept)
    own = {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "navigate"}
    again = await browser.http.get("/ui/login?next=%2Fui%2Fschedules%3Fq%3Da", headers=own)
    assert (again.status_code, again.headers["location"]) == (303, "/ui/schedules?q=a")


async def test_log_out_ends_the_session_of_this_browser(log_in: LogIn) -> None:
    browser = await log_in()
    assert (await browser.send("/ui/logout")).status_code == 303
    assert (await browser.get("/ui/")).status_code == 303


async def test_a_form_needs_the_token_of_its_session(log_in: LogIn) -> None:
    browser, other = await log_in(), await log_in()
    await browser.http.put("/v1/apps/default/flights", json=APP, headers=browser.authorization)
    pause = "/ui/schedules/default.flights.weekly/pause"
    assert (await browser.http.post(pause, data={"mode": "keep"})).status_code == 403
    theirs = (await other.get("/ui/")).text.partition('name="csrf" value="')[2].partition('"')[0]
    assert (await browser.http.post(pause, data={"csrf": theirs})).status_code == 403
    foreign = await browser.http.post(pause, data={}, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    assert (await browser.send(pause, mode="keep", note="disks")).status_code == 303
    large = await browser.http.post(pause, data={"note": "x" * 300_000})
    assert large.status_code == 400


@pytest.mark.parametrize("role", list(AccessRole))
async def test_every_page_and_role_in_the_own_and_in_a_foreign_namespace(log_in: LogIn, role: AccessRole) -> None:
    own = await log_in(Grant(role=role, namespace="sales"))
    foreign = await log_in(Grant(role=role, namespace="ops"))
    wrong: list[str] = []
    for name, rule in rules_of_pages().items():
        if name in {"GET /ui/live", "POST /ui/logout"}:
            continue
        method, path = name.split(" ")
        for browser, at_home in ((own, True), (foreign, False)):
            query = "?namespace=sales" if rule.scope is Scope.QUERY else ""
            if method == "GET":
                answer = await browser.get(filled(path) + query)
            else:
                answer = await browser.send(filled(path), **FIELDS.get(name, {}))
            allowed = rule.scope is Scope.NONE or (
                at_home and rule.scope is not Scope.INSTALLATION and rule.permission in PERMISSIONS[role]
            )
            by_id = any(part in path for part in ("{job}", "{run}", "{backfill}"))
            hidden = not allowed and answer.status_code == 404 and by_id
            assert answer.status_code < 500, (name, answer.text)
            if (answer.status_code == 403 or hidden) == allowed:
                wrong.append(f"{name} of {role} at home {at_home}: {answer.status_code}")
    assert not wrong


async def test_a_person_of_one_namespace_sees_lists_of_it(log_in: LogIn) -> None:
    browser = await log_in(Grant(role=AccessRole.VIEWER, namespace="sales"))
    answer = await browser.get("/ui/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/?namespace=sales")
    page = await browser.get("/ui/", namespace="sales")
    assert (page.status_code, "shards" in page.text) == (200, False)


async def test_every_answer_has_the_headers(log_in: LogIn) -> None:
    browser = await log_in()
    for path in ("/ui/", "/ui/login", "/ui/schedules/x", "/ui/nothing", "/ui/static/page.css", "/ui/static/nothing"):
        answer = await browser.get(path)
        assert answer.headers["content-security-policy"] == POLICY, path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert ("immutable" if path.endswith("page.css") else "no-store") in answer.headers["cache-control"]
        assert "style=" not in answer.text
        assert "onclick" not in answer.text
    assert "unsafe" not in POLICY
    assert (await browser.get("/")).headers["location"] == "/ui/"


async def test_an_open_installation_needs_no_login_but_the_token_of_forms(services: Services) -> None:
    from dataclasses import replace

    from streamsched.access.authentication import OpenAuthentication

    made = api_services(services)
    made = replace(made, access=replace(made.access, authentication=OpenAuthentication()))
    app = make_http(made, services.pool)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://localhost") as http:
        assert (await http.get("/ui/")).status_code == 200
        assert (await http.get("/ui/login")).headers["location"] == "/ui/"
        assert (await http.post("/ui/display", data={"theme": "dark"})).status_code == 403


async def test_an_old_version_that_listens_elsewhere_is_restored_only_by_who_may(log_in: LogIn) -> None:
    admin = await log_in()
    foreign = {"type": "EVENT", "event": "finance.closed"}
    for trigger in (foreign, APP["schedules"][0]["trigger"]):
        body = {**APP, "schedules": [{**APP["schedules"][0], "trigger": trigger}]}
        deployed = await admin.http.put("/v1/apps/sales/app", json=body, headers=admin.authorization)
        assert deployed.status_code == 200, deployed.text
    given = {"kind": "event", "name": "closed", "grantee": "sales"}
    url = "/v1/namespaces/finance/grants"
    assert (await admin.http.delete(url, params=given, headers=admin.authorization)).status_code == 200

    developer = await log_in(Grant(role=AccessRole.DEVELOPER, namespace="sales"))
    page = "/ui/schedules/sales.app.weekly/versions"
    own = "/ui/schedules?namespace=sales"
    refused = await developer.send(page, page=own, of="1")
    assert (refused.status_code, "streamsched grant give finance event closed sales" in refused.text) == (403, True)
    assert (await admin.http.put(url, json=given, headers=admin.authorization)).status_code == 200
    assert (await developer.send(page, page=own, of="1")).status_code == 303


async def test_a_schedule_whose_events_were_refused_keeps_what_it_has_when_it_cannot_start_over(log_in: LogIn) -> None:
    admin = await log_in()
    foreign = {"type": "EVENT", "event": "finance.closed"}
    body = {**APP, "schedules": [{**APP["schedules"][0], "trigger": foreign}]}
    assert (await admin.http.put("/v1/apps/sales/app", json=body, headers=admin.authorization)).status_code == 200
    refusal = {"kind": "event", "name": "closed", "grantee": "sales", "state": "refused"}
    url = "/v1/namespaces/finance/grants"
    assert (await admin.http.put(url, json=refusal, headers=admin.authorization)).status_code == 200
    schedule = "/v1/schedules/sales.app.weekly"
    before = (await admin.http.get(schedule, headers=admin.authorization)).json()

    operator = await log_in(Grant(role=AccessRole.OPERATOR, namespace="sales"))
    refused = await operator.send("/ui/schedules/sales.app.weekly/reset", page="/ui/schedules?namespace=sales")

    assert refused.status_code == 403
    after = (await admin.http.get(schedule, headers=admin.authorization)).json()
    assert (before["state"], after["state"]) == ("paused", "paused")
    assert after["generation"] == before["generation"]
