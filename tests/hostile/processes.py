"""The installation's processes: two workers, two launchers, an API. Nothing starts again what has ended."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx
import psutil

from compose.ports import free_ports
from tests.faults.processes.installation import PLACES
from tests.faults.sites.installation_site import InstallationSite
from tests.hostile.warm_roles import WarmProcess, WarmRoles

#: Resident memory a process may have, in MB, and how much more than at the beginning once it has settled.
LARGEST_MB: Final = 700
GROWTH_MB: Final = 200
_MB: Final = 1024 * 1024
_STARTS_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 15.0
_TAIL: Final = 4000
#: Log lines that say that a loop ended by an unexpected error, or that a request did.
_BROKEN: Final = re.compile(rb'"action": ?"(task\.died|request\.crashed)"')


@dataclass(slots=True)
class Processes:
    """Attributes:
    plugins: a folder on `PYTHONPATH` in which a hostile plug-in is installed.
    baseline: resident memory at the beginning, in MB, by place.
    """

    base: InstallationSite
    plugins: Path
    warm: WarmRoles
    running: dict[str, WarmProcess] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    baseline: dict[str, float] = field(default_factory=dict)
    _read: dict[str, int] = field(default_factory=dict)

    async def start(self) -> None:
        """Starts all; returns when all say that they are ready.

        Raises:
            RuntimeError: one does not get ready, or ends.
        """
        self.base.data.mkdir(exist_ok=True)
        self._start("runners", ("runners", str(self._socket)))
        others = sorted(set(PLACES) - {"api-1"})
        self.ports = dict(zip(others, free_ports(len(others)), strict=True)) | {"api-1": self.base.port}
        for place, role in PLACES.items():
            # Under the name it had, a process that is started again finds its leases its own.
            self._start(place, (role, place, str(self._socket)))
        deadline = time.monotonic() + _STARTS_WITHIN_S
        async with httpx.AsyncClient() as client:
            while not await self._ready(client):
                if self.ended() or time.monotonic() > deadline:
                    raise RuntimeError(f"the installation does not start: {self.ended()}")
                await asyncio.sleep(0.2)
        if not self.baseline:
            self.baseline = dict(self.memory_mb())

    async def kill_and_start_again(self) -> None:
        """All at once, as when the machine's power fails."""
        for process in self.running.values():
            process.kill()
            process.wait()
        self.running.clear()
        self._socket.unlink(missing_ok=True)
        await self.start()

    async def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _ENDS_WITHIN_S
        for process in self.running.values():
            try:
                await asyncio.to_thread(process.wait, max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._end_runs()

    def ended(self) -> dict[str, str]:
        """Places whose process has ended, each with its exit code and the end of its log."""
        return {
            place: f"exit code {process.returncode}: {self.tail(place)}"
            for place, process in self.running.items()
            if process.poll() is not None
        }

    def memory_mb(self) -> Mapping[str, float]:
        """Resident memory of each process that still runs."""
        found = {}
        for place, process in self.running.items():
            if process.poll() is None and place != "runners":
                found[place] = psutil.Process(process.pid).memory_info().rss / _MB
        return found

    def swollen(self) -> dict[str, str]:
        """Places whose memory is beyond a limit."""
        return {
            place: f"{now:.0f} MB, {self.baseline[place]:.0f} MB at the beginning"
            for place, now in self.memory_mb().items()
            if now > LARGEST_MB or now - self.baseline[place] > GROWTH_MB
        }

    async def blocked_s(self, client: httpx.AsyncClient, *, patience_s: float) -> dict[str, float]:
        """How long each process's event loop was blocked, at least: how long it takes to answer `/health/live`, or,
        when it is the machine that has no time for it, how long it computed meanwhile."""
        answers = await asyncio.gather(*(self._answer_s(client, place, patience_s) for place in PLACES))
        return dict(zip(PLACES, answers, strict=True))

    def broken(self) -> Counter[str]:
        """What processes logged since the last call as errors of their own: the place and the line, shortened."""
        found = Counter[str]()
        for place in self.running:
            path = self._log(place)
            with path.open("rb") as log:
                log.seek(self._read.get(place, 0))
                added = log.read()
                self._read[place] = log.tell()
            for line in added.splitlines():
                if _BROKEN.search(line):
                    found[f"{place.partition('-')[0]}: {_shortened(line)}"] += 1
        return found

    def log_mb(self) -> float:
        """What all processes have logged so far."""
        return sum(self._log(place).stat().st_size for place in self.running) / _MB

    def tail(self, place: str) -> str:
        """The end of a process's log."""
        return self._log(place).read_bytes()[-_TAIL:].decode(errors="replace")

    async def _answer_s(self, client: httpx.AsyncClient, place: str, patience_s: float) -> float:
        began, computed = time.monotonic(), self._computed_s(place)
        try:
            await client.get(f"http://127.0.0.1:{self.ports[place]}/health/live", timeout=patience_s)
        except httpx.ConnectError:
            return 0.0  # it has ended, which `ended` says
        except httpx.HTTPError:
            return time.monotonic() - began
        return min(time.monotonic() - began, self._computed_s(place) - computed)

    def _computed_s(self, place: str) -> float:
        try:
            times = psutil.Process(self.running[place].pid).cpu_times()
        except (psutil.Error, KeyError):
            return 0.0
        return times.user + times.system

    async def _ready(self, client: httpx.AsyncClient) -> bool:
        for place in PLACES:
            try:
                answer = await client.get(f"http://127.0.0.1:{self.ports[place]}/health/ready", timeout=3)
            except httpx.HTTPError:
                return False
            if not answer.is_success:
                return False
        return True

    def _start(self, place: str, command: tuple[str, ...]) -> None:
        env = self.base.environ()
        if place in self.ports and place != "api-1":
            env["STREAMSCHED_HEALTH_PORT"] = str(self.ports[place])
        self.running[place] = self.warm.start(command, self._log(place), env, self.plugins)

    def _end_runs(self) -> None:
        """What is left of runs of this installation: they have its folder in their environment."""
        mine = str(self.base.folder)
        for process in psutil.process_iter():
            try:
                if process.environ().get("STREAMSCHED_DATA_DIR", "").startswith(mine):
                    process.kill()
            except psutil.Error:
                continue

    def _log(self, place: str) -> Path:
        return self.base.folder / f"{place}.log"

    @property
    def _socket(self) -> Path:
        return self.base.folder / "runners.sock"


def _shortened(line: bytes) -> str:
    text = line.decode(errors="replace")
    named = re.search(r'"(?:task|path)": ?"([^"]*)"', text)
    error = re.findall(r"(\w+(?:\.\w+)*(?:Error|Exception|Timeout)\w*[:(][^\\]{0,160})", text)
    return f"{named[1] if named else ''} {error[-1] if error else text[:300]}"
