"""`python -m streamsched.spark.calls.prepared_driver SOCKET`: one prepared driver, for one run.

    fork server ── this process ── JVM with a context             while it waits
    runner ─────── this process ─┬ JVM
                                 └ Python of the run, forked      when it is given

It has imported libraries, never a module of a program. It answers one request, and then is to the run what
`warm.keeper` is: it reports the exit code, and ends both sessions when the runner ends. So a driver is given once,
whatever happens. It ends when the fork server does, unless it was given.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

from streamsched.spark import guard
from streamsched.spark.calls import attached
from streamsched.spark.calls.zygote import LibraryError, import_libraries, seed_libraries
from streamsched.spark.child import parent_death_signal
from streamsched.spark.warm.keeper import exit_code
from streamsched.spark.warm.libraries import Surroundings, Versions, loaded_libraries
from streamsched.spark.warm.messages import content_of, receive, send

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
#: What process lists call one that waits for its run.
NAME: Final = "spark-driver"
#: What every program with Spark imports, or soon.
_LIBRARIES: Final = ("pyspark.sql", "pyspark.sql.functions", "pyspark.sql.types", "pyspark.sql.window", "runpy")
#: Seconds that JVM and context may take to start, and a JVM to end after its Python.
_START_S: Final = 300.0
_END_S: Final = 20.0
_LOOK_S: Final = 0.05
_CONNECTION: Final = "_PYSPARK_DRIVER_CONN_INFO_PATH"


class DriverError(Exception):
    """The driver cannot be prepared; the text says why."""


class Jvm:
    """The JVM, a session of its own, which dies with this process. Its output goes to `log`.

    Raises:
        DriverError: it does not start.
        OSError: it cannot be started.
    """

    def __init__(self, submit: Sequence[str], log: int, server: socket.socket) -> None:
        self._server = server
        folder = tempfile.mkdtemp(prefix="streamsched-driver-")
        try:
            connection = Path(folder, "connection")
            self._process = subprocess.Popen(
                submit,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, _CONNECTION: str(connection), "SPARK_CONNECT_MODE": "0"},
                start_new_session=True,
                preexec_fn=parent_death_signal(),  # noqa: PLW1509 - of a process without threads
            )
            self.pid = self._process.pid
            self.ended = os.pidfd_open(self.pid)
            self._wait(connection.exists, "the JVM of a prepared driver does not start")
            port, length = struct.unpack(">ii", connection.read_bytes()[:8])
            secret = connection.read_bytes()[8 : 8 + length].decode()
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.gateway = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}

    def start_context(self) -> None:
        """Starts the SparkContext that waits for a run.

        Raises:
            DriverError: it does not start.
        """
        die_with_parent, pid = parent_death_signal(), os.fork()
        if not pid:
            if die_with_parent is not None:
                die_with_parent()
            try:
                os.environ.update(self.gateway)
                attached.start_context()
                os._exit(0)
            except BaseException as exc:  # noqa: BLE001 - the end of this process
                sys.excepthook(type(exc), exc, exc.__traceback__)
                os._exit(1)
        ended = os.pidfd_open(pid)
        try:
            self._wait(lambda: bool(_readable_files(ended)), "the context of a prepared driver does not start")
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            os.close(ended)
        if code:
            raise DriverError("the context of a prepared driver does not start")

    def forget(self) -> None:
        """In the run's process: the end of the standard input, at which the JVM ends, is not kept open there."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        os.close(self.ended)

    def end(self, within: float) -> None:
        """Stops the context and ends the JVM, or kills it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        if not _readable_files(self.ended, within=within):
            guard.kill(self.pid)
        self._process.wait()

    def stop(self) -> None:
        """Lets it stop its context and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _wait(self, until: Callable[[], bool], otherwise: str) -> None:
        deadline = time.monotonic() + _START_S
        while not until():
            if _readable_files(self._server, self.ended, within=_LOOK_S) or time.monotonic() > deadline:
                raise DriverError(otherwise)


class PreparedDriver:
    """The driver while it waits for its run. `log`: the file that both processes write to, and its path."""

    def __init__(self, jvm: Jvm, server: socket.socket, versions: Versions, log: tuple[int, Path]) -> None:
        self._jvm = jvm
        self._server = server
        self._versions = versions
        self._log, self._path = log

    def serve(self) -> Mapping[str, Any] | None:
        """Returns in the process of the run, with what that is; None without a run."""
        if self._server not in _readable_files(self._server, self._jvm.ended, within=None):
            return None
        request = receive(self._server)
        if request is None:
            return None
        control = socket.socket(fileno=request.descriptors[0])
        if changed := self._versions.change() or ("its JVM has ended" if _readable_files(self._jvm.ended) else ""):
            with suppress(OSError):
                send(control, {"cold": changed})
            return None
        report, described = request.descriptors[1:]
        content = {**content_of(described), "report": report}
        os.close(described)
        self._server.close()
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(each, signal.SIG_IGN)
        try:
            send(control, {"offered": True})
            if receive(control) is None:  # the runner has started the run cold meanwhile
                return None
            os.ftruncate(self._log, 0)
            self._path.rename(content["log"])
            die_with_parent, pid = parent_death_signal(), os.fork()
        except OSError:
            return None
        if pid:
            self._watch(control, pid)
        if die_with_parent is not None:
            die_with_parent()
        os.setsid()
        control.close()
        self._jvm.forget()
        for each in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return content

    def _watch(self, control: socket.socket, pid: int) -> NoReturn:
        python = os.pidfd_open(pid)
        with suppress(OSError):  # the runner has ended
            send(control, {"pid": pid, "beside": self._jvm.pid})
            found = _readable_files(control, python, self._jvm.ended, within=None)
            if control not in found:
                # A JVM that died first says more than the Python that lost it.
                code = exit_code(pid if python in found and self._jvm.ended not in found else self._jvm.pid)
                if python in found:
                    send(control, {"ended": exit_code(pid)})
                    self._jvm.stop()
                    _readable_files(control, self._jvm.ended, within=_END_S)
                send(control, {"exit": code})
                receive(control)  # until the runner closes
        guard.kill(pid)
        guard.kill(self._jvm.pid)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
        os._exit(0)


def _readable_files(*files: Any, within: float | None = 0.0) -> Sequence[Any]:
    return select.select(files, (), (), within)[0]


def _last_line(path: Path) -> str:
    lines = [each.strip() for each in path.read_text(errors="replace").splitlines() if each.strip()]
    return f": {lines[-1][:300]}" if lines else ""


def _execute(run: Mapping[str, Any], gateway: Mapping[str, str]) -> None:
    variables = attached.run_variables(run["env"])
    os.environ.clear()
    os.environ.update({**run["env"], **gateway})
    seed_libraries()
    shared = variables if run["local"] else {}
    before = Surroundings()
    attached.execute(attached.Attachment(run["program"], run["properties"], run["event_log"], shared))
    found = loaded_libraries("")
    if not before.change(found.own):
        with os.fdopen(run["report"], "wb") as report:  # the next driver has them before its run
            report.write(json.dumps({"libraries": found.libraries}).encode())


def main() -> None:
    """The entry point of a driver that is prepared before its run is known. Starts the JVM, reports `ready` or why not,
    and waits for a run or the end of its socket. Its output goes into a file of its own until a run has it.
    """
    if sys.path[0] == str(Path.cwd()):
        del sys.path[0]  # of `python -m`
    server = socket.socket(fileno=int(sys.argv[1]))
    first = receive(server)
    if first is None:
        return
    described = content_of(first.descriptors[0])
    first.close()
    path = Path(described["folder"], f"{os.getpid()}.log")
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    jvm: Jvm | None = None
    run: Mapping[str, Any] | None = None
    try:
        import_libraries([*_LIBRARIES, *described["libraries"]], server=server.fileno())
        versions = Versions({each: tuple(stamp) for each, stamp in described["files"].items()})
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)  # from here on the end of the socket ends it
        jvm = Jvm(described["submit"], log, server)
        jvm.start_context()
        ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME.encode(), 0, 0, 0)
        send(server, {"ready": True})
        run = PreparedDriver(jvm, server, versions, (log, path)).serve()
    except (LibraryError, DriverError, OSError) as exc:
        with suppress(OSError):
            send(server, {"refused": f"{exc}{_last_line(path)}", "libraries": isinstance(exc, LibraryError)})
    if run is not None:
        assert jvm is not None
        _execute(run, jvm.gateway)
        return
    if jvm is not None:
        jvm.end(_END_S)
    path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
