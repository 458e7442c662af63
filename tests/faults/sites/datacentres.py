"""An installation over three datacentres, one of which can be lost: with it a Kafka broker, the PostgreSQL primary and
a launcher. Needs root.

The lost datacentre is a network namespace that is cut off silently: what runs there goes on, and reaches nobody.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import asyncpg

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Address, Shape
from streamsched.domain.addresses import LOOPBACK
from streamsched.store.server.migrate import migrate
from tests.faults.processes.command import environ, role, start
from tests.faults.sites.far_side import FarSide, far_side
from tests.faults.sites.installation_site import SHARDS
from tests.faults.sites.standby_postgres import PostgresPair, postgres_pair

#: How long a silent owner keeps its lanes, in seconds.
LEASE_S: Final = 3.0
_API_PORT: Final = 8765
_KAFKA_PORTS: Final = (9092, 9093)


@dataclass(slots=True)
class Datacentres:
    """Attributes:
    database: URL of the migrated database, on whichever server is the primary.
    here: an address of this side that the lost datacentre reached too.
    """

    folder: Path
    far: FarSide
    cluster: Cluster
    servers: PostgresPair
    database: str
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def here(self) -> str:
        return self.far.wires[0].here

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{_API_PORT}"

    def start(self, *, topics: str) -> None:
        """The API and two launchers here, and one launcher there."""
        env = environ(
            database_url=self.database,
            broker_url=self.cluster.url,
            shards=SHARDS,
            data_dir=self.folder / "data",
            api_port=_API_PORT,
            lease=f"{LEASE_S:g}s",
            task_topics=topics,
            outgoing_networks=f"{LOOPBACK},{self.here}/32",
            log_level="info",
            log_format="json",
        )
        for name, command in (
            ("api", role("api")),
            ("launcher-1", role("launcher")),
            ("launcher-2", role("launcher")),
            ("launcher-far", self.far.command(*role("launcher"))),
        ):
            self.running.append(start(command, self.folder / f"{name}.log", env))

    def cut_off(self) -> None:
        """From now on nothing passes between the lost datacentre and the others."""
        self.far.wires[0].cut()

    def stop(self) -> None:
        for process in self.running:
            process.kill()
            process.wait()


@contextmanager
def datacentres(folder: Path) -> Iterator[Datacentres]:
    """Its servers run; the processes of the installation are to be started."""
    with ExitStack() as held:
        far = held.enter_context(far_side(1))
        wire = far.wires[0]
        near = [
            Address(each.port, each.quorum_port, wire.here, rack)
            for each, rack in zip(free_addresses(2), "ab", strict=True)
        ]
        nodes = (*near, Address(*_KAFKA_PORTS, wire.there, "c", far.command()))
        cluster = Cluster(folder / "kafka", Shape(nodes))
        held.callback(cluster.kill)
        servers = held.enter_context(postgres_pair(folder / "pg", far))
        cluster.start()
        asyncio.run(_create(servers.url))
        database = servers.url.replace("/postgres?", "/faults?")
        migrate(database)
        made = Datacentres(folder, far, cluster, servers, database)
        held.callback(made.stop)
        yield made


async def _create(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE DATABASE faults")
    await connection.close()
