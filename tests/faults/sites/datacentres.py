"""An installation over three datacentres, one of which can be lost: with it a Kafka broker, the PostgreSQL primary and
a launcher. Needs root.

The lost datacentre is a network namespace that is cut off silently: what runs there goes on, and reaches nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Address, Shape
from streamsched.domain.addresses import LOOPBACK
from tests.faults.processes.command import environ, role
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.far_side import FarSide, far_side
from tests.faults.sites.installation_site import SHARDS
from tests.faults.sites.postgres_server import PostgresServer, create_database

#: How long a silent owner keeps its lanes, in seconds.
LEASE_S: Final = 3.0
_API_PORT: Final = 8765
_KAFKA_PORTS: Final = (9092, 9093)
_PORT: Final = 5432
_STANDBY_PORT: Final = 5433
#: What both servers have. The standby has these of its primary at least.
_BOTH: Final = ("wal_level=replica", "max_wal_senders=5")


@dataclass(frozen=True, slots=True)
class Datacentres:
    """Attributes:
    standby: here; the primary is in the other datacentre.
    database: URL of the migrated database, on whichever server is the primary.
    """

    far: FarSide
    cluster: Cluster
    standby: PostgresServer
    database: str
    processes: PlacedProcesses

    @property
    def here(self) -> str:
        """An address of this side that the lost datacentre reached too."""
        return self.far.wires[0].here

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{_API_PORT}"

    def start(self) -> None:
        """The API and two launchers here, and one launcher there."""
        for place in ("api", "launcher-1", "launcher-2"):
            self.processes.start(place, role(place.partition("-")[0]))
        self.processes.start("launcher-far", self.far.command(*role("launcher")))

    def cut_off(self) -> None:
        """From now on nothing passes between the lost datacentre and the others."""
        self.far.wires[0].cut()


@contextmanager
def datacentres(folder: Path, *, task_topics: str) -> Iterator[Datacentres]:
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
        primary = PostgresServer(folder / "primary", *_BOTH, f"listen_addresses={wire.there}", within=far.command())
        standby = PostgresServer(folder / "standby", *_BOTH, f"listen_addresses={wire.here}", port=_STANDBY_PORT)
        held.callback(primary.stop)
        held.callback(standby.stop)
        _start_pair(primary, standby, f"host={wire.there} port={_PORT} user=postgres")
        cluster.start()
        hosts = f"{wire.there}:{_PORT},{wire.here}:{_STANDBY_PORT}"
        database = create_database(f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write")
        env = environ(
            database_url=database,
            broker_url=cluster.url,
            shards=SHARDS,
            data_dir=folder / "data",
            api_port=_API_PORT,
            lease=f"{LEASE_S:g}s",
            task_topics=task_topics,
            outgoing_networks=f"{LOOPBACK},{wire.here}/32",
            log_level="info",
            log_format="json",
        )
        with PlacedProcesses(folder, env) as processes:
            yield Datacentres(far, cluster, standby, database, processes)


def _start_pair(primary: PostgresServer, standby: PostgresServer, source: str) -> None:
    """Returns when a commit on the primary waits for the standby. `source`: how the primary is reached."""
    net = "10.64.0.0/10 trust"
    primary.create(f"host all all {net}", f"host replication all {net}")
    standby.copy_to(standby.folder, f"{source} application_name=standby", "-R")
    standby.start()
    with psycopg.connect(source, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby)'")
        connection.execute("SELECT pg_reload_conf()")
        seen = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
        while connection.execute(seen).fetchone() != (1,):
            connection.execute("SELECT pg_sleep(0.05)")
