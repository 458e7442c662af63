"""PostgreSQL servers of the embedded binaries, with settings of their own: killed, backed up, promoted."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psutil
import psycopg

from streamsched.store.server import embedded_server as server
from streamsched.store.server.migrate import migrate

_AS_USER: Final = ("setpriv", "--reuid=pgserver", "--regid=pgserver", "--clear-groups")


class PostgresServer:
    """One in a folder, reached by its socket, and over TCP where it listens.

    Attributes:
        url: of its maintenance database, by the socket.
    """

    def __init__(
        self,
        folder: Path,
        *settings: str,
        port: int = 5432,
        within: Sequence[str] = (),
        binaries: Path | None = None,
    ) -> None:
        """`settings`: such as `wal_level=replica`; `within`: the command that runs it elsewhere; `binaries`: the folder
        of another version's commands.
        """
        self.folder = folder
        self._settings = ("max_connections=120", "log_min_messages=warning", f"port={port}", *settings)
        self._within = within
        self._binaries = binaries or server._binaries()

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={quote(str(self._sockets))}"

    @property
    def _sockets(self) -> Path:
        return server._short_directory(self.folder)

    def create(self, *allowed: str) -> None:
        """An empty one that runs. `allowed`: lines for `pg_hba.conf`."""
        server._make(self._binaries, self.folder)
        with (self.folder / "pg_hba.conf").open("a") as rules:
            rules.writelines(f"{line}\n" for line in allowed)
        self.start()

    def start(self) -> None:
        """Returns when it takes connections."""
        options = " ".join(f"-c {each}" for each in self._settings) + f" -k {self._sockets}"
        self._control("-l", str(self.folder / "log"), "-o", options, "start")

    def copy_to(self, folder: Path, source: str, *options: str) -> None:
        """`pg_basebackup`: the whole server as of the end of the call. `source`: a connection string of it."""
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            server._grant_system_user(self._binaries, folder)
        self._run((), "pg_basebackup", "-d", source, "-D", str(folder), "-X", "stream", "-c", "fast", *options)

    def back_up(self, folder: Path) -> None:
        self.copy_to(folder, f"host={self._sockets} user=postgres")

    def promote(self) -> None:
        """Makes a standby a primary; returns when it takes writes."""
        self._control("promote")

    def destroy(self) -> None:
        """SIGKILL, and its data is gone."""
        process = postmaster(self.folder)
        family = process.children(recursive=True)
        process.kill()
        psutil.wait_procs([process, *family], timeout=20)
        shutil.rmtree(self.folder)

    def stop(self) -> None:
        """If it runs."""
        server.stop_server(self.folder)

    def _control(self, *arguments: str) -> None:
        self._run(self._within, "pg_ctl", "-D", str(self.folder), "-w", *arguments)

    def _run(self, within: Sequence[str], command: str, *arguments: str) -> None:
        """Its output goes to a file: a server that pg_ctl starts would keep a pipe open."""
        user = _AS_USER if os.geteuid() == 0 else ()
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                (*within, *user, str(self._binaries / command), *arguments),
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


def postmaster(folder: Path) -> psutil.Process:
    """The process of the server of a folder, which runs."""
    return psutil.Process(int((folder / "postmaster.pid").read_text().splitlines()[0]))


def create_database(url: str) -> str:
    """Makes and migrates the database `faults` of the server with this maintenance database; its URL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE faults")
    made = url.replace("/postgres?", "/faults?")
    migrate(made)
    return made
