"""Home and schedules as people read them, and the actions of a schedule."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from streamsched.domain.access.grant import Caller, Grant
from streamsched.domain.access.permission import AccessRole
from streamsched.roles.services import Services
from streamsched.store.web.page_reads import DataVersion, PageReads
from streamsched.web.live import LiveFeed
from tests.integration.web.conftest import Browser, LogIn
from tests.support.run_joins import after, open_key, shop
from tests.support.world import StoredWorld

pytestmark = pytest.mark.postgres

HOSTILE = "<img src=x onerror=alert(1)>"
APP = {
    "programs": [{"name": "join", "type": "bash", "command": "true"}],
    "schedules": [
        {
            "name": f"s{number}",
            "program": "join",
            "trigger": {
                "type": "AND",
                "triggers": [
                    {"type": "PARTITION", "dataset": "flights", "numPartitions": 7},
                    {"type": "EVENT", "event": "done", "match": {"name": HOSTILE}},
                ],
            },
        }
        for number in range(60)
    ],
}


async def deployed(log_in: LogIn, app: dict[str, object] | None = None) -> Browser:
    browser = await log_in()
    answer = await browser.http.put("/v1/apps/default/flights", json=app or APP, headers=browser.authorization)
    assert answer.status_code == 200, answer.text
    return browser


async def test_empty_pages_teach_the_next_step(log_in: LogIn) -> None:
    browser = await log_in()
    for path in ("/ui/", "/ui/schedules"):
        assert "streamsched deploy app.py" in (await browser.get(path)).text
    assert "No schedule is like that" in (await browser.get("/ui/schedules", q="nothing")).text


async def test_schedules_are_found_and_paged(log_in: LogIn) -> None:
    browser = await deployed(log_in)
    first = (await browser.get("/ui/schedules", q="FLIGHTS.S")).text
    assert first.count('<tr id="s-') == 50
    following = first.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0].replace("&amp;", "&")
    assert "q=FLIGHTS.S" in following
    second = (await browser.http.get(following)).text
    assert second.count('<tr id="s-') == 10
    assert not set(ids(first)) & set(ids(second))
    assert ids((await browser.get("/ui/schedules", q="s17")).text) == ["default.flights.s17"]
    assert ids((await browser.get("/ui/schedules", q="flights.join")).text) == ids(first)
    assert ids((await browser.get("/ui/schedules", state="paused")).text) == []
    assert ids((await browser.get("/ui/schedules", q="%_")).text) == []


def ids(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split('<tr id="s-')[1:]]


async def test_a_schedule_says_what_it_waits_for_and_hostile_texts_are_only_shown(log_in: LogIn) -> None:
    browser = await deployed(log_in)
    page = (await browser.get("/ui/schedules/default.flights.s1")).text
    assert "Its trigger is not complete. It waits for <b>7 new partitions of flights</b> (0 of 7)" in page
    assert "<img" not in page
    assert "&lt;img src=x" in page
    missing = await browser.get("/ui/schedules/default.flights.nothing")
    assert (missing.status_code, "Not found" in missing.text) == (404, True)
    wrong = await browser.get(f"/ui/schedules/{HOSTILE}")
    assert (wrong.status_code, "<img" in wrong.text) == (400, False)


async def test_pause_resume_and_run(log_in: LogIn) -> None:
    browser = await deployed(log_in)
    page = "/ui/schedules/default.flights.s1"
    assert (await browser.send(f"{page}/pause", mode="keep", until="2h", note="<b>disks</b>")).status_code == 303
    paused = (await browser.get(page, done="paused")).text
    assert "It is <b>paused</b> since" in paused
    assert "“&lt;b&gt;disks&lt;/b&gt;”" in paused
    assert "It is paused." in paused
    assert "It resumes by itself" in paused
    assert ids((await browser.get("/ui/schedules", state="paused")).text) == ["default.flights.s1"]
    again = await browser.send(f"{page}/pause", mode="nonsense")
    assert (again.status_code, "mode" in again.text) == (400, True)
    assert (await browser.send(f"{page}/resume", note="moved")).status_code == 303
    assert (await browser.send(f"{page}/resume")).status_code == 409
    made = await browser.send(f"{page}/run", arguments="day=1\nx=a=b", note="by ana")
    assert (made.status_code, made.headers["location"].startswith("/ui/jobs/default.flights.s1.submitted-")) == (
        303,
        True,
    )
    assert (await browser.send(f"{page}/run", arguments="nonsense")).status_code == 400
    body = (await browser.http.get("/v1/schedules/default.flights.s1/history", headers=browser.authorization)).json()
    assert [each["action"] for each in body["history"]] == ["resumed", "paused", "created"]
    assert body["history"][0]["reason"] == "token:t0 on the page: moved"
    audited = (await browser.http.get("/v1/audit", headers=browser.authorization)).json()["entries"]
    assert "POST /ui/schedules/{schedule}/pause" in {each["action"] for each in audited}


async def test_theme_and_zone_stick(log_in: LogIn) -> None:
    browser = await deployed(log_in)
    back = await browser.send("/ui/display", theme="dark", next="/ui/schedules?q=s1")
    assert back.headers["location"] == "/ui/schedules?q=s1"
    await browser.send("/ui/display", zone="Asia/Tokyo", next="//evil.example")
    page = (await browser.get("/ui/schedules/default.flights.s1")).text
    assert ('<html lang="en" data-theme="dark">' in page, "Asia/Tokyo" in page) == (True, True)
    await browser.send("/ui/display", zone="../../etc/passwd")
    assert (await browser.get("/ui/")).status_code == 200


VIEWER = Caller("token:a", (Grant(role=AccessRole.VIEWER),))


async def permitted() -> None: ...


async def test_open_pages_share_one_poller_and_are_notified_of_changes(log_in: LogIn, services: Services) -> None:
    reads = PageReads(services.pool)
    polled = 0

    async def version() -> DataVersion:
        nonlocal polled
        polled += 1
        return await reads.version()

    feed = LiveFeed(version, every_s=0.02)
    pages = [feed.follow(VIEWER, permitted) for _ in range(20)]
    first = [await anext(page) for page in pages]
    assert first[-1] == b"retry: 3000\nevent: open\ndata: 5000\n\n"  # 20 pages, 4 reads a second
    for page in pages:
        assert b"event: changed" in await anext(page)
    before = polled
    await deployed(log_in)
    async with asyncio.timeout(5):
        assert b"event: changed" in await anext(pages[3])
    assert feed.open_pages == 20
    assert polled > before
    for page in pages:
        await page.aclose()  # type: ignore[attr-defined]
    assert feed.open_pages == 0
    ended = polled
    await asyncio.sleep(0.1)
    assert polled <= ended + 1
    feed.close()
    assert [notice async for notice in feed.follow(VIEWER, permitted)] == [b"retry: 3000\nevent: open\ndata: 1000\n\n"]


async def test_an_open_key_of_a_join_per_run_names_the_run_that_failed(log_in: LogIn, services: Services) -> None:
    browser = await log_in()
    answer = await browser.http.put("/v1/apps/default/shop", json=shop(after("b", "c")), headers=browser.authorization)
    assert answer.status_code == 200, answer.text
    await open_key(services.pool)
    page = (await browser.get("/ui/schedules/default.shop.d")).text
    assert "job shop.a.1.1; shop.b failed in run shop.b.1.1.r1: exit code 1; a rerun of it completes this key" in page


async def test_a_schedule_says_which_events_had_no_key(log_in: LogIn, services: Services) -> None:
    browser = await deployed(log_in)
    path = "/ui/schedules/default.flights.s1"
    assert 'id="keyless"' not in (await browser.get(path)).text
    progress = {
        "text": "x",
        "have": 0,
        "need": 1,
        "keyless_events": 1200,
        "keyless_why": f"hour='{HOSTILE}' names no hour",
    }
    await StoredWorld(services.pool).add_progress("default.flights.s1", progress, datetime.now(UTC))

    page = (await browser.get(path)).text

    assert "1,200 events had no key, or not for all partitions: hour=&#39;&lt;img src=x" in page
    assert "<img" not in page
