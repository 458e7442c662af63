"""Dapr's Go SDK, unchanged, as client and app of an endpoint, with a launcher.

Builds the app of `go/` first, some 4 minutes on two cores that others use, once.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from compose.dapr.programs import build_module
from compose.ports import free_port
from tests.faults.processes.command import ROOT, role, start
from tests.faults.sites.installation_site import InstallationSite, site
from tests.support.judgement import Judgement
from tests.trial import Asked, Counts, Site, Trial

#: What the app prints of its calls, in their order.
CALLS: Final = (
    "scheduled OK",
    "again AlreadyExists",
    "job surface @every 1h 3 30m 5h a/b payload",
    "invalid InvalidArgument",
    "deleted OK OK",
    "gone NotFound",
    "scheduled OK",
    "scheduled OK",
    "scheduled OK",
)
#: The jobs that it gets, in any order: one fails twice.
DELIVERIES: Final = (*["got bad payload"] * 3, *["got often payload"] * 3, "got once payload")
#: Seconds until everything has arrived.
_SETTLE_S: Final = 60.0


@contextmanager
def installation(there: InstallationSite, app_port: int) -> Iterator[dict[str, str]]:
    """A launcher and an endpoint; yields the variables by which the SDK finds it."""
    there.data.mkdir(exist_ok=True)
    http, grpc = free_port(), free_port()
    settings = {
        "STREAMSCHED_DAPR_APP_ID": "orders",
        "STREAMSCHED_DAPR_APP": f"grpc://127.0.0.1:{app_port}",
        "STREAMSCHED_DAPR_HTTP_PORT": str(http),
        "STREAMSCHED_DAPR_GRPC_PORT": str(grpc),
    }
    started = [
        start(role("launcher"), there.folder / "launcher.log", there.environ()),
        start((*role("dapr"), "serve"), there.folder / "endpoint.log", {**there.environ(), **settings}),
    ]
    try:
        _wait_until_served(f"http://127.0.0.1:{http}/v1.0/healthz")
        yield {"DAPR_GRPC_PORT": str(grpc), "DAPR_HTTP_PORT": str(http)}
    finally:
        for each in started:
            each.kill()
            each.wait()


def _wait_until_served(url: str) -> None:
    """The SDK waits 5 s for an endpoint, which here shares two cores with others."""
    until = time.monotonic() + _SETTLE_S
    while time.monotonic() < until:
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)


def printed_by(program: Path, port: int, variables: Mapping[str, str]) -> list[str]:
    """The lines of the app, until it has called and got everything."""
    command = ("timeout", str(int(_SETTLE_S)), str(program), str(port))
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    lines: list[str] = []
    with subprocess.Popen(command, env={**os.environ, **variables}, **pipes) as app:
        assert app.stdout is not None
        for line in app.stdout:
            if line.startswith("dapr client initializing"):
                continue  # says the SDK
            lines.append(line.strip())
            if len(lines) == len(CALLS) + len(DELIVERIES):
                break
        app.kill()
    return lines


@asynccontextmanager
async def open_site(asked: Asked) -> AsyncIterator[Site]:
    program = build_module("gosdk", ROOT / "tests" / "dapr_real" / "go")
    with site(asked.folder, "postgres") as there:
        yield Site(lambda _: GoTrial(there, program))


class GoTrial(Trial):
    """One run of the app. Nothing befalls it."""

    patience_s = 0.0

    def __init__(self, there: InstallationSite, program: Path) -> None:
        self._there, self._program = there, program
        self._lines: list[str] = []

    @asynccontextmanager
    async def load(self) -> AsyncIterator[None]:
        port = free_port()
        with installation(self._there, port) as variables:
            self._lines = printed_by(self._program, port, variables)
        yield

    async def judge(self) -> Judgement:
        verdict = Judgement()
        verdict.compare("calls", CALLS, self._calls())
        verdict.compare("deliveries", sorted(DELIVERIES), sorted(self._deliveries()))
        return verdict

    def counts(self) -> Counts:
        return {"calls": len(self._calls()), "deliveries": len(self._deliveries())}

    def _calls(self) -> list[str]:
        return [line for line in self._lines if not line.startswith("got ")]

    def _deliveries(self) -> list[str]:
        return [line for line in self._lines if line.startswith("got ")]
