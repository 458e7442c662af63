"""Runner processes on this host: implements `ports.runner` with plain processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, assert_never

from streamsched.domain.constraints.process_room import ProcessKind, reserve_of
from streamsched.domain.errors import UnavailableError
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd
from streamsched.process.closed_process import start_closed
from streamsched.spark.files import RunFiles, read_note
from streamsched.spark.warm.runners import ForkServerProcess

#: Processes that write fences, at a time.
_FENCES: Final = 4
#: Linux, for signals at a parent's death and for descriptors of processes.
_CAN_FORK: Final = sys.platform == "linux" and hasattr(os, "pidfd_open")


class LocalRunners:
    """Starts `python -m streamsched.roles.runner <run>` as a closed process, in its own session with its output in a
    file, so that it survives the process that started it.

    Args:
        environ: the runner's environment, with its `Settings`.
        warm: whether runners are forked from a fork server, where the system has what that needs.
        places: how many runners of each kind that were started here live at a time, without the reserve; missing or 0:
            as many as `default_places` says. Those of earlier launchers are not counted.
    """

    def __init__(
        self,
        data_dir: Path,
        environ: Mapping[str, str],
        *,
        warm: bool = False,
        places: Mapping[ProcessKind, int] | None = None,
    ) -> None:
        self._data_dir = data_dir
        self._environ = dict(environ)
        self._places = {kind: (places or {}).get(kind) or default_places(kind) for kind in ProcessKind}
        self._started: list[tuple[ProcessKind, subprocess.Popen[bytes]]] = []
        self._forked: list[tuple[ProcessKind, RunnerId]] = []
        self._fences: list[subprocess.Popen[bytes]] = []
        self._fork_server = ForkServerProcess(environ) if warm and _CAN_FORK else None

    def start_fork_server(self) -> None:
        """Starts the fork server before the first run needs it. Without one, does nothing."""
        if self._fork_server is not None:
            self._fork_server.start()

    def spawn(self, run: str, kind: ProcessKind = ProcessKind.HOST) -> None:
        """Starts a runner of the run on this host, which outlives this process."""
        self._reap()
        with self._log(run) as log:
            if not self._fork(run, kind, log.fileno()):
                self._started.append((kind, self._start(log, run)))

    def fence(self, run: str) -> None:
        """Starts a process that fences the run's datasets, after the run was given up."""
        with self._log(run) as log:
            self._fences.append(self._start(log, "--fence", run))

    def fence_room(self) -> int:
        """How many more fencing processes may be started."""
        self._fences = [process for process in self._fences if process.poll() is None]
        return max(0, _FENCES - len(self._fences))

    def places(self) -> Mapping[ProcessKind, int]:
        """How many runners of each kind this host has places for."""
        return self._places

    def room(self, kind: ProcessKind) -> int:
        """How many more runners of the kind may be started now."""
        self._reap()
        living = sum(each is kind for each, _ in (*self._started, *self._forked))
        return max(0, self._places[kind] + reserve_of(self._places[kind]) - living)

    def is_alive(self, runner: RunnerId) -> bool | None:
        """Whether the runner's process lives; None when it runs on another host."""
        if runner.host != socket.gethostname():
            return None
        self._reap()
        return is_alive(runner.pid, runner.start_ticks)

    def end_note(self, run: str) -> RunEnd | None:
        """The end that a runner noted in a file when PostgreSQL could not be reached; None without a note."""
        try:
            return read_note(RunFiles(self._data_dir, run))
        except OSError as exc:
            raise UnavailableError(f"the note of run '{run}' cannot be read: {exc}") from exc

    @contextmanager
    def _log(self, run: str) -> Iterator[BinaryIO]:
        """Where a process of the run writes.

        Raises:
            UnavailableError: it cannot be opened, or the process not be started within the block.
        """
        files = RunFiles(self._data_dir, run)
        try:
            files.make_folders()
            with files.runner_log.open("ab") as log:
                yield log
        except OSError as exc:
            raise UnavailableError(f"no runner process can be started: {exc}") from exc

    def _start(self, log: BinaryIO, *arguments: str) -> subprocess.Popen[bytes]:
        return start_closed("streamsched.roles.runner", arguments, environ=self._environ, stdout=log, stderr=log)

    def _fork(self, run: str, kind: ProcessKind, log: int) -> bool:
        """Whether a runner was forked for the run. If one was and that is not known, another that is started claims
        nothing.
        """
        pid = None if self._fork_server is None else self._fork_server.fork(run, log)
        if pid is None:
            return False
        self._forked.append((kind, RunnerId(socket.gethostname(), pid, start_ticks(pid) or 0)))
        return True

    def _reap(self) -> None:
        """Waits for runners that have ended, so that none stays a zombie; the fork server does so for its own."""
        self._started = [(kind, process) for kind, process in self._started if process.poll() is None]
        self._forked = [(kind, each) for kind, each in self._forked if is_alive(each.pid, each.start_ticks)]


def default_places(kind: ProcessKind) -> int:
    """How many processes of this kind a launcher runs unless a setting says so. One that only watches a cluster costs
    little beside one whose program works here.
    """
    cores = os.cpu_count() or 1
    match kind:
        case ProcessKind.HOST:
            return max(4, 2 * cores)
        case ProcessKind.CLUSTER:
            return max(16, 8 * cores)
        case _:
            assert_never(kind)


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
