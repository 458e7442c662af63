"""Processes forked from a warm one: `python -m tests.hostile.warm_roles FOLDER`. It saves Python's start and imports.

A request is one line of JSON on the process's standard input, `{"number", "command", "env", "log", "path"}`; the answer
is one line on its standard output, the process id. When a process ends, its exit code is written to
`FOLDER/<pid>.exit`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.faults.processes import role_process, warm_runners
from tests.faults.processes.command import ROOT, environ, module


class WarmProcess:
    """One of the forked processes, used as a `Popen` is."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._exit = folder / f"{pid}.exit"

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        try:
            return int(self._exit.read_text())
        except (FileNotFoundError, ValueError):
            return None

    def wait(self, timeout: float = 30.0) -> int:
        """The exit code.

        Raises:
            TimeoutExpired: it goes on.
        """
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.02)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class WarmRoles:
    """The warm process; started with the first process that is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._warm: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], log: Path, env: Mapping[str, str], path: Path) -> WarmProcess:
        """A process that does what `command` (a role's or `runners`, and its arguments) says; `path` is added to where
        it finds modules."""
        if self._warm is None:
            self._warm = subprocess.Popen(
                module("tests.hostile.warm_roles", str(self._folder)),
                cwd=ROOT,
                env=environ(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        asked = {"command": list(command), "env": dict(env), "log": str(log), "path": str(path)}
        self._warm.stdin.write(json.dumps(asked).encode() + b"\n")
        self._warm.stdin.flush()
        return WarmProcess(int(self._warm.stdout.readline()), self._folder)

    def stop(self) -> None:
        if self._warm is not None:
            self._warm.kill()
            self._warm.wait()
            self._warm = None


def serve(folder: Path) -> None:
    """Forks until its input ends."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.freeze()
    while True:
        ready, _, _ = select.select([sys.stdin.buffer, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(folder)
        if sys.stdin.buffer in ready:
            line = sys.stdin.buffer.raw.readline()  # type: ignore[attr-defined]
            if not line:
                return
            asked = json.loads(line)
            pid = os.fork()
            if not pid:
                os.close(woken)
                os.close(wake)
                _become(asked)
            (folder / f"{pid}.exit").unlink(missing_ok=True)  # of an earlier process with this number
            sys.stdout.write(f"{pid}\n")
            sys.stdout.flush()


def _reap(folder: Path) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            part = folder / f"{ended[0]}.part"
            part.write_text(str(os.waitstatus_to_exitcode(ended[1])))
            part.rename(folder / f"{ended[0]}.exit")


def _become(asked: Mapping[str, Any]) -> None:
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.path.insert(0, asked["path"])
    out = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, what in enumerate((nothing, out, out)):
        os.dup2(what, number)
    role, *arguments = asked["command"]
    code = 0
    try:
        if role == "runners":
            warm_runners.serve(Path(arguments[0]), warm_runners.execute_run)
        else:
            role_process.main(role, arguments[0], Path(arguments[1]), None)
    except BaseException as exc:  # noqa: BLE001 - as the interpreter would end
        sys.stderr.write(f"{exc!r}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
