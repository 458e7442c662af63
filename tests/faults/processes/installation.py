"""The installation's processes, and who starts again what has ended."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.faults.processes.command import module, start
from tests.faults.processes.emitters import Emitters
from tests.faults.sites.installation_site import InstallationSite
from tests.simulation.log import Bug

#: A place whose processes end by themselves so many times, none after more than so many seconds, is not going to work.
_VAIN: Final = 20
_AT_ONCE_S: Final = 10.0

#: Place → role.
PLACES: Final = {
    "worker-1": "worker",
    "worker-2": "worker",
    "launcher-1": "launcher",
    "launcher-2": "launcher",
    "api-1": "api",
}


@dataclass(slots=True)
class Processes:
    """Two workers, two launchers with relay and timers, the API, two emitters, and the process that makes runners.

    Attributes:
        away: places that must not be restarted yet.
        named: whether a process comes back under the name it had, so that its leases are its own at once.
        unbidden: how often a process ended by itself.
        vain: how often in a row it did soon after its start, by place.
    """

    site: InstallationSite
    emitters: Emitters
    bug: Bug | None = None
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    away: set[str] = field(default_factory=set)
    named: bool = False
    unbidden: int = 0
    vain: Counter[str] = field(default_factory=Counter)
    since: dict[str, float] = field(default_factory=dict)

    async def start(self) -> None:
        self.site.data.mkdir(exist_ok=True)
        self._start_runners()
        for place in PLACES:
            self.start_role(place)
        for each in self.emitters.all:
            await each.start()

    def start_role(self, place: str) -> None:
        name = place if self.named else f"{place}-{uuid4().hex[:6]}"
        command = module("tests.faults.processes.role_process", PLACES[place], name, str(self._socket))
        self._start(place, (*command, self.bug.value) if self.bug else command)
        self.away.discard(place)

    def kill(self, place: str) -> None:
        self.away.add(place)
        process = self.running.pop(place)
        process.kill()
        process.wait()

    async def revive(self) -> None:
        """Starts again what ended by itself, as a process supervisor does.

        Raises:
            RuntimeError: that has been in vain so often that a verdict would only say so late.
        """
        for place, process in list(self.running.items()):
            if process.poll() is not None and place not in self.away:
                self.unbidden += 1
                soon = time.monotonic() - self.since[place] < _AT_ONCE_S
                self.vain[place] = self.vain[place] + 1 if soon else 0
                if self.vain[place] == _VAIN:
                    last = (self.site.folder / f"{place}.log").read_text(errors="replace").splitlines()[-1:]
                    raise RuntimeError(f"{place} does not stay: {''.join(last)}")
                self.start_role(place)
        for each in self.emitters.all:
            await each.revive()

    async def stop(self) -> None:
        await self.emitters.stop()
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + 20
        for process in self.running.values():
            try:
                await asyncio.to_thread(process.wait, max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @property
    def _socket(self) -> Path:
        return self.site.folder / "runners.sock"

    def _start_runners(self) -> None:
        self._start("runners", module("tests.faults.processes.warm_runners", str(self._socket)))
        self.away.add("runners")

    def _start(self, place: str, command: Sequence[str]) -> None:
        self.since[place] = time.monotonic()
        self.running[place] = start(command, self.site.folder / f"{place}.log", self.site.environ())


def chosen(rng: random.Random, role: str) -> str:
    """One of the places that play a role."""
    return rng.choice([place for place, played in PLACES.items() if played == role])
