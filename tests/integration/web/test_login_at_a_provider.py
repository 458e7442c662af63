"""Logging in to the pages at an OpenID provider: the provider is served over HTTP, the browser keeps its cookies."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import psycopg
import pytest
import pytest_asyncio
from joserfc.jwk import RSAKey
from psycopg.sql import SQL, Identifier
from structlog.testing import capture_logs

from streamsched.access.code_flow import RETRY
from streamsched.access.provider_keys import FRESH
from streamsched.config import Settings
from streamsched.roles.api import api_services, make_http
from streamsched.roles.services import Services, open_services
from streamsched.testing.clock import SettableClock
from streamsched.web.login_attempt import ATTEMPT
from streamsched.web.session import SESSION
from tests.support.openid_provider import NOW, Client, Provider

pytestmark = [pytest.mark.postgres, pytest.mark.asyncio(loop_scope="module")]

BACK = "http://localhost/ui/login/oidc/callback"
SECRET = "s3cret/+: %"
#: What a browser sends when the provider leads back.
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": "a", "use": "sig"})


@pytest.fixture(scope="module")
def database(postgres_server: str, template_database: str) -> Iterator[str]:
    """One for the module: logging in at a provider writes nothing."""
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE logins TEMPLATE {}").format(Identifier(template_database)))
        yield postgres_server.replace("/postgres?", "/logins?")
        admin.execute("DROP DATABASE logins WITH (FORCE)")


@pytest.fixture
def provider(key: RSAKey) -> Iterator[Provider]:
    made = Provider()
    made.keys.append(key)
    made.client = Client("pages", (BACK, BACK.replace("http:", "https:")), SECRET)
    yield made
    made.close()


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(NOW)


def settings_for(database: str, provider: Provider, **others: Any) -> Settings:
    given = {
        "oidc_issuer": provider.url,
        "oidc_audience": "streamsched",
        "oidc_roles": "ops=operator, sales=viewer@sales",
        "oidc_roles_claim": "groups",
        "oidc_client_id": "pages",
        "oidc_client_secret": SECRET,
    }
    return Settings.from_env({}, database_url=database, **{**given, **others})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def opened(database: str) -> AsyncIterator[Services]:
    async with open_services(Settings.from_env({}, database_url=database)) as services:
        yield services


@pytest.fixture
def services(opened: Services, provider: Provider, clock: SettableClock) -> Services:
    settings = settings_for(opened.settings.database_url, provider)
    return replace(opened, settings=settings, clock=clock)


@pytest_asyncio.fixture(loop_scope="module")
async def browser(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    async with pages(services) as http:
        yield http


def pages(services: Services, **others: Any) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=make_http(api_services(services), services.pool))
    return httpx.AsyncClient(transport=transport, **{"base_url": "http://localhost", **others})


async def leave(browser: httpx.AsyncClient, **query: str) -> str:
    """The address of the provider to which the browser is sent."""
    answer = await browser.get("/ui/login/oidc", params=query)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def at_provider(address: str) -> str:
    """The address to which the provider leads back."""
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        return (await http.get(address)).headers["location"]


async def log_in(browser: httpx.AsyncClient, **query: str) -> httpx.Response:
    return await browser.get(await at_provider(await leave(browser, **query)), headers=LINK)


def sentence(answer: httpx.Response) -> str:
    """What the login page says about a failure. It is the login page, and no session has begun."""
    assert "session" not in answer.headers.get("set-cookie", "")
    assert "person." not in answer.headers.get("set-cookie", "")
    assert '<label for="token">' in answer.text
    assert "<script>" not in answer.text.replace("<script src", "")
    assert "Traceback" not in answer.text
    found = re.findall(r'role="alert">([^<]+)</p>', answer.text)
    assert len(found) == 1, answer.text
    return found[0]


def attempt_cookie(browser: httpx.AsyncClient) -> str:
    return next(name for name in browser.cookies if name.endswith("_login"))


async def test_a_person_logs_in_and_gets_to_the_page_with_the_roles_of_the_claim(
    browser: httpx.AsyncClient, provider: Provider
) -> None:
    away = await browser.get("/ui/schedules?q=a")
    form = await browser.get(away.headers["location"])
    there = re.search(r'href="(/ui/login/oidc[^"]*)"', form.text)
    assert there is not None
    assert f"Log in at {urlsplit(provider.url).netloc}" in form.text
    left = await browser.get(there[1].replace("&amp;", "&"))
    cookie = left.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=lax", "Path=/ui/login/oidc", "Max-Age=600")), cookie
    with capture_logs() as lines:
        entered = await browser.get(await at_provider(left.headers["location"]), headers=LINK)
    assert (entered.status_code, 'content="0;url=/ui/schedules?q=a"' in entered.text) == (200, True)
    session, ended = sorted(entered.headers.get_list("set-cookie"), key=len, reverse=True)
    assert all(part in session for part in ("HttpOnly", "SameSite=strict", "Path=/ui;", "Max-Age=3600")), session
    assert ("_login=" in ended, "Max-Age=0" in ended) == (True, True)
    assert (await browser.get("/ui/dead-letters")).status_code == 200
    assert (await browser.get("/ui/admin")).status_code == 403
    page = (await browser.get("/ui/")).text
    assert "oidc:ada" in page
    csrf = re.search(r'name="csrf" value="([^"]+)"', page)
    assert csrf is not None
    assert (await browser.post("/ui/display", data={"csrf": csrf[1], "theme": "dark"})).status_code == 303
    ((sent, authorization),) = provider.seen
    assert (authorization.startswith("Basic "), "client_secret" in sent) == (True, False)
    written = (
        str(lines)
        + entered.text
        + session
        + repr(Settings.from_env({}, database_url="postgresql://", oidc_client_secret="q"))
    )
    for hidden in (SECRET, sent["code"], sent["code_verifier"], "client_secret", authorization):
        assert hidden not in written
    assert (await browser.post("/ui/logout", data={"csrf": csrf[1]})).status_code == 303
    assert (await browser.get("/ui/")).status_code == 303


async def test_a_session_ends_with_the_id_token_and_after_12_hours_at_most(
    browser: httpx.AsyncClient, provider: Provider, clock: SettableClock
) -> None:
    for lasts, ends in ((timedelta(minutes=5), timedelta(minutes=5)), (timedelta(days=9), SESSION)):
        begun = clock.now()
        provider.changed = {"iat": begun.timestamp(), "exp": (begun + lasts).timestamp()}
        assert (await log_in(browser)).status_code == 200
        clock.advance(ends - timedelta(seconds=1))
        assert (await browser.get("/ui/find")).status_code == 200
        clock.advance(timedelta(seconds=1))
        assert (await browser.get("/ui/find")).status_code == 303


async def test_id_tokens_that_say_something_else_begin_no_session(
    browser: httpx.AsyncClient, provider: Provider, key: RSAKey
) -> None:
    for claims, why in (
        ({"nonce": "other"}, "The token is of another login."),
        ({"nonce": None}, "The token is of another login."),
        ({"nonce": ["x"]}, "The token is of another login."),
        ({"exp": NOW.timestamp()}, "The token expired at 2026-03-01T06:00:00"),
        ({"exp": None}, "The token has no expiry."),
        ({"aud": "streamsched"}, "The token is for another audience than pages."),
        ({"aud": ["pages", "x"]}, "The token was issued to another client than pages."),
        ({"azp": "x"}, "The token was issued to another client than pages."),
        ({"iss": "https://evil.example"}, "The token is of another issuer"),
        ({"groups": ["guests"]}, "names no role of this installation."),
        ({"sub": ""}, "The token has no claim"),
    ):
        provider.changed = claims
        answer = await log_in(browser)
        assert (answer.status_code, why in sentence(answer).replace("&#39;", "'")) == (401, True), answer.text
    provider.changed = {}
    assert key.kid is not None
    provider.keys[0] = RSAKey.generate_key(2048, {"kid": key.kid})
    provider.client = Client("pages", (BACK,), SECRET)
    assert "signature" in sentence(await log_in(browser))
    assert (await browser.get("/ui/")).status_code == 303


async def test_a_login_is_of_one_browser_and_ends_once(
    browser: httpx.AsyncClient, services: Services, provider: Provider, clock: SettableClock
) -> None:
    back = await at_provider(await leave(browser))
    async with pages(services) as other:
        assert "begun in another browser" in sentence(await other.get(back, headers=LINK))
        await leave(other)
        assert "another login than the last one" in sentence(await other.get(back, headers=LINK))
    name = attempt_cookie(browser)
    kept = browser.cookies[name]
    for wrong in (back.replace("state=", "state=x"), back.partition("?")[0], f"{BACK}?code=x&state=%ED%A0%80"):
        assert "another login than the last one" in sentence(await browser.get(wrong, headers=LINK))
    for forged in (kept[:-2], kept.replace("attempt.", "person."), "a.b.c.d", ""):
        browser.cookies.clear()
        assert "begun in another browser" in sentence(
            await browser.get(back, headers={**LINK, "Cookie": f"{name}={forged}"})
        )
    sent = {**LINK, "Cookie": f"{name}={kept}"}
    assert (await browser.get(back, headers=sent)).status_code == 200
    browser.cookies.clear()
    again = await browser.get(back, headers=sent)
    assert (again.status_code, sentence(again)) == (401, "This login has ended; log in again.")
    async with pages(services) as process:  # another one, which has not seen the login
        assert "does not accept this login any more" in sentence(await process.get(back, headers=sent))
    late = await at_provider(await leave(browser))
    clock.advance(ATTEMPT)
    assert "took too long" in sentence(await browser.get(late, headers=LINK))


async def test_no_code_of_the_flow_is_a_session(browser: httpx.AsyncClient) -> None:
    await leave(browser)
    attempt = browser.cookies[attempt_cookie(browser)]
    name = attempt_cookie(browser).removesuffix("_login")
    for text in (attempt, attempt.replace("attempt.", "person.", 1), "person.W10.99999999999.x", "person...."):
        browser.cookies.clear()
        assert (await browser.get("/ui/", headers={"Cookie": f"{name}={text}"})).status_code == 303


async def test_pages_of_others_are_not_opened_after_a_login(browser: httpx.AsyncClient) -> None:
    for wanted in (
        "https://evil.example/ui/",
        "//evil.example/ui/",
        "/\\evil.example/ui/",
        "javascript:alert(1)",
        "http://[",
        "/ui/\n//evil.example",
        "/v1/apps",
        "/ui/" + "x" * 5000,
    ):
        answer = await log_in(browser, next=wanted)
        assert 'content="0;url=/ui/"' in answer.text, (wanted, answer.text)
        assert "evil" not in answer.text


async def test_an_answer_of_the_provider_that_is_an_error(browser: httpx.AsyncClient, provider: Provider) -> None:
    for error, status, text in (
        ("access_denied", 401, "The OpenID provider has refused the login: access_denied."),
        ("temporarily_unavailable", 503, "The OpenID provider cannot log you in now: temporarily_unavailable."),
        ("<script>alert(1)</script>", 401, "The OpenID provider has refused the login: an unknown error."),
    ):
        provider.error = error
        answer = await log_in(browser, next="/ui/runs")
        assert (answer.status_code, sentence(answer)) == (status, text)
        assert "next=%2Fui%2Fruns" in answer.text
        assert attempt_cookie_ended(answer)
    provider.error = ""
    back = dict(parse_qsl(urlsplit(await at_provider(await leave(browser))).query))
    foreign = await browser.get(BACK, params={**back, "iss": "https://evil.example"}, headers=LINK)
    assert "Another OpenID provider answers" in sentence(foreign)
    await leave(browser)
    state = dict(parse_qsl(urlsplit(await leave(browser)).query))["state"]
    assert "without a code" in sentence(await browser.get(BACK, params={"state": state}, headers=LINK))


def attempt_cookie_ended(answer: httpx.Response) -> bool:
    cookie = answer.headers["set-cookie"]
    return "_login=" in cookie and "Max-Age=0" in cookie


async def test_a_provider_that_is_away_or_does_not_know_the_client(
    browser: httpx.AsyncClient, provider: Provider, clock: SettableClock
) -> None:
    provider.down = True
    answer = await browser.get("/ui/login/oidc?next=/ui/runs")
    assert answer.status_code == 503
    assert "cannot be read at" in sentence(answer)
    provider.down = False
    assert (await browser.get("/ui/login/oidc")).status_code == 503, "a failure answers the next logins too"
    clock.advance(RETRY)
    back = await at_provider(await leave(browser))
    provider.down = True
    answer = await browser.get(back, headers=LINK)
    assert (answer.status_code, "does not exchange the login" in sentence(answer)) == (503, True)
    provider.down = False
    provider.client = Client("pages", (BACK,), "changed")
    answer = await log_in(browser)
    assert (answer.status_code, "invalid_client" in sentence(answer)) == (503, True)
    for document, why in (
        ({"authorization_endpoint": "javascript:alert(1)"}, "names no address at which people log in"),
        ({"authorization_endpoint": None}, "names no address at which people log in"),
        ({"issuer": "http://evil.example"}, "calls itself another issuer"),
    ):
        clock.advance(FRESH)
        provider.discovery = document
        answer = await browser.get("/ui/login/oidc")
        assert (answer.status_code, why in sentence(answer)) == (503, True)


async def test_a_public_client_and_one_that_sends_its_secret_in_the_form(
    services: Services, provider: Provider
) -> None:
    for secret, methods in (("", ["none"]), (SECRET, ["client_secret_post"])):
        provider.client = Client("pages", (BACK.replace("http:", "https:"),), secret)
        provider.discovery = {"token_endpoint_auth_methods_supported": methods}
        settings = settings_for(services.settings.database_url, provider, oidc_client_secret=secret)
        async with pages(replace(services, settings=settings), base_url="https://localhost") as browser:
            answer = await log_in(browser)
            assert answer.status_code == 200, answer.text
            assert all(
                "Secure" in cookie for cookie in answer.headers.get_list("set-cookie") if "Max-Age=3600" in cookie
            )
        form, authorization = provider.seen[-1]
        assert (form.get("client_secret", ""), form["client_id"], authorization) == (secret, "pages", "")


async def test_roles_of_a_session_give_what_the_settings_say_now(
    browser: httpx.AsyncClient, services: Services, provider: Provider
) -> None:
    assert (await log_in(browser)).status_code == 200
    for others, status in (
        ({}, 200),
        ({"oidc_roles": "ops=viewer"}, 403),
        ({"oidc_roles": "sales=operator"}, 303),
        ({"oidc_client_id": ""}, 303),
        ({"oidc_issuer": "https://other.example"}, 303),
    ):
        settings = settings_for(services.settings.database_url, provider, **others)
        async with pages(replace(services, settings=settings), cookies=browser.cookies) as later:
            assert (await later.get("/ui/dead-letters")).status_code == status, others


async def test_without_a_client_there_is_no_way_to_the_provider(services: Services, provider: Provider) -> None:
    settings = settings_for(services.settings.database_url, provider, oidc_client_id="")
    async with pages(replace(services, settings=settings)) as browser:
        assert "/ui/login/oidc" not in (await browser.get("/ui/login")).text
        for path in ("/ui/login/oidc", "/ui/login/oidc/callback?code=x&state=y"):
            answer = await browser.get(path)
            assert (answer.status_code, "with tokens only" in sentence(answer)) == (404, True)
