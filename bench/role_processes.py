"""A whole installation for benchmarks: PostgreSQL, the log, and the roles as processes, each as `streamsched ROLE`."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import asyncpg

from streamsched.codec.schedules.schedule import app_to_json
from streamsched.define.app import App
from streamsched.log.drivers import open_broker
from streamsched.ports.broker import Broker
from streamsched.store.connections import open_pool
from tests.faults.processes.command import role
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.footprint import ProcessUse, postgres_processes, process_tree
from tests.faults.sites.installation_site import SHARDS, InstallationSite, temporary_site

ROLES = ("worker", "launcher", "api")
__all__ = ["ROLES", "SHARDS", "RoleProcesses", "role_processes"]


@dataclass(frozen=True, slots=True)
class RoleProcesses:
    """One process of each role."""

    there: InstallationSite
    processes: PlacedProcesses
    broker: Broker
    pool: asyncpg.Pool
    client: aiohttp.ClientSession

    def uses(self) -> Mapping[str, ProcessUse]:
        """What each role takes, without the runners of a launcher; also the servers."""
        found = {name: ProcessUse.of(process_tree(process.pid)[:1]) for name, process in self.processes.running.items()}
        found["postgres"] = ProcessUse.of(postgres_processes(self.there.folder / "pg"))
        if self.there.cluster is not None and (kafka := self.there.cluster.pid(1)) is not None:
            found["kafka"] = ProcessUse.of(process_tree(kafka))
        return found

    async def ask(self, method: str, path: str, body: object = None) -> object:
        """The decoded answer.

        Raises:
            aiohttp.ClientResponseError: it is no success.
        """
        async with self.client.request(method, path, json=body) as answer:
            if not answer.ok:
                raise RuntimeError(f"{method} {path}: {answer.status} {await answer.text()}")
            return await answer.json()

    async def deploy(self, app: App) -> None:
        """The whole app; its schedules are enabled."""
        definition = app.definition()
        await self.ask("PUT", f"/v1/apps/{definition.ref.namespace}/{definition.ref.app}", app_to_json(definition))


@asynccontextmanager
async def role_processes(broker: str, roles: Sequence[str] = ROLES, **settings: object) -> AsyncIterator[RoleProcesses]:
    """They run and the API answers. `settings`: of the processes, by their names in lower case."""
    with temporary_site(broker) as there:
        there.data.mkdir(exist_ok=True)
        with PlacedProcesses(there.folder, there.environ(**settings)) as processes:
            for name in roles:
                processes.start(name, role(name))
            log, pool = await open_broker(there.log), await open_pool(there.database)
            async with aiohttp.ClientSession(there.api) as client:
                await _until_ready(client, processes.running)
                yield RoleProcesses(there, processes, log, pool, client)
            await log.close()
            await pool.close()
            await processes.stop()


async def _until_ready(client: aiohttp.ClientSession, running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Raises:
    RuntimeError: a process has ended, or the API is not ready in time.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if any(process.poll() is not None for process in running.values()):
            raise RuntimeError("a process of the installation has ended")
        try:
            async with client.get("/health/ready") as answer:
                if answer.ok:
                    return
        except aiohttp.ClientError:
            pass
        await asyncio.sleep(0.1)
    raise RuntimeError("the API is not ready after a minute")
