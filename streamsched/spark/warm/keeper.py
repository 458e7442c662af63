"""The parent of a run's process that was forked: reports its exit code, and ends its session when the runner ends.

It is to a warm run what `spark.guard` is to a cold one: forked together with the run's process, so neither the end of
the fork server nor that of the zygote touches the run. Standard library only: zygotes import it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
from contextlib import suppress
from typing import Final, NoReturn

from streamsched.spark import guard
from streamsched.spark.warm.messages import receive, send

_PR_SET_PDEATHSIG: Final = 1


def keep(control: socket.socket, output: int) -> None:
    """Offers the runner to start; when it agrees, forks and returns in the run's process: a session of its own, with
    standard streams, that dies with the keeper. The keeper itself never returns.
    """
    try:
        os.setsid()
        send(control, {"offered": True})
        if receive(control) is None:  # the runner has started the run cold meanwhile
            os._exit(0)
        prctl, parent = ctypes.CDLL(None).prctl, os.getpid()
        pid = os.fork()
        if pid:
            os.close(output)
            _watch(control, pid)
    except OSError:
        os._exit(1)
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # the keeper died before the call
        os._exit(1)
    os.setsid()
    control.close()
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)


def _watch(control: socket.socket, pid: int) -> NoReturn:
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    ended = os.pidfd_open(pid)
    with suppress(OSError):  # the runner has ended
        send(control, {"pid": pid})
        if ended in select.select([control, ended], (), ())[0]:
            send(control, {"exit": exit_code(pid)})
            receive(control)  # until the runner closes
    guard.kill(pid)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)
    os._exit(0)


def exit_code(pid: int) -> int:
    """Negative: minus the signal that ended it. The process stays a zombie, so that its id is not given to another."""
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
