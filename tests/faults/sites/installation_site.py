"""What a run stands on: a PostgreSQL of our own, the log in it or on a Kafka of our own; both may be killed."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from compose.kafka.cluster import Cluster, free_addresses
from compose.kafka.properties import Shape
from compose.ports import free_port
from streamsched.store.server.embedded_server import start_server, stop_server
from tests.faults.processes.command import environ
from tests.faults.processes.placed import PlacedProcesses
from tests.faults.sites.postgres_server import create_database, postmaster
from tests.faults.sites.visibility import note_visibility

SHARDS = 4
#: How long a silent process keeps its leases, in seconds.
LEASE_S = 3.0


@dataclass(frozen=True, slots=True)
class InstallationSite:
    """Attributes:
    folder: everything of this run; the PostgreSQL server's data is in `pg` below it.
    database: URL of a migrated database on that server.
    log: URL of an empty log.
    port: where the API shall listen.
    cluster: the Kafka behind the log, unless PostgreSQL is the log.
    """

    folder: Path
    database: str
    log: str
    port: int
    cluster: Cluster | None = None

    @property
    def api(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """Where runs have their files."""
        return self.folder / "data"

    @property
    def started(self) -> Path:
        """Where every run that starts writes its id, a line each."""
        return self.folder / "started"

    def started_runs(self) -> list[str]:
        """The ids in that file so far."""
        return self.started.read_text().split() if self.started.exists() else []

    @property
    def serial(self) -> Path:
        """Where every run of a lane writes its id, a line each, after `+` when it begins and after `-` at its end."""
        return self.folder / "serial"

    def serial_runs(self) -> list[str]:
        """The lines of that file so far."""
        return self.serial.read_text().split() if self.serial.exists() else []

    def environ(self, **others: object) -> dict[str, str]:
        """What every process of the installation is given. `others`: settings in place of these, or beside them."""
        settings = {
            "database_url": self.database,
            "broker_url": self.log,
            "shards": SHARDS,
            "data_dir": self.data,
            "api_port": self.port,
            "lease": f"{LEASE_S:g}s",
            "launches_per_second": 0,
            "verdicts_keep": 0,
            "log_format": "json",
            "log_level": "info",
        }
        return environ(**{**settings, **others})

    def processes(self) -> PlacedProcesses:
        """For processes of the installation, which are killed at the end of its block."""
        self.data.mkdir(exist_ok=True)
        return PlacedProcesses(self.folder, self.environ())

    def kill_postgres(self, how: signal.Signals) -> None:
        """SIGQUIT: it drops everything and ends (`stop -m immediate`); SIGKILL: not even that."""
        with suppress(psutil.NoSuchProcess):
            process = postmaster(self.folder / "pg")
            process.send_signal(how)
            process.wait(30)

    def start_postgres(self) -> None:
        """It recovers, and takes connections when this returns."""
        start_server(self.folder / "pg")


@contextmanager
def site(folder: Path, broker: str, *, nodes: int = 1) -> Iterator[InstallationSite]:
    """A fresh one in an empty folder; on `kafka`, with a cluster of that many nodes."""
    folder.chmod(0o755)
    cluster = Cluster(folder / "kafka", Shape(free_addresses(nodes))) if broker == "kafka" else None
    try:
        server = start_server(folder / "pg").url
        database = create_database(server)
        note_visibility(database)
        if cluster is not None:
            cluster.start()
        yield InstallationSite(folder, database, database if cluster is None else cluster.url, free_port(), cluster)
    finally:
        if cluster is not None:
            cluster.kill()
        stop_server(folder / "pg")


@contextmanager
def temporary_site(broker: str, *, nodes: int = 1) -> Iterator[InstallationSite]:
    """As `site`, in a folder that goes with it."""
    with (
        tempfile.TemporaryDirectory(prefix="ss-faults-", ignore_cleanup_errors=True) as folder,
        site(Path(folder), broker, nodes=nodes) as made,
    ):
        yield made
