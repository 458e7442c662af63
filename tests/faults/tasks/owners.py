"""The processes of a trial: launchers, which own lanes, and an API."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, assert_never

import asyncpg
import httpx

from tests.faults.processes.command import role, start
from tests.faults.sites.installation_site import InstallationSite
from tests.faults.tasks.judge import Name

#: How long a silent owner keeps its lanes, in seconds.
LEASE_S: Final = 5.0
#: Records what is in flight in a partition whenever another process takes it, before that process frees it.
_WATCH: Final = """
CREATE TABLE watched_takeovers (lane text NOT NULL, key text NOT NULL);
CREATE FUNCTION watch_takeover() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watched_takeovers
    SELECT t.lane, t.key FROM task_lanes l JOIN tasks t ON t.id = l.in_flight WHERE l.partition = NEW.partition;
    RETURN NULL;
END $$;
CREATE TRIGGER watch_takeover AFTER UPDATE ON task_partitions FOR EACH ROW EXECUTE FUNCTION watch_takeover();
"""


class OwnerFault(StrEnum):
    """Killed and back at once, or when others have its lanes; paused for longer than its lease; stopped in order."""

    KILLED = "killed"
    KILLED_LATE = "killed late"
    PAUSED = "paused"
    STOPPED = "stopped"


@dataclass(slots=True)
class Owners:
    """The processes, and what was in flight when one took the lanes of another."""

    site: InstallationSite
    pool: asyncpg.Pool
    many: int
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)
    api: subprocess.Popen[bytes] | None = None

    async def start(self, client: httpx.AsyncClient) -> None:
        """Returns when the API answers and the owners share the lanes."""
        self.site.data.mkdir(exist_ok=True)
        await self.pool.execute(_WATCH)
        self.api = self._process("api")
        self.running = [self._process("launcher") for _ in range(self.many)]
        async with asyncio.timeout(120):
            while not (await _answers(client) and await self._owners() == self.many):  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def strike(self, fault: OwnerFault, rng: random.Random) -> None:
        """It happens now to one owner; returns when all are there again."""
        place = rng.randrange(self.many)
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

    async def in_flight(self) -> frozenset[Name]:
        """Tasks that were in flight in lanes that another process took, so far."""
        return frozenset(Name(*row) for row in await self.pool.fetch("SELECT lane, key FROM watched_takeovers"))

    async def stop(self) -> None:
        for process in (*self.running, self.api):
            if process is not None:
                process.kill()
                process.wait()

    def _process(self, name: str) -> subprocess.Popen[bytes]:
        env = {**self.site.environ(), "STREAMSCHED_LEASE": f"{LEASE_S:g}s", "STREAMSCHED_LOG_LEVEL": "warning"}
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
