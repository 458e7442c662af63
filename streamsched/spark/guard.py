"""Ends a run's processes when its runner ends, also by SIGKILL. Runs as a script; standard library only.

Reads the session id of the run's processes from standard input and waits for the end of that pipe, which the kernel
closes when the runner dies. Then kills all remaining processes of the session, including process groups that children
created, which neither a group signal nor a parent-death signal reaches. Then removes the file named by its argument, if
there is one: the run's settings that are secrets.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

_ROUNDS = 50
_PAUSE_SECONDS = 0.1


def members(session: int) -> list[int]:
    """Live processes of the session; empty without /proc."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[3]) == session:
            found.append(int(entry.name))
    return found


def kill(session: int) -> None:
    """Kills the session leader's group, then the remaining members, until none is left."""
    _send(os.killpg, session)
    for _ in range(_ROUNDS):
        left = members(session)
        if not left:
            return
        for pid in left:
            _send(os.kill, pid)
        time.sleep(_PAUSE_SECONDS)


def _send(send, target: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # ended, or the id was reused
        send(target, signal.SIGKILL)


def main() -> None:
    """The entry point of a process that outlives a run's runner: when the other end of its standard input is gone, it
    kills the session that the first line names, if any, and removes the files of its arguments. It ignores signals that
    end the runner.
    """
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    session = sys.stdin.readline().strip()
    sys.stdin.read()
    if session:
        kill(int(session))
    for private in sys.argv[1:]:
        with suppress(OSError):  # removed already
            Path(private).unlink()


if __name__ == "__main__":
    main()
