"""Pages with the longest names and texts, in Chromium: nothing is wider than its card, at any width.

`SCREENSHOTS=FOLDER` keeps pictures of all pages there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import httpx
import pytest

from tests.support.api_routes import rules_of_pages
from tests.support.browser_site import FLAGS, Site
from tests.support.dev_process import DevProcess
from tests.support.services import need_module, need_program

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.postgres, pytest.mark.long, pytest.mark.timeout(300)]

WIDTHS: Final = (1440, 1280, 1024, 821, 768, 390)
#: Names as long as people are likely to make them, one without any place to break a line and one with many.
SOLID, PARTED = "x" * 200, "-".join(["part"] * 40)
#: An app whose runs start, and one whose ids are three such names long, too long for the names of files.
APPS: Final = {
    "one.py": f"""
from streamsched import App, cron, event, every, group, partitions

app = App("one")
solid, parted = "{SOLID}", "{PARTED}"
noise = "for i in $(seq 1 600); do echo line $i of the log; done; echo " + "y" * 3000
noise += " >&2; echo the last words; exit 3"
fail, wait = app.bash(solid, noise), app.bash(parted, "echo begins; sleep 600")
full = [group("slots", 1)]
app.schedule(solid, fail, when=partitions(solid, 1), description=solid, properties={{"name": solid}})
app.schedule(parted, wait, when=partitions(parted, 1), constraints=full)
app.schedule("tick-" + solid[:190], fail, when=cron("* * 1 1 *") | every("1h"))
app.schedule("keys-" + solid[:190], wait, when=(partitions(solid, 1) & partitions("missing", 1)).per("date"))
app.expect(solid, by="00:01")
""",
    "long.py": f"""
from streamsched import App, cron, event, group, partitions

app = App("{SOLID}")
wait = app.bash("{PARTED}", "true")
for name in ("{PARTED}", "{SOLID}"):
    app.schedule(name, wait, when=partitions("{PARTED}", 1) | event(name), constraints=[group("slots", 1)])
app.schedule("tick-" + "{SOLID}"[:190], wait, when=cron("*/7 * * * *"), constraints=[group("slots", 1)])
app.task("node-" + "{SOLID}"[:190], wait, job_id="{{date}}", constraints=[group("slots", 1)])
""",
}
#: What leaves its card or the page: not within anything that scrolls.
OVERFLOW: Final = """() => {
  const wrong = [], whole = document.documentElement.scrollWidth;
  const scrolls = (e) => /auto|scroll|hidden/.test(getComputedStyle(e).overflowX) || e.classList.contains("hidden");
  const what = (e) => `<${e.tagName} ${e.className} ${e.id}> ${(e.textContent || "").trim().slice(0, 40)}`;
  if (whole > innerWidth) wrong.push(`the page is ${whole} wide`);
  for (const e of document.querySelectorAll("header *, main *, footer *")) {
    const box = e.getBoundingClientRect();
    if (!box.width || !box.height || !e.checkVisibility()) continue;
    for (let up = e.parentElement; up; up = up.parentElement) {
      if (scrolls(up)) break;
      if (up.matches(".card, .tiles a, td, main, header, footer")) {
        if (box.right > up.getBoundingClientRect().right + 1) wrong.push(`${what(e)} leaves ${what(up)}`);
        if (!up.matches("td")) break;
      }
    }
  }
  return wrong.slice(0, 5);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    need_module("playwright", "dev")
    chromium = need_program("chromium", "chromium")
    from playwright.sync_api import sync_playwright

    dev = DevProcess(tmp_path_factory.mktemp("layout"))
    for name, text in APPS.items():
        (dev.folder / name).write_text(text)
    try:
        link = dev.start().partition("page: ")[2].split()[0]
        for name in APPS:
            deployed = dev.run("deploy", name, "--yes")
            assert deployed.code == 0, deployed.err
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
            found = Site(dev, link.partition("/ui")[0], link, browser)
            found.emit(SOLID, "date=2013-03-01", f"date={SOLID}")
            dev.until(lambda: found.read("/v1/runs?state=FAILED")["runs"])
            for app in (f"default.one.{PARTED}", f"default.{SOLID}.{PARTED}"):
                found.emit(PARTED, f"app={app[8:11]}")
                dev.until(lambda app=app: found.read(f"/v1/jobs?schedule={app}")["jobs"])
            yield found
            browser.close()
    finally:
        dev.close()


def made(site: Site) -> dict[str, str]:
    """What the parameters of paths stand for. Queues, webhooks and the like are made here."""
    with httpx.Client(base_url=site.url, headers=site.dev.authorization, timeout=30) as client:

        def send(method: str, path: str, body: object) -> None:
            answer = client.request(method, path, json=body)
            assert answer.is_success, (path, answer.text)

        send("PUT", f"/v1/queues/{SOLID}", {"target": {"type": "worker"}, "reason": SOLID})
        send("POST", f"/v1/queues/{SOLID}/tasks", {"key": SOLID, "lane": SOLID, "text": SOLID})
        send("PUT", f"/v1/pools/{SOLID}", {"size": 2, "reason": SOLID})
        send("PUT", f"/v1/groups/{SOLID}", {"limit": 2, "reason": SOLID})
        schedule = f"default.one.{SOLID}"
        hook = {"name": SOLID[:60], "url": f"https://x.example.com/{SOLID}", "schedules": [schedule]}
        send("POST", "/v1/namespaces/default/webhooks", hook)
        send(
            "POST",
            f"/v1/schedules/default.one.tick-{SOLID[:190]}/backfills",
            {"from": "2026-01-01", "to": "2026-01-02", "reason": SOLID},
        )
        graph = {"task": f"node-{SOLID[:190]}", "jobIds": [SOLID]}
        send("POST", f"/v1/graphs/default/{SOLID}/submit", graph)
        backfill = client.get("/v1/backfills").json()["backfills"][0]["id"]
    job = site.read("/v1/jobs?state=PENDING_CONSTRAINT")["jobs"][0]["id"]
    run = site.read("/v1/runs?state=FAILED")["runs"][0]["id"]
    return {
        "schedule": schedule,
        "ticking": f"default.one.tick-{SOLID[:190]}",
        "job": job,
        "run": run,
        "backfill": backfill,
        "name": f"default.{SOLID}",
        "namespace": "default",
        "app": SOLID,
        "queue": SOLID,
        "webhook": SOLID[:60],
    }


def addresses(names: dict[str, str]) -> Iterator[str]:
    """The address of every page, by the table of their rules, but of those about what there is none of here."""
    for name in rules_of_pages():
        method, path = name.split(" ")
        parameters = re.findall(r"\{(\w+)\}", path)
        if method == "GET" and set(parameters) <= names.keys() and not path.endswith(("/log", "/live")):
            queries = {
                "/ui/find": f"?q={SOLID[:5]}",
                "/ui/event": f"?id={SOLID}",
                "/ui/schedules/{schedule}/backfill": "?from=2026-01-01&to=2026-01-05",
            }
            ticking = {**names, "schedule": names["ticking"]} if path.endswith("/backfill") else names
            yield re.sub(r"\{(\w+)\}", lambda found, given=ticking: given[found[1]], path) + queries.get(path, "")
            if path == "/ui/runs":
                yield f"{path}?view=calendar"
    for schedule in (f"default.one.keys-{SOLID[:190]}", f"default.one.tick-{SOLID[:190]}"):
        yield f"/ui/schedules/{schedule}"


def test_nothing_leaves_its_card_on_any_page_at_any_width(site: Site) -> None:
    kept, problems = os.environ.get("SCREENSHOTS"), list[str]()
    with site.context() as context:
        page = context.pages[0]
        for number, path in enumerate(addresses(made(site))):
            page.set_viewport_size({"width": 1440, "height": 860})
            answer = page.goto(path)
            assert answer is not None
            if answer.status >= 400:
                problems.append(f"{path[:60]}: {answer.status}")
            page.evaluate("for (const each of document.querySelectorAll('main details')) each.open = true")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 860})
                if kept:
                    page.screenshot(
                        path=f"{kept}/{number:02d}-{re.sub(r'[^a-z]+', '-', path[4:24])}-{width}.png", full_page=True
                    )
                problems += [f"{path[:60]} at {width}: {each[:160]}" for each in page.evaluate(OVERFLOW)]
    assert not problems, "\n".join(problems)
    assert site.wrong == []


@pytest.mark.parametrize("scripts", [True, False])
def test_the_error_and_the_end_of_the_log_of_a_failed_run_are_seen_at_once(site: Site, *, scripts: bool) -> None:
    run = site.read("/v1/runs?state=FAILED")["runs"][0]["id"]
    with site.context(java_script_enabled=scripts) as context:
        page = context.pages[0]
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(f"/ui/runs/{run}")
        if scripts:
            page.wait_for_selector("#log-state >> text=complete")
        assert "exit code 3" in page.inner_text("#error")
        bottom, log = bottom_of(page, "#error p"), bottom_of(page, "#log-box")
        assert bottom < log <= 800
        assert page.inner_text("#log-text").rstrip().endswith("the last words")
        assert bottom_of(page, "#log-text") <= log  # scrolled to its end


def bottom_of(page: Page, selector: str) -> float:
    box = page.locator(selector).bounding_box()
    assert box is not None
    return box["y"] + box["height"]
