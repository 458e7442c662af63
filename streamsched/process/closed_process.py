"""Processes that hold secrets are closed to other processes of their user, on Linux: these read neither their memory,
environment and descriptors (`/proc/<pid>/mem`, `environ`, `fd`) nor can trace them. The superuser can. No core dumps.

A process is open again after `exec`. So `start_closed` gives a new one nothing but what an interpreter needs; it closes
itself and then reads its environment from a socket, which cannot be opened by way of `/proc`. To read it nevertheless,
another process must have taken hold of the new one within its first milliseconds.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import IO, Final

_PR_GET_DUMPABLE: Final = 3
_PR_SET_DUMPABLE: Final = 4
#: What an interpreter or another program of ours starts with.
_PLAIN: Final = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "LANG", "LANGUAGE", "LC_*", "TZ", "PYTHON*")


def close_process() -> None:
    """Closes this process; does nothing where the system is not Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def is_closed() -> bool:
    """Whether processes of the same user cannot look into this one. Those of the superuser always can."""
    return sys.platform == "linux" and os.geteuid() != 0 and ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0


def plain_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that have no secrets and that a program needs in order to start."""
    return {name: value for name, value in environ.items() if any(fnmatchcase(name, each) for each in _PLAIN)}


def start_closed(
    module: str,
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    stdout: IO[bytes] | int | None = None,
    stderr: IO[bytes] | int | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Starts `python -m module arguments…` as a closed process with this environment, in a session of its own. The
    others are options of `Popen`.

    Raises:
        OSError: it cannot be started, or has ended at once.
    """
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, module, *arguments],
                stdin=theirs.fileno(),
                stdout=stdout,
                stderr=stderr,
                env=plain_environ(environ),
                pass_fds=pass_fds,
                start_new_session=True,
            )
        ours.sendall(json.dumps(dict(environ)).encode())
    return process


def main() -> None:
    """The new process: becomes the module."""
    close_process()
    with socket.socket(fileno=os.dup(0)) as environment:
        received = b"".join(iter(lambda: environment.recv(65536), b""))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.environ.clear()
    os.environ.update(json.loads(received))
    module = sys.argv.pop(1)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
