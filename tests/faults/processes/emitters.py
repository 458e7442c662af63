"""Emitters as processes, and what they have been given and have not answered yet."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from tests.faults.processes.command import ROOT, environ, module


@dataclass(slots=True)
class EmitterProcess:
    """One emitter in its lives: what is not answered in one is said again in the next."""

    url: str
    spool: Path
    running: asyncio.subprocess.Process | None = None
    open: dict[int, bytes] = field(default_factory=dict)
    listening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.running = await asyncio.create_subprocess_exec(
            *module("tests.faults.processes.emitter_process", self.url, str(self.spool)),
            cwd=ROOT,
            env=environ(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.listening = asyncio.create_task(self._listen(self.running))
        for line in list(self.open.values()):
            self._write(line)

    async def kill(self) -> None:
        assert self.running is not None
        assert self.listening is not None
        if self.running.returncode is None:
            self.running.kill()
        await self.running.wait()
        await self.listening  # what it answered before it died is answered

    async def revive(self) -> None:
        if self.running is not None and self.running.returncode is not None:
            await self.start()

    def say(self, number: int, events: Sequence[Mapping[str, Any]]) -> None:
        line = orjson.dumps({"number": number, "events": list(events)}) + b"\n"
        self.open[number] = line
        self._write(line)

    def _write(self, line: bytes) -> None:
        assert self.running is not None
        assert self.running.stdin is not None
        if not self.running.stdin.is_closing():
            self.running.stdin.write(line)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            self.open.pop(int(line), None)


class Emitters:
    """One that speaks to the API, and one that writes to the log."""

    def __init__(self, api: str, log: str, folder: Path) -> None:
        self.all = [EmitterProcess(url, folder / f"spool-{n}") for n, url in enumerate((api, log))]
        self._numbers = itertools.count()

    def say(self, events: Sequence[Mapping[str, Any]], rng: random.Random) -> None:
        """Gives the events to one of them."""
        rng.choice(self.all).say(next(self._numbers), events)

    @property
    def settled(self) -> bool:
        """Whether all is acknowledged, and no spool holds anything."""
        spooled = any(any(each.spool.glob("*.events")) for each in self.all if each.spool.exists())
        return not spooled and not any(each.open for each in self.all)

    @property
    def open(self) -> int:
        """How many batches are not acknowledged."""
        return sum(len(each.open) for each in self.all)

    async def stop(self) -> None:
        for each in self.all:
            if each.running is not None:
                await each.kill()
