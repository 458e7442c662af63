"""`streamsched dev`: PostgreSQL, the log in it, worker, launcher, timers, relay and API, in one process for one folder.

Everything that matters is in the folder. Killed at any moment, with or without its PostgreSQL, the next start goes on
where it was.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from streamsched.api.serving import bind, url_of
from streamsched.bootstrap import Role, serve
from streamsched.config import Settings
from streamsched.domain.errors import ConfigurationError
from streamsched.store.migrate import migrate
from streamsched.store.server import start_server, stop_server
from streamsched.supervisor import run_until_told
from streamsched.telemetry.logs import configure_logs

log = structlog.get_logger()

#: Stands in for the database's URL until the embedded server has one.
_TO_COME = "postgresql://to-come"


@dataclass(frozen=True, slots=True)
class Started:
    """What a person needs to know of a scheduler that is up.

    Attributes:
        resumed: the folder held an earlier one's state.
        warnings: what will not work, and what to do about it.
    """

    url: str
    folder: Path
    resumed: bool
    warnings: tuple[str, ...]


def run_dev(
    environ: Mapping[str, str], *, data_dir: Path, announce: Callable[[Started], None], **options: object
) -> None:
    """Runs it all in `data_dir` until SIGINT or SIGTERM, then stops it all, PostgreSQL too.

    `announce` is called once, when the API answers. `options` are fields of `Settings` given on the command line.

    Raises:
        ConfigurationError: another one runs in this folder, the port is in use, or a setting is wrong; nothing was
            started.
        UnavailableError: PostgreSQL does not come up.
    """
    folder = data_dir.expanduser().resolve()
    given = {"log_level": environ.get("STREAMSCHED_LOG_LEVEL") or "warning", **_present(options)}
    settings = Settings.from_env(environ, **given, database_url=_TO_COME, data_dir=folder)
    with ExitStack() as held:
        held.enter_context(_alone(folder))
        bound = held.enter_context(bind(settings.api_host, settings.api_port))
        configure_logs(level=settings.log_level, style=settings.log_format, file=folder / "dev.log")
        postgres = folder / "postgres"
        resumed = postgres.exists()
        held.callback(stop_server, postgres)
        server = start_server(postgres)
        migrate(server.url)
        here = {"database_url": server.url, "data_dir": folder, "emit_url": url_of(bound)}
        given = {"broker_url": server.url, **given, **here}
        settings = Settings.from_env(environ, **given)
        held.enter_context(_findable(folder, bound, settings))
        started = Started(url_of(bound), folder, resumed, tuple(_warnings(environ)))
        for warning in started.warnings:
            log.info("dev.warned", warning=warning)
        run_until_told(
            serve(
                settings,
                Role.ALL,
                environ=environ,
                name="embedded",
                bound=bound,
                ready=lambda: announce(started),
            )
        )
        log.info("dev.stopped")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the folder; the operating system lets go of it when this process dies, however it dies.

    Raises:
        ConfigurationError: another process holds it, or it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("a+")
    except OSError as exc:
        raise ConfigurationError(f"{folder} cannot be used: {exc.strerror}; name another by --data-dir") from exc
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            lock.seek(0)
            owner = lock.read().strip() or "unknown"
            raise ConfigurationError(
                f"`streamsched dev` already runs in {folder} (process {owner}); use it, stop it, or name another "
                "folder by --data-dir"
            ) from exc
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


@contextmanager
def _findable(folder: Path, bound: socket.socket, settings: Settings) -> Iterator[None]:
    """While it runs, `dev.json` tells the command line where the API is, and administrators where everything is."""
    note = folder / "dev.json"
    unfinished = folder / "dev.json.new"
    unfinished.touch(mode=0o600)
    known = {"database_url": settings.database_url, "broker_url": settings.broker_url, "shards": settings.shards}
    unfinished.write_text(json.dumps({"url": url_of(bound), "pid": os.getpid(), "settings": known}))
    unfinished.replace(note)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def _warnings(environ: Mapping[str, str]) -> Iterator[str]:
    """What this machine lacks."""
    home = environ.get("JAVA_HOME")
    if shutil.which("java", path=environ.get("PATH")) is None and not (home and (Path(home) / "bin/java").exists()):
        yield (
            "no Java found, so Spark programs will fail: install Java 17 "
            "(Debian: openjdk-17-jre-headless), or set JAVA_HOME"
        )


def _present(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if value is not None}
