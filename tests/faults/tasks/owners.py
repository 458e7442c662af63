"""The processes of a trial: launchers, which own lanes, and an API."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

import asyncpg
import httpx

from tests.faults.processes.command import role, start
from tests.faults.sites.installation_site import InstallationSite

#: How long a silent owner keeps its lanes, in seconds.
LEASE_S: Final = 3.0


class OwnerFault(StrEnum):
    """Killed and back at once, or when others have its lanes; paused for longer than its lease; stopped in order."""

    KILLED = "killed"
    KILLED_LATE = "killed late"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(slots=True)
class Owners:
    """The processes. `topics`: with tasks, each for the queue of its name."""

    site: InstallationSite
    pool: asyncpg.Pool
    many: int
    topics: Sequence[str] = ()
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    api: subprocess.Popen[bytes] | None = None

    async def start(self, client: httpx.AsyncClient) -> None:
        """Returns when the API answers and the owners share the lanes."""
        self.site.data.mkdir(exist_ok=True)
        self.api = self._process("api")
        self.running = [self._process("launcher") for _ in range(self.many)]
        async with asyncio.timeout(120):
            while not (await _answers(client) and await self._owners() == self.many):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def strike(self, place: int, fault: OwnerFault, rng: random.Random) -> None:
        """It happens now to this owner; returns when it is there again."""
        process = self.running[place]
        match fault:
            case OwnerFault.KILLED | OwnerFault.KILLED_LATE:
                process.kill()
                process.wait()
                await asyncio.sleep(1.5 * LEASE_S if fault is OwnerFault.KILLED_LATE else 0.0)
                self.running[place] = self._process("launcher")
            case OwnerFault.PAUSED:
                process.send_signal(signal.SIGSTOP)
                await asyncio.sleep(rng.uniform(1.3, 2) * LEASE_S)
                process.send_signal(signal.SIGCONT)
            case OwnerFault.STOPPED:
                process.terminate()
                await asyncio.to_thread(process.wait, 60)
                self.running[place] = self._process("launcher")
            case _:
                assert_never(fault)

    async def stop(self) -> None:
        for process in (*self.running, self.api):
            if process is not None:
                process.kill()
                process.wait()

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        env = {
            **self.site.environ(),
            "STREAMSCHED_LEASE": f"{LEASE_S:g}s",
            "STREAMSCHED_LOG_LEVEL": "warning",
            "STREAMSCHED_TASK_TOPICS": ",".join(self.topics),
        }
        return start(role(name), self.site.folder / f"{name}.log", env)

    async def _owners(self) -> int:
        return await self.pool.fetchval(
            "SELECT count(DISTINCT owner) FROM leases WHERE name LIKE 'tasks-%' AND expires_at > now()"
        )


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health/ready")).status_code == 200
    except httpx.TransportError:
        return False
