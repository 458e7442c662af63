"""A scheduler with a browser on it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import httpx
import orjson

from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Outgoing
from streamsched.store.server.embedded_server import start_server
from tests.support.dev_process import DevProcess

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

HOSTILE: Final = "<img src=x onerror=window.ran=1><script>window.ran=1</script>"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


async def append_unreadable(dev: DevProcess) -> None:
    """Two records that are no events, one with a hostile text, as a producer with a fault writes them to the log."""
    broker = await open_broker(start_server(dev.state / "postgres").url)
    try:
        texts = (b'{"dataset": "orders", "keys": 7}', orjson.dumps({"type": HOSTILE}))
        await broker.append([Outgoing("partitions", 0, None, text) for text in texts])
    finally:
        await broker.close()


@dataclass
class Site:
    """The scheduler and a browser on it. `wrong`: what pages said that they should not."""

    dev: DevProcess
    url: str
    link: str
    browser: Browser
    wrong: list[str] = field(default_factory=list)

    def emit(self, dataset: str, *partitions: str) -> None:
        """Announces partitions, each in an event of its own."""
        headers = {**self.dev.authorization, "Content-Type": "application/cloudevents-batch+json"}
        batch = [
            {
                "specversion": "1.0",
                "id": f"{dataset}-{partition}",
                "source": "test",
                "type": "streamsched.partitions.added",
                "data": {"dataset": f"default.{dataset}", "partitions": [partition]},
            }
            for partition in partitions
        ]
        answer = httpx.post(f"{self.url}/v1/events", content=orjson.dumps(batch), headers=headers, timeout=30)
        assert answer.status_code == 202, answer.text

    def read(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", headers=self.dev.authorization).json()

    def context(self, **options: Any) -> BrowserContext:
        """A browser window of its own, logged in."""
        found = self.browser.new_context(base_url=self.url, viewport={"width": 1280, "height": 860}, **options)
        found.set_default_timeout(15_000)
        page = found.new_page()
        self.watch(page)
        page.goto("/ui/login")
        page.fill("#token", self.dev.token)
        page.click("button.primary")
        page.wait_for_url("**/ui/")
        return found

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("dialog", lambda dialog: self.wrong.append(f"{page.url}: a dialog {dialog.message}"))
        page.on("console", lambda line: self._said(page, line.type, line.text))

    def _said(self, page: Page, kind: str, text: str) -> None:
        if kind == "error" and not re.search(r"status of (401|404|503)|net::ERR", text):
            self.wrong.append(f"{page.url}: {text}")
