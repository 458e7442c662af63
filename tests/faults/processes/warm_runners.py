"""Runners that are forked from one warm process: `python -m tests.faults.processes.warm_runners SOCKET`.

Each is a process of its own that executes `streamsched.roles.runner`'s code, as the product's runners are; it lives on
when the process that requested it dies. Only Python's start and its imports are saved.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from streamsched.domain.constraints.process_room import ProcessKind
from streamsched.domain.errors import StreamschedError, UnavailableError
from streamsched.ports.runner import RunnerId
from streamsched.ports.runs import RunEnd
from streamsched.roles import runner
from streamsched.spark.files import RunFiles, read_note
from streamsched.spark.processes import is_alive

#: How many may live at a time.
_CAPACITY = 8


class WarmRunners:
    """`ports.runner` by way of the warm process."""

    def __init__(self, data_dir: Path, warm: Path) -> None:
        self._data_dir = data_dir
        self._warm = warm
        self._started: list[int] = []

    def spawn(self, run: str, kind: ProcessKind) -> None:
        del kind
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(10)
                connection.connect(str(self._warm))
                connection.sendall(run.encode() + b"\n")
                self._started.append(int(connection.recv(32)))
        except (OSError, ValueError) as exc:
            raise UnavailableError(f"no runner process can be started: {exc}") from exc

    def fence(self, run: str) -> None:
        """Its programs have no outputs."""

    def fence_room(self) -> int:
        return 0

    def places(self) -> Mapping[ProcessKind, int]:
        return dict.fromkeys(ProcessKind, _CAPACITY)

    def room(self, kind: ProcessKind) -> int:
        del kind
        self._started = [pid for pid in self._started if is_alive(pid, 0)]
        return max(0, _CAPACITY - len(self._started))

    def is_alive(self, runner: RunnerId) -> bool | None:
        return is_alive(runner.pid, runner.start_ticks)

    def end_note(self, run: str) -> RunEnd | None:
        return read_note(RunFiles(self._data_dir, run))


def serve(path: Path, execute: Callable[[str], None]) -> None:
    """Forks a process for each line that comes, which executes it to its own end, and answers with its id."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for them
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(64)
    gc.freeze()
    while True:
        connection, _ = listener.accept()
        line = connection.makefile().readline().strip()
        pid = os.fork()
        if not pid:
            connection.close()
            listener.close()
            execute(line)
        with suppress(OSError):  # who asked is dead; the run goes on
            connection.sendall(b"%d" % pid)
        connection.close()


def execute_run(run: str) -> None:
    """As the product's runner process, from here to its end."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    files = RunFiles(Path(os.environ["STREAMSCHED_DATA_DIR"]), run)
    files.make_folders()
    with files.runner_log.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    code = 0
    try:
        asyncio.run(runner.execute(run, os.environ))
    except StreamschedError as exc:
        sys.stderr.write(f"{exc}\n")
        code = 1
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), execute_run)
