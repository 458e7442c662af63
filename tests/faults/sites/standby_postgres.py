"""A PostgreSQL primary in another datacentre, and its synchronous standby here, from the embedded server's binaries."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from streamsched.store.server import embedded_server as server
from tests.faults.sites.far_side import FarSide

_PORT: Final = 5432
_STANDBY_PORT: Final = 5433
_USER: Final = ("setpriv", "--reuid=pgserver", "--regid=pgserver", "--clear-groups")
#: What both have. The standby has these of its primary at least.
_BOTH: Final = ("wal_level=replica", "max_wal_senders=5", "max_connections=120", "log_min_messages=warning")


@dataclass(frozen=True, slots=True)
class PostgresPair:
    """Attributes:
    url: of the maintenance database, on whichever of the two is the primary.
    """

    folder: Path
    far: FarSide

    @property
    def url(self) -> str:
        wire = self.far.wires[0]
        hosts = f"{wire.there}:{_PORT},{wire.here}:{_STANDBY_PORT}"
        return f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Returns when a commit on the primary waits for the standby."""
        wire, primary, standby = self.far.wires[0], self.folder / "primary", self.folder / "standby"
        server._make(server._binaries(), primary)
        with (primary / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.64.0.0/10 trust\nhost replication all 10.64.0.0/10 trust\n")
        self._start(primary, wire.there, _PORT, within=self.far.command())
        standby.mkdir(mode=0o700)
        shutil.chown(standby, "pgserver", "pgserver")
        source = f"host={wire.there} port={_PORT} user=postgres application_name=standby"
        _run((), "pg_basebackup", "-d", source, "-D", str(standby), "-R", "-X", "stream", "-c", "fast")
        self._start(standby, wire.here, _STANDBY_PORT, within=())
        with psycopg.connect(f"host={wire.there} port={_PORT} user=postgres", autocommit=True) as primary_:
            primary_.execute("ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby)'")
            primary_.execute("SELECT pg_reload_conf()")
            seen = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
            while primary_.execute(seen).fetchone() != (1,):
                primary_.execute("SELECT pg_sleep(0.05)")

    def promote(self) -> None:
        """Makes the standby a primary; returns when it takes writes."""
        _run((), "pg_ctl", "-D", str(self.folder / "standby"), "-w", "promote")

    def stop(self) -> None:
        for name in ("primary", "standby"):
            server.stop_server(self.folder / name)

    def _start(self, folder: Path, address: str, port: int, *, within: Sequence[str]) -> None:
        sockets = server._short_directory(folder)
        settings = (*_BOTH, f"listen_addresses={address}", f"port={port}")
        options = " ".join(f"-c {each}" for each in settings) + f" -k {sockets}"
        _run(within, "pg_ctl", "-D", str(folder), "-l", str(folder / "log"), "-w", "-o", options, "start")


@contextmanager
def postgres_pair(folder: Path, far: FarSide) -> Iterator[PostgresPair]:
    """The primary is on the far side, the standby on this one."""
    folder.mkdir()
    pair = PostgresPair(folder, far)
    try:
        pair.start()
        yield pair
    finally:
        pair.stop()


def _run(within: Sequence[str], command: str, *arguments: str) -> None:
    """Its output goes to a file: a server that pg_ctl starts would keep a pipe open."""
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            (*within, *_USER, str(server._binaries() / command), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            timeout=120,
            check=False,
        )
        output.seek(0)
        if done.returncode:
            raise OSError(f"{command} failed: {output.read().decode(errors='replace')[-800:]}")
