"""A person with a browser: what they do on the pages of a real `streamsched dev`, in Chromium.

`SCREENSHOTS=FOLDER` keeps pictures of all pages there; with `UPDATE_DOCS=1` the one of README, tutorial and how-to is
written.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.support.browser_site import FLAGS, HOSTILE, Site, append_unreadable
from tests.support.dev_process import DevProcess
from tests.support.made_files import are_written
from tests.support.services import need_module, need_program

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(240)]

ROOT: Final = Path(__file__).parents[2]
PICTURE: Final = ROOT / "docs" / "how-to" / "use-the-page.png"
APP: Final = f"""
from streamsched import App, cron, every, event, group, partitions, program

app = App("flights")
join = app.bash("join", "for i in $(seq 1 400); do echo line $i of the join; sleep 0.2; done")
load = app.bash("load", "echo begins; sleep 600")
export = app.bash("export", 'echo "{HOSTILE}"; exit 3')
hello = app.bash("hello", "echo hello")
one = [group("warehouse", 1)]
app.schedule("weekly-join", join, when=partitions("flights", 7) & partitions("weather", 7), max_concurrent=1)
app.schedule("load", load, when=partitions("orders", 1), constraints=one)
app.schedule("billing", hello, when=partitions("invoices", 1), constraints=one)
app.schedule("export", export, when=partitions("exports", 1))
app.schedule("nightly", hello, when=cron("30 2 * * *", zone="Europe/Berlin"))
app.schedule("daily", app.publish("mark", "marked"), when=cron("15 4 * * *"))
app.schedule("hourly", hello, when=every("1h"))
app.schedule("per-day", hello, when=(partitions("flights", 1) & partitions("snow", 1)).per("date"))
app.schedule("hostile", hello, when=event("e", match={{"name": '{HOSTILE}'}}))
"""
#: Pages that are checked in both themes and at both widths.
PAGES: Final = (
    "",
    "schedules",
    "schedules?q=nothing",
    "schedules/default.flights.weekly-join",
    "schedules/default.flights.billing",
    "schedules/default.flights.nightly",
    "schedules/default.flights.per-day",
    "schedules/default.flights.hostile",
    "jobs",
    "jobs/default.flights.billing.1.1",
    "runs",
    "runs/default.flights.export.1.1.r1",
    "runs/default.flights.nothing.1.1.r1",
    "find?q=flights",
    "schedules/default.flights.weekly-join/versions",
    "schedules/default.flights.nightly/backfill?from=2026-01-01&to=2026-01-07",
    "runs?view=calendar",
    "datasets",
    "datasets/default.flights",
    "events",
    "event?id=flights-date=2013-03-01",
    "dead-letters",
    "dead-letters/purge",
    "graph",
    "limits",
    "queues",
    "webhooks",
    "backfills",
    "admin",
    "admin/tokens",
    "admin/audit",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_module("playwright", "dev")
    chromium = need_program("chromium", "chromium")
    from playwright.sync_api import sync_playwright

    dev = DevProcess(tmp_path_factory.mktemp("pages"))
    (dev.folder / "app.py").write_text(APP)
    try:
        said = dev.start()
        link = said.partition("page: ")[2].split()[0]
        deployed = dev.run("deploy", "app.py", "--yes")
        assert deployed.code == 0, deployed.err
        asyncio.run(append_unreadable(dev))
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            found = Site(dev, link.partition("/ui")[0], link, browser)
            found.emit("orders", "a=1")
            dev.until(lambda: found.read("/v1/runs?program=default.flights.load")["runs"])
            found.emit("exports", "a=1")
            found.emit("invoices", "a=1")
            found.emit("flights", *(f"date=2013-03-0{day}" for day in (1, 2, 3, 4, 6)))
            found.emit("weather", *(f"date=2013-03-0{day}" for day in range(1, 8)))
            failed = "/v1/runs?state=FAILED"
            waiting = "/v1/jobs?state=PENDING_CONSTRAINT&schedule=default.flights.billing"
            dev.until(lambda: found.read(failed)["runs"] and found.read(waiting)["jobs"])
            dev.until(lambda: found.read("/v1/schedules/default.flights.per-day")["openKeys"] == 5)
            yield found
            browser.close()
    finally:
        dev.close()


@pytest.fixture(scope="module")
def window(site: Site) -> Iterator[BrowserContext]:
    """A logged in window that all journeys share."""
    found = site.context()
    yield found
    found.close()


@pytest.fixture
def page(site: Site, window: BrowserContext) -> Iterator[Page]:
    found = window.new_page()
    site.watch(found)
    yield found
    found.close()
    assert site.wrong == []


def test_logging_in_by_token_and_by_link(site: Site) -> None:
    with site.browser.new_context(base_url=site.url) as context:
        page = context.new_page()
        page.goto("/ui/schedules?q=load")
        page.fill("#token", "sst_" + "0" * 12 + "_" + "A" * 43)
        page.keyboard.press("Enter")
        assert page.inner_text("[role=alert]") == "The token is unknown."
        page.fill("#token", site.dev.token)
        page.keyboard.press("Enter")
        page.wait_for_url("**/ui/schedules?q=load")
        assert page.locator("table.rows tbody tr").count() == 1
        assert page.locator("tbody td", has_text="load").count()
        page.click("text=Log out")
        page.wait_for_url("**/ui/login")
        page.goto(site.link)
        page.wait_for_url("**/ui/")
        assert [cookie.get("httpOnly") for cookie in context.cookies() if "session" in cookie.get("value", "")] == [
            True
        ]
        assert page.evaluate("document.cookie") == ""


def test_pages_look_right_and_are_accessible_in_both_themes_and_at_phone_width(site: Site) -> None:
    from axe_playwright_python.sync_playwright import Axe

    axe, kept, problems = Axe(), os.environ.get("SCREENSHOTS"), list[str]()
    for theme, width in (("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)):
        with site.context(color_scheme=theme) as context:
            page = context.pages[0]
            page.set_viewport_size({"width": width, "height": 860})
            for path in PAGES if kept or (theme, width) != ("dark", 390) else ():
                page.goto(f"/ui/{path}")
                page.wait_for_selector("#live:not([hidden])")
                if kept:
                    name = re.sub(r"\W+", "-", path) or "home"
                    page.screenshot(path=f"{kept}/{name}-{theme}-{width}.png", full_page=True)
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    problems.append(f"{path} is wider than {width}")
                if width == 1280:  # the rules do not depend on the width, and only those of contrast on the theme
                    rules = {"runOnly": ["color-contrast"]} if theme == "dark" else {}
                    found = axe.run(page, options={"resultTypes": ["violations"], **rules})
                    problems += [
                        f"{theme} {path}: {each['id']} {each['nodes'][0]['html'][:200]}"
                        for each in found.response["violations"]
                    ]
                if path.startswith("schedules/default.flights.billing") and (theme, width) == ("light", 1280):
                    _write_picture(page)
    assert problems == []
    assert site.wrong == []


def _write_picture(page: Page) -> None:
    """The picture of README, tutorial and how-to."""
    if are_written():
        page.screenshot(path=PICTURE)
    assert PICTURE.stat().st_size < 150_000


def test_nothing_hostile_runs(site: Site, page: Page) -> None:
    for path in ("schedules/default.flights.hostile", "runs/default.flights.export.1.1.r1", f"schedules?q={HOSTILE}"):
        page.goto(f"/ui/{path}")
        page.wait_for_selector("#live:not([hidden])")
        assert page.evaluate("window.ran") is None
        assert page.locator("main img, main script").count() == 0
        assert "onerror" in page.content()
    assert HOSTILE in page.input_value("#filter")


def test_finding_why_a_job_waits_and_releasing_it(site: Site, page: Page) -> None:
    page.goto("/ui/")
    assert "slots of group warehouse are taken" in page.inner_text("text=Waiting longest >> xpath=..")
    page.click("section:has-text('Waiting longest') >> text=flights.billing.1.1 >> nth=0")
    page.wait_for_url("**/ui/jobs/default.flights.billing.1.1")
    assert page.locator("#answer a", has_text="flights.load.1.1.r1").count()
    assert "of load" in page.inner_text("#answer")
    page.click("text=Hold…")
    page.fill("#act-hold input[name=note]", "it's the quarter's end")
    page.click("#act-hold button")
    page.wait_for_selector("text=It is held until it is released")
    assert "it's the quarter's end" in page.inner_text("#answer")
    page.click("text=Start anyway…")
    assert "streamsched job force flights.billing.1.1" in page.inner_text("#act-force")
    page.click("#act-force button")
    page.wait_for_selector("#state >> text=completed")  # without a reload
    assert page.url.endswith("?done=force")


def test_pausing_a_schedule_and_resuming_it(site: Site, page: Page) -> None:
    page.goto("/ui/schedules")
    page.keyboard.press("/")
    page.keyboard.type("weekly")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=weekly*")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/default.flights.weekly-join")
    assert "7 new partitions of flights (5 of 7)" in page.inner_text("#answer")
    page.click("text=Pause…")
    page.fill("#act-pause input[name=note]", "disks are moved")
    page.click("#act-pause button")
    page.wait_for_selector("#state >> text=paused")
    assert "disks are moved" in page.inner_text("#answer")
    page.click("text=Resume…")
    page.click("#act-resume button")
    page.wait_for_selector("#state >> text=enabled")


def test_spotting_a_missing_partition(site: Site, page: Page) -> None:
    page.goto("/ui/schedules/default.flights.weekly-join")
    row = page.locator("table.matrix tbody tr", has_text="date=2013-03-05")
    assert row.inner_text().split() == ["date=2013-03-05", "missing", "✓", "arrived"]  # of flights; of weather
    page.goto("/ui/schedules/default.flights.per-day")
    assert page.locator("table.matrix tbody tr").first.inner_text().split() == [
        *("2013-03-01", "✓", "arrived"),
        "missing",
    ]
    page.locator("table.matrix tbody tr").first.locator("a").click()
    page.wait_for_url("**/ui/event?id=flights-date*")
    assert "per-day" in page.inner_text("main")
    page.click("main >> text=flights >> nth=0")
    page.goto("/ui/datasets/default.flights")
    assert "Missing: 2013-03-05." in page.inner_text("#answer")
    assert "5 of 7" in page.locator("#answer tr", has_text="weekly-join").inner_text()


def test_replaying_a_dead_letter_and_purging(site: Site, page: Page) -> None:
    page.goto("/ui/events")
    page.click("main >> text=Dead letters")
    page.wait_for_selector("tr:has-text('0/1')")
    assert "is missing" in page.locator("tr", has_text="0/0").inner_text()
    page.click("a:text-is('0/0')")
    page.wait_for_url("**/ui/dead-letters/0/0")
    assert '"keys": 7' in page.inner_text("pre.log-text")
    page.click("text=Replay…")
    assert "streamsched dlq replay 0/0" in page.inner_text("#act-replay")
    page.click("#act-replay button")
    page.wait_for_selector("text=It was appended to its topic again")
    page.wait_for_selector("tr:has-text('0/2')")  # the fault is still there; without a reload
    page.click("text=Purge…")
    page.click("text=Archive 3 dead letters")
    page.wait_for_selector("text=There are none")


def test_running_now_and_following_the_log_until_it_is_killed(site: Site, page: Page) -> None:
    page.goto("/ui/schedules/default.flights.weekly-join")
    page.click("text=Run now…")
    page.fill("#act-run textarea", "day=2013-03-08")
    page.click("#act-run button")
    page.wait_for_url("**/ui/jobs/default.flights.weekly-join.submitted-*")
    page.click("#answer td a:text-is('r1')")
    page.wait_for_selector("#log-text:has-text('line 2 of the join')")
    page.wait_for_selector("#log-text:has-text('line 7 of the join')")
    assert "day" in page.inner_text("table.args")
    page.fill("#log-find", "LINE 3 ")
    assert page.inner_text("#log-text").strip() == "line 3 of the join"
    page.fill("#log-find", "")
    page.click("text=Kill…")
    page.click("#act-kill button")
    page.wait_for_selector("#state >> text=killed")


def test_backfilling_a_week(site: Site, page: Page) -> None:
    page.goto("/ui/schedules/default.flights.daily")
    page.keyboard.press(".")  # acts: the first action is open
    assert page.is_visible("#act-pause form")
    page.click("text=Backfill…")
    page.fill("#act-backfill input[name=from]", "2026-01-05")
    page.fill("#act-backfill input[name=to]", "2026-01-11")
    page.click("#act-backfill button")
    page.wait_for_selector("text=It would make 7 jobs")
    assert "streamsched backfill start flights.daily --from 2026-01-05 --to 2026-01-11" in page.inner_text("main")
    page.fill("input[name=note]", "the feed was late")
    page.click("button:has-text('Make 7 jobs')")
    page.wait_for_url("**/ui/backfills/default.flights.daily.*")
    page.wait_for_selector("#answer >> text=7 of 7 jobs have ended: 7 succeeded")  # without a reload
    page.click("text=flights.daily >> nth=0")
    page.wait_for_selector("td:has-text('completed') >> nth=6")


def test_a_page_that_stays_open_does_not_grow(site: Site, page: Page) -> None:
    """The same for longer: `python -m bench.open_pages`."""
    page.goto("/ui/events")
    page.wait_for_selector("#live >> text=live")
    nodes: list[int] = []
    for turn in range(3):
        site.emit("tides", *(f"hour={turn:02d}-{number:02d}" for number in range(50)))
        page.wait_for_selector(f"#list >> text=tides-hour={turn:02d}-49")
        nodes.append(page.evaluate("document.querySelectorAll('*').length"))
    assert page.locator("#list tbody tr").count() == 50
    assert nodes[2] <= nodes[1] + 100, nodes
    assert site.wrong == []


def test_finding_by_a_part_of_a_name(site: Site, page: Page) -> None:
    page.goto("/ui/")
    page.keyboard.press("Control+k")
    page.keyboard.type("nightl")
    page.wait_for_selector("dialog .found a:has-text('flights.nightly')")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/schedules/default.flights.nightly")


def test_rerunning_a_failed_run(site: Site, page: Page) -> None:
    page.goto("/ui/")
    page.click("section:has-text('Failed lately') >> text=flights.export.1.1.r1")
    page.wait_for_selector("#state >> text=failed")
    assert "exit code 3" in page.inner_text("#answer")
    page.click("text=Rerun…")
    page.fill("#act-rerun input[name=note]", "the disk is mended")
    page.click("#act-rerun button")
    page.wait_for_url("**/ui/jobs/default.flights.export.*.rerun-*")
    page.click("#answer td a:text-is('r1')")
    page.wait_for_selector("#answer >> text=Attempts and reruns")
    assert page.locator("#answer a", has_text="flights.export.1.1.r1").count()


def test_pages_work_without_javascript(site: Site) -> None:
    with site.context(java_script_enabled=False) as context:
        page = context.pages[0]
        page.goto("/ui/schedules/default.flights.nightly")
        assert "cron '30 2 * * *' in Europe/Berlin" in page.inner_text("main")
        page.click("text=Pause…")
        page.click("#act-pause button")
        assert "It is paused." in page.inner_text("[role=status]")
        page.goto("/ui/runs/default.flights.export.1.1.r1?find=onerror")
        assert HOSTILE in page.inner_text("#log-text")
        page.click("text=Auto")
        assert page.get_attribute("html", "data-theme") == "dark"


def test_the_mark_says_when_the_server_is_away(site: Site, page: Page) -> None:
    page.goto("/ui/")
    page.wait_for_selector("#live >> text=live")
    page.route("**/ui/**", lambda route: route.abort())
    site.emit("snow", "date=2030-01-01")
    page.wait_for_selector("#live >> text=data from")
    page.unroute("**/ui/**")
    page.wait_for_selector("#live >> text=live")
