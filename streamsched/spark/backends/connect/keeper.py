"""`python -m streamsched.spark.backends.connect.keeper FOLDER SETTINGS LOCK`: keeps a Spark Connect server.

It ends the session of each run that does not use the server any more, whatever ended the run; replaces the server after
some runs or when it takes too much memory, and ends it when it is idle, ill, or replaced and unused. The server ends
with it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from uuid import uuid4

import orjson

from streamsched.domain.errors import ConfigurationError, UnavailableError
from streamsched.spark.backends.connect.server import (
    STARTING_S,
    ConnectServer,
    event_log_folder,
    lock_file,
    start_keeper,
    ticks_of,
)
from streamsched.spark.backends.connect.session import release, session_id
from streamsched.spark.child import parent_death_signal
from streamsched.spark.command import ConnectSettings
from streamsched.spark.metrics.event_log_files import remove_older
from streamsched.spark.metrics.event_log_settings import defaults_log_events, event_log_settings

_LOOK_S: Final = 0.5
#: Seconds between two checks of health, and failed ones in a row after which the server is ended.
_CHECK_S: Final = 10.0
_FAILED: Final = 3
#: Files of its event log that are kept: those that no runner still reads are older.
_LOG_FILES: Final = 4


class Keeper:
    """Keeps one server from its start to its end.

    Args:
        lock: descriptor that other keepers wait for while the server starts.
    """

    def __init__(self, folder: Path, settings: ConnectSettings, environ: Mapping[str, str], lock: int) -> None:
        self._folder = folder
        self._settings = settings
        self._environ = environ
        self._lock = lock
        self._id = uuid4().hex[:12]
        self._uses = folder / "uses" / self._id
        self._events = event_log_folder(folder, self._id)
        self._token = secrets.token_urlsafe(32)
        self._runs = self._ill = 0
        self._used_at = self._checked_at = time.monotonic()
        self._successor: subprocess.Popen[bytes] | None = None

    def run(self) -> None:
        """Until the server has ended.

        Raises:
            ConfigurationError: it cannot be started.
        """
        port = _free_port()
        self._uses.mkdir(parents=True, exist_ok=True)
        url = f"sc://localhost:{port}"
        events = self._open_events()
        process = self._start(port)
        try:
            self._wait_until_ready(process, url)
            server = ConnectServer(self._id, url, self._token, os.getpid(), ticks_of(os.getpid()))
            server.publish(self._folder)
            os.close(self._lock)
            self._used_at = time.monotonic()
            while process.poll() is None and self._keep(process, server):
                time.sleep(_LOOK_S)
        finally:
            process.kill()
            process.wait()
            self._withdraw()
            for each in self._uses.iterdir():
                each.unlink(missing_ok=True)
            self._uses.rmdir()
            _remove_events(self._events)
            os.close(events)

    def _open_events(self) -> int:
        """Makes the folder of the event log, and removes those of keepers that were killed. Returns the lock of it."""
        self._events.mkdir(parents=True, exist_ok=True)
        kept = lock_file(self._events.with_suffix(".lock"))
        assert kept is not None  # no other process knows the name
        for path in self._events.parent.glob("*.lock"):
            if (lock := lock_file(path)) is not None:
                _remove_events(path.with_suffix(""))
                os.close(lock)
        return kept

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        spec = find_spec("pyspark")
        if spec is None or spec.origin is None:
            raise ConfigurationError("PySpark is not installed: pip install 'streamsched[spark]'")
        home, settings = Path(spec.origin).parent, self._settings
        conf = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.memory": settings.memory,
            "spark.ui.enabled": "false",
            "spark.log.level": "WARN",
            "spark.connect.session.manager.closedSessionsTombstonesSize": "10000",
            "spark.sql.warehouse.dir": str(self._folder / "warehouse"),
            **(event_log_settings(self._events) if self._measure(home) else {}),
        }
        environ = {
            **self._environ,
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": self._environ.get("PYSPARK_PYTHON", sys.executable),
            "SPARK_CONNECT_AUTHENTICATE_TOKEN": self._token,
        }
        environ.pop("SPARK_DAEMON_MEMORY", None)  # it would override the heap
        if settings.master.startswith("local"):
            environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        with (self._folder / "server.log").open("wb") as log:
            return subprocess.Popen(
                [
                    *(str(home / "bin" / "spark-submit"), "--master", settings.master, "--name", "streamsched-connect"),
                    *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
                    *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
                    "spark-internal",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environ,
                preexec_fn=parent_death_signal(),  # noqa: PLW1509 - of a process without threads
            )

    def _measure(self, home: Path) -> bool:
        return self._settings.metrics and not defaults_log_events(self._environ, home)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], url: str) -> None:
        deadline = time.monotonic() + STARTING_S
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(UnavailableError):
                release(url, self._token, str(uuid4()))
                return
            time.sleep(_LOOK_S)
        raise ConfigurationError("the server does not start; see server.log")

    def _keep(self, process: subprocess.Popen[bytes], server: ConnectServer) -> bool:
        """One look; False when the server is to end."""
        now, used = time.monotonic(), self._ended_runs(server)
        with suppress(OSError):  # at the next look
            remove_older(self._events, newest=_LOG_FILES)
        if used:
            self._used_at = now
        if now - self._checked_at > _CHECK_S and not self._is_healthy(server, now):
            return False
        current = ConnectServer.read(self._folder)
        if current is None:
            server.publish(self._folder)  # its successor could not start
        elif current.id != self._id:
            return bool(used)
        if self._successor is not None and self._successor.poll() is not None:
            self._successor = None
        full = self._runs + used >= self._settings.runs or _resident_bytes(process.pid) > self._settings.resident
        if full and self._successor is None:
            self._replace()
        if not used and now - self._used_at > self._settings.idle_s:
            return self._is_used(server)
        return True

    def _ended_runs(self, server: ConnectServer) -> int:
        """Ends the sessions of runs that do not use the server any more; returns how many still do."""
        used = 0
        for path in [each for each in self._uses.iterdir() if not each.name.startswith(".")]:
            lock = lock_file(path)
            if lock is None:
                used += 1
                continue
            try:
                release(server.url, server.token, session_id(path.name))
                path.unlink(missing_ok=True)
                self._runs += 1
            except UnavailableError:
                continue  # at the next look
            finally:
                os.close(lock)
        return used

    def _is_healthy(self, server: ConnectServer, now: float) -> bool:
        self._checked_at = now
        try:
            release(server.url, server.token, str(uuid4()))
            self._ill = 0
        except UnavailableError:
            self._ill += 1
        return self._ill < _FAILED

    def _replace(self) -> None:
        lock = lock_file(self._folder / "start.lock")
        if lock is None:
            return
        try:
            self._successor = start_keeper(self._folder, self._settings, self._environ, lock)
        finally:
            os.close(lock)

    def _is_used(self, server: ConnectServer) -> bool:
        """No run begins to use the server after it was withdrawn; one that did before is seen here."""
        self._withdraw()
        if not self._ended_runs(server):
            return False
        server.publish(self._folder)
        return True

    def _withdraw(self) -> None:
        current = ConnectServer.read(self._folder)
        if current is not None and current.id == self._id:
            (self._folder / "server.json").unlink(missing_ok=True)


def _resident_bytes(pid: int) -> int:
    """Bytes of memory that the process takes; 0 where that is unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _remove_events(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.with_suffix(".lock").unlink(missing_ok=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main() -> None:
    """The entry point of the process that keeps a Spark Connect server. Its arguments: the folder, the settings as
    JSON, and the descriptor of the lock. SIGTERM ends it with its server; SIGINT and SIGHUP, which a terminal sends to
    all its processes, do not.
    """
    folder, settings, lock = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        Keeper(Path(folder), ConnectSettings(**orjson.loads(settings)), os.environ, int(lock)).run()
    except ConfigurationError as exc:
        sys.exit(str(exc))


if __name__ == "__main__":
    main()
