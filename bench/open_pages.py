"""Benchmark of pages that stay open: what many of them cost the server, and whether one grows.

    make bench NAME=open_pages      python -m bench.open_pages --pages 100 --seconds 60 --events 5000

A real `streamsched dev` with a schedule, and Chromium. One page of events stays open while `--events` come as fast as
they are accepted: as many as on a day with one every 17 s. Its elements and the heap of its script are counted ten
times, after a collection of garbage, and the connections of the server. `heap_growth`: the last heap over the second.

Then events come at five a second, so that something has changed at every look; first with that one page, then with
`--pages` more: windows of the browser, each with home, schedules, runs and events, that follow the live feed and read
themselves again. `hundred_pages_cpu`: by how much of a core the CPU time of all processes of the server is higher with
them, for a hundred of them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import psutil

from bench.installation import about

FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--js-flags=--expose-gc")
APP: Final = """
from streamsched import App, partitions

app = App("bench")
app.schedule("never", app.bash("never", "true"), when=partitions("tides", 1_000_000))
"""
PATHS: Final = ("", "schedules", "runs", "events")
_COMMAND: Final = (sys.executable, "-c", "from streamsched.cli.main import main; main()")
_AT_ONCE: Final = 100


class Server:
    """`streamsched dev` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("STREAMSCHED_")}
        self._folder, self._environ = folder, environ
        (folder / "app.py").write_text(APP)
        self.process = subprocess.Popen(
            (*_COMMAND, "dev", "--port", "0"), cwd=folder, env=environ, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        said = ""
        while "log: " not in said:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(f"dev ended: {said}")
            said += line
        self.link = said.partition("page: ")[2].split()[0]
        self.url = self.link.partition("/ui")[0]
        subprocess.run((*_COMMAND, "deploy", "app.py", "--yes"), cwd=folder, env=environ, check=True, timeout=60)
        token = (folder / ".streamsched" / "token").read_text().strip()
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/cloudevents-batch+json"}
        postmaster = int((folder / ".streamsched" / "postgres" / "postmaster.pid").read_text().split()[0])
        self._roots = [psutil.Process(self.process.pid), psutil.Process(postmaster)]
        self._numbers = itertools.count()

    def cpu_seconds(self) -> float:
        """CPU time of its processes and of PostgreSQL's that are there, and of their children that have ended."""
        found = 0.0
        for root in self._roots:
            for each in (root, *root.children(recursive=True)):
                try:
                    found += sum(each.cpu_times()[:4])
                except psutil.Error:
                    continue
        return found

    def emit(self, number: int) -> None:
        """Announces so many partitions, each in an event of its own."""
        batch = [
            {
                "specversion": "1.0",
                "id": f"e{each}",
                "source": "bench",
                "type": "streamsched.partitions.added",
                "data": {"dataset": "default.tides", "partitions": [f"tide={each}"]},
            }
            for each in itertools.islice(self._numbers, number)
        ]
        answer = httpx.post(f"{self.url}/v1/events", content=orjson.dumps(batch), headers=self.headers, timeout=60)
        answer.raise_for_status()

    def connections(self) -> int:
        """Connections that it holds."""
        return sum(
            each.status == psutil.CONN_ESTABLISHED for each in psutil.Process(self.process.pid).net_connections()
        )

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)


class Tide:
    """Events at a constant rate, from a thread."""

    def __init__(self, server: Server, each_second: float) -> None:
        self.emitted = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server, 1 / each_second))
        self._thread.start()

    def _run(self, server: Server, pause: float) -> None:
        while not self._stop.wait(pause):
            server.emit(1)
            self.emitted += 1

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def cost(server: Server, seconds: float) -> float:
    """Cores that the server uses."""
    before, began = server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return (server.cpu_seconds() - before) / (time.monotonic() - began)


def logged_in(server: Server, browser: Any) -> Any:
    """The session of a browser that used the link of `dev`, which works once."""
    context = browser.new_context(base_url=server.url)
    page = context.new_page()
    page.goto(server.link)
    page.wait_for_url("**/ui/")
    found = context.storage_state()
    context.close()
    return found


def open_pages(server: Server, browser: Any, session: Any, number: int) -> None:
    """Opens pages that follow the feed; four in each window, because a browser opens six connections to a server."""
    for first in range(0, number, len(PATHS)):
        context = browser.new_context(base_url=server.url, storage_state=session)
        for path in PATHS[: number - first]:
            page = context.new_page()
            page.goto(f"/ui/{path}")
            page.wait_for_selector("#live >> text=live")


def growth(server: Server, browser: Any, session: Any, events: int) -> dict[str, Any]:
    """What a page of events holds while events come."""
    page = browser.new_context(base_url=server.url, storage_state=session).new_page()
    page.goto("/ui/events")
    page.wait_for_selector("#live >> text=live")
    tools = page.context.new_cdp_session(page)
    steps: list[tuple[int, int, int]] = []
    for _ in range(10):
        left = events // 10
        while left > 0:
            server.emit(min(left, _AT_ONCE))
            left -= _AT_ONCE
            page.wait_for_timeout(50)
        page.wait_for_timeout(2500)
        tools.send("HeapProfiler.collectGarbage")
        heap = round(tools.send("Runtime.getHeapUsage")["usedSize"])
        nodes = int(tools.send("Memory.getDOMCounters")["nodes"])
        steps.append((nodes, heap, server.connections()))
        print(f"  {steps[-1][0]:6} nodes, {heap / 1e6:5.2f} MB of heap, {steps[-1][2]} connections of the server")
    rows = page.locator("#list tbody tr").count()
    return {
        "rows": rows,
        "nodes": [steps[1][0], steps[-1][0]],
        "heap_mb": [round(steps[1][1] / 1e6, 2), round(steps[-1][1] / 1e6, 2)],
        "heap_growth": round(steps[-1][1] / steps[1][1], 3),
        "connections": [steps[1][2], steps[-1][2]],
    }


def main() -> None:
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only this needs a browser

    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    arguments.add_argument("--pages", type=int, default=100)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--events", type=int, default=5000)
    args = arguments.parse_args()
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("Debian's chromium is needed")
    print(about(["playwright"]))
    print(f"command: python -m bench.open_pages {' '.join(sys.argv[1:])}".rstrip())
    print(f"load {psutil.getloadavg()[0]:.1f} when it began")
    with tempfile.TemporaryDirectory(prefix="ss-pages-", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder))
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
                session = logged_in(server, browser)
                result = growth(server, browser, session, args.events)
                tide = Tide(server, 5)
                try:
                    alone = [cost(server, args.seconds / args.rounds) for _ in range(args.rounds)]
                    flow = tide.emitted / args.seconds
                    open_pages(server, browser, session, args.pages)
                    first = tide.emitted
                    held = [cost(server, args.seconds / args.rounds) for _ in range(args.rounds)]
                    flow_held = (tide.emitted - first) / args.seconds
                finally:
                    tide.end()
                page = browser.new_context(base_url=server.url, storage_state=session).new_page()
                page.goto("/ui/admin")
                text = page.inner_text("#health")
                browser.close()
        finally:
            server.stop()
    print(f"cores without pages {[round(each, 3) for each in alone]}, with {[round(each, 3) for each in held]}")
    print(f"events a second that were accepted, without {flow:.1f}, with {flow_held:.1f}; a busy machine accepts fewer")
    open_now = re.search(r"(\d+) pages? (is|are) open", text)
    more = statistics.median(held) - statistics.median(alone)
    result |= {"pages": args.pages, "hundred_pages_cpu": round(more * 100 / max(1, args.pages), 4)}
    print(f"\nRESULT {orjson.dumps(result | {'open': open_now and int(open_now[1])}).decode()}")


if __name__ == "__main__":
    main()
