"""The processes of a run: launchers that are Dapr's scheduler, the real sidecar, the app."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from compose.dapr.programs import programs
from tests.faults.processes.command import module, role, start
from tests.faults.sites.installation_site import InstallationSite

#: Below the ports of outgoing connections. In a network namespace of their own nobody else has them.
SCHEDULERS: Final = ("127.0.0.1:23406", "127.0.0.1:23407")
SIDECAR_HTTP, SIDECAR_GRPC, SIDECAR_INTERNAL, APP_PORT = 23500, 23501, 23502, 23510
APP_ID: Final = "orders"
#: How long a killed launcher keeps its lanes, in seconds.
LEASE_S: Final = 3.0


class Processes:
    """Everything that a run starts. `kills`: when launchers were killed (Unix seconds);
    `killed`: how often each.
    """

    def __init__(self, site: InstallationSite, handlers: Sequence[str]) -> None:
        self._site = site
        self._handlers = handlers
        self._launchers: list[subprocess.Popen[bytes] | None] = [None for _ in SCHEDULERS]
        self._others: list[subprocess.Popen[bytes]] = []
        self.kills: list[float] = []
        self.killed = [0 for _ in SCHEDULERS]

    @property
    def deliveries(self) -> Path:
        """Where the app writes what it gets."""
        return self._site.folder / "deliveries"

    @property
    def sidecar_log(self) -> Path:
        return self._site.folder / "daprd.log"

    def start(self) -> None:
        self._site.data.mkdir(exist_ok=True)
        self.deliveries.touch()
        for place in range(len(SCHEDULERS)):
            self.start_launcher(place)
        app = module("tests.dapr_real.app", str(APP_PORT), str(self.deliveries), *self._handlers)
        self._others = [
            start(app, self._site.folder / "app.log", os.environ),
            start(self._sidecar(), self.sidecar_log, {**os.environ, "DAPR_HOST_IP": "127.0.0.1"}),
        ]

    def start_launcher(self, place: int) -> None:
        env = {
            **self._site.environ(),
            "STREAMSCHED_LEASE": f"{LEASE_S:g}s",
            "STREAMSCHED_DAPR_SCHEDULER": SCHEDULERS[place],
        }
        self._launchers[place] = start(role("launcher"), self._site.folder / f"launcher-{place}.log", env)

    def kill_launcher(self, place: int) -> None:
        """SIGKILL."""
        process = self._launchers[place]
        assert process is not None
        process.kill()
        process.wait()
        self.kills.append(time.time())
        self.killed[place] += 1

    def stop(self) -> None:
        for process in (*self._others, *self._launchers):
            if process is not None:
                process.kill()
                process.wait()

    def read_deliveries(self) -> list[tuple[float, str]]:
        """What the app has got so far: Unix seconds and the job's name."""
        lines = self.deliveries.read_text().splitlines()
        return [(float(at), name) for at, _, name in (line.partition(" ") for line in lines)]

    def disconnected(self) -> list[float]:
        """When the sidecar lost or left a stream of jobs (Unix seconds)."""
        lines = [line for line in self.sidecar_log.read_text().splitlines() if "Scheduler stream disconnected" in line]
        times = [line.split('time="', 1)[1].split('"', 1)[0] for line in lines]
        return [datetime.fromisoformat(f"{each[:26].removesuffix('Z')}+00:00").timestamp() for each in times]

    async def back(self, place: int) -> None:
        """Returns when a launcher that was started again serves sidecars."""
        log = self._site.folder / f"launcher-{place}.log"
        starts = 1 + self.killed[place]
        async with asyncio.timeout(120):
            while True:
                if log.read_text().count("dapr.scheduler_bound") >= starts:
                    return
                await asyncio.sleep(0.1)

    async def connected(self, streams: int) -> None:
        """Returns when the sidecar has opened so many streams of jobs, ever."""
        async with asyncio.timeout(90):
            while True:
                with suppress(FileNotFoundError):
                    if self.sidecar_log.read_text().count("Scheduler stream connected") >= streams:
                        return
                await asyncio.sleep(0.1)

    def _sidecar(self) -> Sequence[str]:
        empty = self._site.folder / "components"
        empty.mkdir()
        flags = {
            "mode": "standalone",
            "app-id": APP_ID,
            "dapr-listen-addresses": "127.0.0.1",
            "dapr-http-port": SIDECAR_HTTP,
            "dapr-grpc-port": SIDECAR_GRPC,
            "dapr-internal-grpc-port": SIDECAR_INTERNAL,
            "dapr-internal-grpc-listen-address": "127.0.0.1",
            "enable-metrics": "false",
            "app-port": APP_PORT,
            "app-protocol": "grpc",
            "app-channel-address": "127.0.0.1",
            "scheduler-host-address": ",".join(SCHEDULERS),
            "resources-path": empty,
        }
        return str(programs().sidecar), *(f"--{name}={value}" for name, value in flags.items())
