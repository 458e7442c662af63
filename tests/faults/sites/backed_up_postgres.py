"""A PostgreSQL of which base backups are taken while it works, and servers that are started from them."""

from __future__ import annotations

import asyncio
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import asyncpg
import psutil

from streamsched.store.server import embedded_server as server

_SETTINGS: Final = ("listen_addresses=''", "wal_level=replica", "max_wal_senders=4", "max_connections=120")


class BackedUpPostgres:
    """A server of the embedded binaries in `folder`, which is reached by its socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def url(self) -> str:
        """Of its database `faults`."""
        return f"postgresql://postgres@/faults?host={quote(str(server._short_directory(self.folder)))}"

    def create(self) -> None:
        """Makes a new one with an empty database, and starts it."""
        server._make(server._binaries(), self.folder)
        self.start()
        asyncio.run(_create(self.url.replace("/faults?", "/postgres?")))

    def start(self) -> None:
        """Returns when it takes connections."""
        options = " ".join(f"-c {each}" for each in _SETTINGS) + f" -k {server._short_directory(self.folder)}"
        arguments = ("-D", str(self.folder), "-l", str(self.folder / "log"), "-w", "-o", options, "start")
        server._run(server._binaries(), "pg_ctl", *arguments)

    def back_up(self, into: Path) -> None:
        """`pg_basebackup`: a copy of the whole server as of the end of the call."""
        into.mkdir(mode=0o700)
        server._grant_system_user(server._binaries(), into)
        where = f"host={server._short_directory(self.folder)} user=postgres"
        server._run(server._binaries(), "pg_basebackup", "-d", where, "-D", str(into), "-X", "stream", "-c", "fast")

    def destroy(self) -> None:
        """SIGKILL, and its data is gone."""
        pid = int((self.folder / "postmaster.pid").read_text().splitlines()[0])
        with suppress(psutil.NoSuchProcess):
            family = psutil.Process(pid).children(recursive=True)
            psutil.Process(pid).send_signal(signal.SIGKILL)
            psutil.wait_procs([*family], timeout=20)
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        """If it runs."""
        if self.folder.exists():
            server.stop_server(self.folder)


async def _create(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE DATABASE faults")
    await connection.close()
