"""A real API process on a real PostgreSQL gets the worst requests from four clients at once, while its health and its
memory are watched.

Prints a line for each route: requests, statuses, the longest answer, the longest `/health/live`, and by how much
resident memory rose above what it was before the route; the last line is what stays in memory of all. A wait that the
machine is to blame for does not count: of each, at most what the process computed meanwhile.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from itertools import groupby
from pathlib import Path
from typing import Final

import httpx
import psutil

from compose.ports import free_port
from streamsched.config import Settings
from streamsched.roles.access import create_token_directly
from streamsched.roles.services import open_services
from tests.fuzz.api import prepare
from tests.hostile.bodies.worst_bodies import WorstRequest, worst_requests
from tests.support.judgement import Judgement
from tests.support.relaying import relaying
from tests.support.served_api import ServedApi, temporary_database
from tests.trial import Asked, Counts, Site, Trial

CLIENTS: Final = 4
LONGEST_S: Final = 1.0
MOST_MB: Final = 100.0
#: The route of the last outcome.
STAYS: Final = "what stays of all"
_MB: Final = 1024 * 1024
_PATIENCE_S: Final = 120.0


@dataclass(slots=True)
class Outcome:
    """Of the requests of one route."""

    route: str
    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    answer_mb: float = 0.0
    answered_s: float = 0.0
    slowest: str = ""
    live_s: float = 0.0
    live_kind: str = ""
    grown_mb: float = 0.0
    grown_kind: str = ""

    @property
    def well(self) -> bool:
        return self.live_s <= LONGEST_S and self.grown_mb <= MOST_MB and not self.statuses[500]

    def line(self) -> str:
        statuses = " ".join(f"{status}:{number}" for status, number in sorted(self.statuses.items()))
        return (
            f"{'ok  ' if self.well else 'BAD '}{self.route:<78} live {self.live_s:5.2f} s ({self.live_kind})  "
            f"+{self.grown_mb:4.0f} MB ({self.grown_kind})  longest {self.answered_s:5.1f} s ({self.slowest})  "
            f"answer {self.answer_mb:4.1f} MB  {statuses}"
        )


class Watch:
    """Asks for `/health/live` and the resident memory of a process all the time, in a thread."""

    def __init__(self, process: psutil.Process, port: int) -> None:
        self._process = process
        self._port = port
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.live_s = 0.0
        self.memory_mb = 0.0

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_PATIENCE_S)

    def begin(self) -> None:
        """Forgets what was seen."""
        self.live_s = 0.0
        self.memory_mb = self._memory()

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            began, computed = time.monotonic(), self._computed()
            connection = HTTPConnection("127.0.0.1", self._port, timeout=_PATIENCE_S)
            try:
                connection.request("GET", "/health/live")
                connection.getresponse().read()
                took = min(time.monotonic() - began, self._computed() - computed)
            except (OSError, HTTPException):
                took = time.monotonic() - began if self._process.is_running() else 0.0
            finally:
                connection.close()
            self.live_s = max(self.live_s, took)
            self.memory_mb = max(self.memory_mb, self._memory())

    def _memory(self) -> float:
        return self._process.memory_info().rss / _MB

    def _computed(self) -> float:
        times = self._process.cpu_times()
        return times.user + times.system


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--route", default="", help="only routes whose name contains it")
    parser.add_argument("--every", type=int, default=1, help="only every so many requests")


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    chosen = [each for each in worst_requests() if asked.own.route in each.route][:: asked.own.every]
    with temporary_database() as database:
        yield Site(lambda _: BodiesTrial(database, chosen, asked.n))


class BodiesTrial(Trial):
    """All requests, from N clients at once."""

    patience_s = 0.0

    def __init__(self, database: str, requests: Iterable[WorstRequest], clients: int) -> None:
        self._database, self._requests, self._clients = database, requests, clients
        self._outcomes: list[Outcome] = []

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        self._outcomes = await trial(self._database, self._requests, self._clients)
        yield

    async def judge(self) -> Judgement:
        verdict = Judgement(("bad",))
        for each in self._outcomes:
            if not each.well:
                verdict.note("bad", each.route)
        return verdict

    def counts(self) -> Counts:
        return {"routes": len(self._outcomes), "requests": sum(each.requests for each in self._outcomes)}


@asynccontextmanager
async def api_process(database: str) -> AsyncIterator[tuple[psutil.Process, ServedApi]]:
    """`streamsched api` on a migrated database; the relay is in this process."""
    token = (await create_token_directly(database, {"name": "bodies", "grants": [{"role": "admin"}]}, by="test"))[
        "text"
    ]
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="ss-bodies-") as folder:
        environ = {
            **os.environ,
            "STREAMSCHED_DATABASE_URL": database,
            "STREAMSCHED_API_PORT": str(port),
            "STREAMSCHED_DATA_DIR": folder,
            "STREAMSCHED_LOG_LEVEL": "error",
        }
        command = [str(Path(sys.executable).with_name("streamsched")), "api"]
        with (Path(folder) / "api.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: ASYNC220 - it starts at once
                command, env=environ, stdout=log, stderr=log
            )
        api = ServedApi(f"http://127.0.0.1:{port}", token, database)
        try:
            async with open_services(Settings.from_env({}, database_url=database)) as services, relaying(services):
                await _ready(api, process)
                await asyncio.to_thread(prepare, api)
                yield psutil.Process(process.pid), api
        finally:
            process.terminate()
            await asyncio.to_thread(process.wait, 30)
            sys.stdout.write((Path(folder) / "api.log").read_text(errors="replace")[-4000:])


async def trial(database: str, requests: Iterable[WorstRequest], clients: int = CLIENTS) -> list[Outcome]:
    """Sends each request from so many clients at once; prints a line for each route."""
    outcomes: list[Outcome] = []
    async with api_process(database) as (process, api):
        with Watch(process, int(api.url.rpartition(":")[2])) as watch:
            async with httpx.AsyncClient(
                base_url=api.url, headers={"Authorization": f"Bearer {api.token}"}, timeout=_PATIENCE_S, trust_env=False
            ) as client:
                await asyncio.gather(*(client.get("/v1/apps") for _ in range(CLIENTS)))
                watch.begin()
                baseline = watch.memory_mb
                for route, each in groupby(requests, lambda request: request.route):
                    outcome = Outcome(route)
                    watch.begin()
                    before = watch.memory_mb
                    for request in each:
                        await _send([client] * clients, request, watch, before, outcome)
                    _add(outcome, outcomes)
                watch.begin()
                _add(Outcome(STAYS, grown_mb=watch.memory_mb - baseline), outcomes)
    return outcomes


def _add(outcome: Outcome, outcomes: list[Outcome]) -> None:
    outcomes.append(outcome)
    sys.stdout.write(f"{outcome.line()}\n")
    sys.stdout.flush()


async def _send(
    clients: Sequence[httpx.AsyncClient], request: WorstRequest, watch: Watch, baseline: float, outcome: Outcome
) -> None:
    watch.begin()

    async def one(client: httpx.AsyncClient) -> None:
        began = time.monotonic()
        content = request.body if request.method not in {"GET", "DELETE"} else None
        headers = {"Content-Type": request.media} if content is not None else {}
        try:
            answer = await client.request(request.method, request.path, content=content, headers=headers)
        except httpx.TransportError:  # refused before it was sent
            outcome.statuses[0] += 1
            return
        outcome.statuses[answer.status_code] += 1
        if answer.is_server_error:
            sys.stdout.write(f"{request.route} {answer.status_code} {answer.text[:500]}\n")
        outcome.answer_mb = max(outcome.answer_mb, len(answer.content) / _MB)
        if (took := time.monotonic() - began) > outcome.answered_s:
            outcome.answered_s, outcome.slowest = took, request.kind

    await asyncio.gather(*map(one, clients))
    await asyncio.sleep(0.05)  # the next look of the watch
    outcome.requests += len(clients)
    if watch.live_s > outcome.live_s:
        outcome.live_s, outcome.live_kind = watch.live_s, request.kind
    if watch.memory_mb - baseline > outcome.grown_mb:
        outcome.grown_mb, outcome.grown_kind = watch.memory_mb - baseline, request.kind


async def _ready(api: ServedApi, process: subprocess.Popen[bytes]) -> None:
    async with httpx.AsyncClient(base_url=api.url, trust_env=False) as client:
        for _ in range(600):
            try:
                if (await client.get("/health/ready", timeout=5)).is_success:
                    return
            except httpx.TransportError:
                pass
            if process.poll() is not None:
                raise RuntimeError(f"the API ended with {process.returncode}")
            await asyncio.sleep(0.1)
    raise RuntimeError("the API does not get ready")
