"""The Spark Connect server of a launcher's machine: where its keeper, its users and its address are.

<data_dir>/spark-connect/server.json       the server that new runs use
<data_dir>/spark-connect/start.lock        held while a keeper is started
<data_dir>/spark-connect/uses/<id>/<run>   locked by the runner of each run that uses the server
<data_dir>/spark-connect/events/<id>/      the event log of the server, until it ends
<data_dir>/spark-connect/events/<id>.lock  locked by the keeper of the server
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

import orjson

from streamsched.domain.errors import ConfigurationError
from streamsched.domain.jobs.run import file_name
from streamsched.process.closed_process import start_closed
from streamsched.process.files import write_atomically
from streamsched.process.os_user import private_folder
from streamsched.spark.command import ConnectSettings
from streamsched.spark.files import failure_reason
from streamsched.spark.processes import is_alive, start_ticks

#: Seconds a server may take to start, and between two looks.
STARTING_S: Final = 300.0
_LOOK_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A running server. `keeper`, `ticks`: the process that keeps it, and when that started."""

    id: str
    url: str
    token: str
    keeper: int
    ticks: int

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The server that new runs use; None without one."""
        try:
            found = cls(**orjson.loads((folder / "server.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if is_alive(found.keeper, found.ticks) else None

    def publish(self, folder: Path) -> None:
        """From now on new runs use it."""
        path = folder / "server.json"
        with write_atomically(path) as file:
            os.fchmod(file.fileno(), 0o600)  # it has the token
            file.write(orjson.dumps(asdict(self)))


class Use:
    """A run's use of a server; the lock ends with its process."""

    def __init__(self, server: ConnectServer, file: int) -> None:
        self.server = server
        self._file = file

    def close(self) -> None:
        """Idempotent."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def connect_folder(data_dir: Path) -> Path:
    """The folder of the machine's server."""
    return data_dir / "spark-connect"


def event_log_folder(folder: Path, server: str) -> Path:
    """The folder of the event log of a server, in the machine's folder."""
    return folder / "events" / server


async def use_server(folder: Path, settings: ConnectSettings, run: str, environ: Mapping[str, str]) -> Use:
    """Waits for the machine's server, which is started if there is none, and registers the run's use.

    Raises:
        ConfigurationError: it cannot be started.
    """
    await asyncio.to_thread(private_folder, folder)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + STARTING_S
    started: subprocess.Popen[bytes] | None = None
    while True:
        server = ConnectServer.read(folder)
        if server is not None and (use := _register_use(folder, server, run)) is not None:
            return use
        if server is None and started is None:
            started = _start_alone(folder, settings, environ)
        elif started is not None and started.poll() is not None:
            why = failure_reason(folder / "server.log")
            raise ConfigurationError(f"the Spark Connect server of this machine cannot be started: {why}")
        if loop.time() > deadline:
            raise ConfigurationError(f"the Spark Connect server of this machine has not started in {STARTING_S:.0f} s")
        await asyncio.sleep(_LOOK_S)


def start_keeper(
    folder: Path, settings: ConnectSettings, environ: Mapping[str, str], lock: int
) -> subprocess.Popen[bytes]:
    """Starts a process that starts a server and keeps it. It inherits the descriptor `lock` and outlives this process.

    Raises:
        OSError: it cannot be started.
    """
    with (folder / "keeper.log").open("ab") as log:
        return start_closed(
            "streamsched.spark.backends.connect.keeper",
            (str(folder), orjson.dumps(asdict(settings)).decode(), str(lock)),
            environ={name: value for name, value in environ.items() if not name.startswith("STREAMSCHED_")},
            stdout=log,
            stderr=log,
            pass_fds=(lock,),
        )


def lock_file(path: Path) -> int | None:
    """The descriptor of the file with an exclusive lock; None when another process has the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def ticks_of(pid: int) -> int:
    """When the process started; 0 where that is unknown."""
    return start_ticks(pid) or 0


def _start_alone(folder: Path, settings: ConnectSettings, environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    """A keeper that starts a server; None when another one does already."""
    lock = lock_file(folder / "start.lock")
    if lock is None:
        return None
    try:
        return None if ConnectServer.read(folder) is not None else start_keeper(folder, settings, environ, lock)
    except OSError as exc:
        raise ConfigurationError(f"the keeper of the Spark Connect server cannot be started: {exc}") from exc
    finally:
        os.close(lock)  # the keeper has a copy


def _register_use(folder: Path, server: ConnectServer, run: str) -> Use | None:
    """The use, unless the server was replaced meanwhile."""
    uses = folder / "uses" / server.id
    name = file_name(run)
    hidden = uses / f".{name}.{os.getpid()}"  # a file with the run's name is locked as long as the run uses the server
    try:
        file = lock_file(hidden)
        if file is None:
            return None
        hidden.rename(uses / name)
    except OSError:  # the server has ended
        return None
    again = ConnectServer.read(folder)
    if again is None or again.id != server.id:
        os.close(file)
        return None
    return Use(server, file)
