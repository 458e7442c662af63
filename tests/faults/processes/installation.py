"""The installation's processes, and who starts again what has ended."""

from __future__ import annotations

import asyncio
import random
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

from tests.faults.processes.command import module
from tests.faults.processes.emitters import Emitters
from tests.faults.processes.placed import PlacedProcesses
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
        in_hands: how many requests the process of a launcher may have left unanswered, by its id.
        in_flight: how many launchers had left so when they were killed or ended.
        role_module: what runs a role, as `role_process` does.
        settings: of the processes, in place of those that the site has, or beside them.
    """

    site: InstallationSite
    emitters: Emitters
    bug: Bug | None = None
    in_hands: Callable[[int], Awaitable[int]] | None = None
    in_flight: int = 0
    role_module: str = "tests.faults.processes.role_process"
    settings: Mapping[str, object] = field(default_factory=dict)
    placed: PlacedProcesses = field(init=False)
    away: set[str] = field(default_factory=set)
    named: bool = False
    unbidden: int = 0
    vain: Counter[str] = field(default_factory=Counter)
    since: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.placed = PlacedProcesses(self.site.folder, self.site.environ(**self.settings))

    async def start(self) -> None:
        self.site.data.mkdir(exist_ok=True)
        self._start_runners()
        for place in PLACES:
            self.start_role(place)
        for each in self.emitters.all:
            await each.start()

    def start_role(self, place: str) -> None:
        name = place if self.named else f"{place}-{uuid4().hex[:6]}"
        command = module(self.role_module, PLACES[place], name, str(self._socket))
        self._start(place, (*command, self.bug.value) if self.bug else command)
        self.away.discard(place)

    async def kill(self, place: str) -> None:
        self.away.add(place)
        await self._ended(place, self.placed.kill(place))

    async def kill_relay(self, within_s: float) -> str | None:
        """Has the relay killed between what it appends to the log and what it deletes from the outbox. Returns its
        place; None when it appended nothing within that time.
        """
        launchers = [place for place, played in PLACES.items() if played == "launcher"]
        wish, deadline = relay_wish(self.site.folder), time.monotonic() + within_s
        self.away.update(launchers)
        try:
            wish.touch()
            while time.monotonic() < deadline:
                for place in launchers:
                    if self.placed.running[place].poll() is not None:
                        await self._ended(place, self.placed.running.pop(place))
                        return place
                await asyncio.sleep(0.05)
        finally:
            wish.unlink(missing_ok=True)
            self.away.difference_update(place for place in launchers if place in self.placed.running)
        return None

    async def _ended(self, place: str, process: subprocess.Popen[bytes]) -> None:
        """Counts the requests that it may have left unanswered."""
        if PLACES.get(place) == "launcher" and self.in_hands is not None:
            self.in_flight += await self.in_hands(process.pid)

    async def revive(self) -> None:
        """Starts again what ended by itself, as a process supervisor does.

        Raises:
            RuntimeError: that has been in vain so often that a verdict would only say so late.
        """
        for place, process in list(self.placed.running.items()):
            if process.poll() is not None and place not in self.away:
                self.unbidden += 1
                soon = time.monotonic() - self.since[place] < _AT_ONCE_S
                self.vain[place] = self.vain[place] + 1 if soon else 0
                if self.vain[place] == _VAIN:
                    last = (self.site.folder / f"{place}.log").read_text(errors="replace").splitlines()[-1:]
                    raise RuntimeError(f"{place} does not stay: {''.join(last)}")
                self.start_role(place)
                await self._ended(place, process)
        for each in self.emitters.all:
            await each.revive()

    async def stop(self) -> None:
        await self.emitters.stop()
        await self.placed.stop()

    @property
    def _socket(self) -> Path:
        return self.site.folder / "runners.sock"

    def _start_runners(self) -> None:
        self._start("runners", module("tests.faults.processes.warm_runners", str(self._socket)))
        self.away.add("runners")

    def _start(self, place: str, command: Sequence[str]) -> None:
        self.since[place] = time.monotonic()
        self.placed.start(place, command)


def relay_wish(folder: Path) -> Path:
    """The file that, while it exists, has the relay's process end before it deletes what it appended."""
    return folder / "kill-relay"


def chosen(rng: random.Random, role: str) -> str:
    """One of the places that play a role."""
    return rng.choice([place for place, played in PLACES.items() if played == role])
