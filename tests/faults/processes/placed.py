"""Processes by the place that each has, killed, paused and started again."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tests.faults.processes.command import start

#: Seconds in which a process that is asked to end must have ended.
_ENDS_WITHIN_S: Final = 20.0


@dataclass(slots=True)
class PlacedProcesses:
    """What a process says is added to the log of its place.

    Attributes:
        environ: what each process is given; its own settings are added.
    """

    folder: Path
    environ: Mapping[str, str]
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _commands: dict[str, tuple[Sequence[str], Mapping[str, object]]] = field(default_factory=dict)

    def start(self, place: str, command: Sequence[str], **settings: object) -> subprocess.Popen[bytes]:
        self._commands[place] = command, settings
        own = {f"STREAMSCHED_{name.upper()}": str(value) for name, value in settings.items()}
        self.running[place] = start(command, self.folder / f"{place}.log", {**self.environ, **own})
        return self.running[place]

    def kill(self, place: str) -> subprocess.Popen[bytes]:
        """SIGKILL; the place is empty then."""
        process = self.running.pop(place)
        process.kill()
        process.wait()
        return process

    def replace(self, place: str) -> int:
        """Kills it and starts another that is the same; the process id of the killed one."""
        killed, (command, settings) = self.kill(place), self._commands[place]
        self.start(place, command, **settings)
        return killed.pid

    async def pause(self, place: str, seconds: float) -> None:
        """It stands still for so long."""
        process = self.running[place]
        process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        process.send_signal(signal.SIGCONT)

    async def end(self, place: str) -> int:
        """SIGTERM; returns its exit code, and the place is empty."""
        process = self.running.pop(place)
        process.terminate()
        return await asyncio.to_thread(process.wait, 60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_all()

    def kill_all(self) -> None:
        for place in list(self.running):
            self.kill(place)

    async def stop(self) -> None:
        """Asks all to end, and kills those that do not."""
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        deadline = time.monotonic() + _ENDS_WITHIN_S
        for process in self.running.values():
            try:
                await asyncio.to_thread(process.wait, max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
