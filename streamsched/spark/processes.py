"""Runner processes on this host: implements `ports.runner` with plain processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamsched.domain.errors import UnavailableError
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd
from streamsched.process.closed_process import start_closed
from streamsched.spark.files import RunFiles, read_note
from streamsched.spark.warm.runners import ForkServerProcess

#: Linux, for signals at a parent's death and for descriptors of processes.
_CAN_FORK: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")


class LocalRunners:
    """Starts `python -m streamsched.runner <run>` as a closed process, in its own session with its output in a file, so
    that it survives the process that started it.

    Args:
        environ: the runner's environment, with its `Settings`.
        warm: whether runners are forked from a fork server, where the system has what that needs.
        capacity: most runners started here that may live at a time; None: two per core, at least four. Runners of
            earlier launchers are not counted.
    """

    def __init__(
        self, data_dir: Path, environ: Mapping[str, str], *, warm: bool = False, capacity: int | None = None
    ) -> None:
        self._data_dir = data_dir
        self._environ = dict(environ)
        self._capacity = capacity or max(4, 2 * (os.cpu_count() or 1))
        self._started: list[subprocess.Popen[bytes]] = []
        self._forked: list[RunnerId] = []
        self._fork_server = ForkServerProcess(environ) if warm and _CAN_FORK else None

    def spawn(self, run: str) -> None:
        files = RunFiles(self._data_dir, run)
        self._reap()
        try:
            files.make_folders()
            with files.runner_log.open("ab") as log:
                if self._fork(run, log.fileno()):
                    return
                self._started.append(
                    start_closed(
                        "streamsched.runner",
                        [run],
                        environ=self._environ,
                        stdout=log,
                        stderr=log,
                    )
                )
        except OSError as exc:
            raise UnavailableError(f"no runner process can be started: {exc}") from exc

    def room(self) -> int:
        self._reap()
        return max(0, self._capacity - len(self._started) - len(self._forked))

    def alive(self, runner: RunnerId) -> bool | None:
        if runner.host != socket.gethostname():
            return None
        self._reap()
        return is_alive(runner.pid, runner.start_ticks)

    def end_note(self, run: str) -> RunEnd | None:
        try:
            return read_note(RunFiles(self._data_dir, run))
        except OSError as exc:
            raise UnavailableError(f"the note of run '{run}' cannot be read: {exc}") from exc

    def _fork(self, run: str, log: int) -> bool:
        """Whether a runner was forked for the run. If one was and that is not known, another that is started claims
        nothing.
        """
        pid = None if self._fork_server is None else self._fork_server.fork(run, log)
        if pid is None:
            return False
        self._forked.append(RunnerId(socket.gethostname(), pid, start_ticks(pid) or 0))
        return True

    def _reap(self) -> None:
        """Waits for runners that have ended, so that none stays a zombie; the fork server does so for its own."""
        self._started = [process for process in self._started if process.poll() is None]
        self._forked = [each for each in self._forked if is_alive(each.pid, each.start_ticks)]


def this_process() -> RunnerId:
    """The id of the current process."""
    pid = os.getpid()
    return RunnerId(socket.gethostname(), pid, start_ticks(pid) or 0)


def is_alive(pid: int, ticks: int) -> bool:
    """Whether the process with this pid lives and started at `ticks` (0: any start)."""
    if Path("/proc/self/stat").exists():
        now = start_ticks(pid)
        return now is not None and ticks in (0, now)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def start_ticks(pid: int) -> int | None:
    """When a live process started, in clock ticks since boot; None if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
