"""Ends a run's processes when its runner ends, however it ends. Started as a script of its own; standard library only.

Reads the session id of the run's processes from its standard input and waits for the end of that pipe, which the kernel
closes when the runner dies, by SIGKILL too. Then it kills whatever is left in the session: process groups that children
made for themselves included, which no signal to a group and no parent-death signal would reach.
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
    """Living processes of the session; without /proc nobody can tell."""
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
    """Kills the group of the session's leader, then every member, until none is left."""
    _send(os.killpg, session)
    for _ in range(_ROUNDS):
        left = members(session)
        if not left:
            return
        for pid in left:
            _send(os.kill, pid)
        time.sleep(_PAUSE_SECONDS)


def _send(send, target: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # gone, or no longer ours: nothing to kill
        send(target, signal.SIGKILL)


def main() -> None:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    session = sys.stdin.readline().strip()
    sys.stdin.read()
    if session:
        kill(int(session))


if __name__ == "__main__":
    main()
