"""`python -m streamsched.spark.calls.zygote SOCKET`: the process from which those of one Python program are forked.

It has imported the libraries that a run of the program has used, and no module of the program itself: each run imports
those, so no state, no answer of a clock and no old code goes from one run to another. Ends with the fork server.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from stat import S_ISFIFO, S_ISSOCK
from typing import Any, Final

from streamsched.spark.calls import python_call
from streamsched.spark.warm import keeper
from streamsched.spark.warm.libraries import Versions, foreign_module
from streamsched.spark.warm.messages import Message, content_of, receive, send

#: Runs, and seconds, after which it ends, so that what libraries hold does not grow without bound.
_RUNS: Final = 1000
_SECONDS: Final = 3600.0
_OWN: Final = b"STREAMSCHED_"


class LibraryError(Exception):
    """The libraries cannot be imported before the program; the text says why."""


class _Environment(dict[bytes, bytes]):
    """Notes which variables of a run are read: they are not there yet."""

    def __init__(self, content: Mapping[bytes, bytes]) -> None:
        super().__init__(content)
        self.read: set[str] = set()

    def __getitem__(self, name: bytes) -> bytes:
        if name.startswith(_OWN):
            self.read.add(os.fsdecode(name))
        return super().__getitem__(name)


def import_libraries(names: Sequence[str], *, server: int) -> None:
    """Imports them in this order. `server`: the descriptor of the fork server.

    Raises:
        LibraryError: one cannot be imported, or what it leaves does not bear a fork.
    """
    environ: Any = os.environ
    before, watched = environ._data, _Environment(environ._data)
    environ._data = watched
    name = ""
    try:
        for name in names:
            if name not in sys.modules:
                import_module(name)
    except BaseException as exc:  # also SystemExit of third-party code
        raise LibraryError(f"{name} cannot be imported alone: {type(exc).__name__}: {exc}") from exc
    finally:
        environ._data = before
        before.clear()
        before.update(watched)
    if watched.read:
        raise LibraryError(f"its libraries read {min(watched.read)} as they are imported")
    if foreign := foreign_module():
        raise LibraryError(f"its libraries import {foreign}, which is no library")
    _check_forks(server)


def serve(requests: socket.socket, versions: Versions) -> Callable[[], None] | None:
    """Forks a keeper for each request. Returns None when it is to end; in the process of a run, what that executes."""
    runs, began = 0, time.monotonic()
    while runs < _RUNS and time.monotonic() - began < _SECONDS:
        request = receive(requests)
        if request is None:
            return None
        if "key" not in request.content:
            request.close()
            continue
        control = socket.socket(fileno=request.descriptors[0])
        changed = versions.change()
        if changed:
            with suppress(OSError):
                send(control, {"cold": changed})
            return None
        runs += 1
        if not os.fork():
            requests.close()
            return _make_keeper(control, request)
        control.close()
        request = Message({}, request.descriptors[1:])
        request.close()
    return None


def _make_keeper(control: socket.socket, request: Message) -> Callable[[], None]:
    output, content = request.descriptors[1:]
    asked = content_of(content)
    os.close(content)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    keeper.keep(control, output)  # returns in the process of the run only
    os.environ.clear()
    os.environ.update(asked["env"])
    seed_libraries()
    sys.argv = [python_call.__file__, *asked["arguments"]]
    return python_call.main


def seed_libraries() -> None:
    """After a fork: numpy does not seed its global generator anew after a fork, as `random` does."""
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed()


def _check_forks(server: int) -> None:
    """Raises:
    LibraryError: there is a thread, a connection or a process, which forks cannot share.
    """
    if threading.active_count() > 1:
        names = ", ".join(each.name for each in threading.enumerate() if each is not threading.main_thread())
        raise LibraryError(f"its libraries start threads as they are imported: {names}")
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            number, mode = int(entry.name), entry.stat().st_mode
            if number > 2 and number != server and (S_ISSOCK(mode) or S_ISFIFO(mode)):
                raise LibraryError("its libraries open connections as they are imported")
    with suppress(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
        raise LibraryError("its libraries start processes as they are imported")
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    if len(list(Path("/proc/self/task").iterdir())) > 1:  # those of OpenBLAS have ended themselves before the fork
        raise LibraryError("its libraries start threads as they are imported")


def main() -> None:
    """The entry point of a process that has imported the libraries of a program. Reports `ready` or `refused`, then
    forks a process for each run that its socket brings, which goes on here to execute it.
    """
    server = socket.socket(fileno=int(sys.argv[1]))
    first = receive(server)
    if first is None:
        return
    wanted = content_of(first.descriptors[0])
    first.close()
    try:
        import_libraries(wanted["libraries"], server=server.fileno())
    except LibraryError as exc:
        send(server, {"refused": str(exc)})
        return
    versions = Versions({path: tuple(stamp) for path, stamp in wanted["own"].items()})
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers are no zombies
    gc.collect()
    gc.freeze()
    send(server, {"ready": True})
    run = serve(server, versions)
    if run is not None:
        run()


if __name__ == "__main__":
    main()
