"""The processes of a trial: launchers, which own lanes, and an API."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Final, assert_never

import asyncpg
import httpx

from tests.faults.processes.command import role
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.installation_site import InstallationSite

#: How long a silent owner keeps its lanes, in seconds.
LEASE_S: Final = 3.0
_STARTED_S: Final = 120.0
_OWNERS: Final = "SELECT count(DISTINCT owner) FROM leases WHERE name LIKE 'tasks-%' AND expires_at > now()"


class OwnerFault(StrEnum):
    """Killed and back at once, or when others have its lanes; paused for longer than its lease; stopped in order."""

    KILLED = "killed"
    KILLED_LATE = "killed late"
    PAUSED = "paused"
    STOPPED = "stopped"


class Owners(PlacedProcesses):
    """The processes: `many` launchers, and the API. `topics`: with tasks, each for the queue of its name."""

    def __init__(self, site: InstallationSite, pool: asyncpg.Pool, many: int, topics: Sequence[str] = ()) -> None:
        lease, queues = f"{LEASE_S:g}s", ",".join(topics)
        super().__init__(site.folder, site.environ(lease=lease, log_level="warning", task_topics=queues))
        self.many = many
        self._pool = pool
        site.data.mkdir(exist_ok=True)

    async def start_all(self, client: httpx.AsyncClient) -> None:
        """Returns when the API answers and the owners share the lanes."""
        self.start("api", role("api"))
        for place in range(self.many):
            self._start_owner(place)
        await all_own_lanes(client, self._pool, self.many)

    async def strike(self, number: int, fault: OwnerFault, rng: random.Random) -> None:
        """It happens now to this owner; returns when it is there again."""
        place = f"owner-{number}"
        match fault:
            case OwnerFault.KILLED | OwnerFault.KILLED_LATE:
                self.kill(place)
                await asyncio.sleep(1.5 * LEASE_S if fault is OwnerFault.KILLED_LATE else 0.0)
                self._start_owner(number)
            case OwnerFault.PAUSED:
                await self.pause(place, rng.uniform(1.3, 2) * LEASE_S)
            case OwnerFault.STOPPED:
                await self.end(place)
                self._start_owner(number)
            case _:
                assert_never(fault)

    def _start_owner(self, number: int) -> None:
        self.start(f"owner-{number}", role("launcher"))


async def all_own_lanes(client: httpx.AsyncClient, pool: asyncpg.Pool, many: int) -> None:
    """Returns when the API answers and so many processes share the lanes."""
    async with asyncio.timeout(_STARTED_S):
        while True:
            with suppress(httpx.TransportError):
                if (await client.get("/health/ready")).is_success and await pool.fetchval(_OWNERS) == many:
                    return
            await asyncio.sleep(0.1)
