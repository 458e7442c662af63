"""Dapr's Go SDK, unchanged, as client and app of an endpoint, with a launcher: `make dapr-go`, and

    python -m tests.dapr_real.go_sdk

Builds the app of `go/` first, some 4 minutes on two cores that others use, once. The last line is the verdict.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import httpx

from compose.dapr.programs import build_module
from compose.ports import free_port
from tests.faults.processes.command import ROOT, role, start
from tests.faults.sites.installation_site import InstallationSite, temporary_site

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


def printed_by(app: subprocess.Popen[str]) -> list[str]:
    """The lines of the app, until it has called and got everything."""
    assert app.stdout is not None
    lines: list[str] = []
    for line in app.stdout:
        if line.startswith("dapr client initializing"):
            continue  # says the SDK
        lines.append(line.strip())
        if len(lines) == len(CALLS) + len(DELIVERIES):
            break
    return lines


def main() -> None:
    program = build_module("gosdk", ROOT / "tests" / "dapr_real" / "go")
    port = free_port()
    with temporary_site("postgres") as there, installation(there, port) as variables:
        app = subprocess.Popen(
            ("timeout", str(int(_SETTLE_S)), str(program), str(port)),
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = printed_by(app)
        app.kill()
        app.wait()
    calls = tuple(line for line in lines if not line.startswith("got "))
    got = tuple(sorted(line for line in lines if line.startswith("got ")))
    for line in lines:
        sys.stdout.write(f"  {line}\n")
    well = calls == CALLS and got == tuple(sorted(DELIVERIES))
    sys.stdout.write(f"dapr-go calls {len(calls)} deliveries {len(got)} {'as expected' if well else 'WRONG'}\n")
    sys.exit(not well)


if __name__ == "__main__":
    main()
