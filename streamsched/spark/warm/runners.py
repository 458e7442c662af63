"""The launcher's side of the fork server."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from streamsched.process.closed_process import start_closed
from streamsched.spark.warm.messages import pair, receive, send

#: Seconds to wait for a fork, and between two starts of fork servers.
_PATIENCE: Final = 2.0
_AGAIN: Final = 10.0


class ForkServerProcess:
    """A fork server for one launcher, which ends with it. Started when it is first asked, and again when it was killed.

    Args:
        environ: the environment of the runners.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._ready = False
        self._started_at = float("-inf")

    @property
    def pid(self) -> int | None:
        """Its process; None without one."""
        return None if self._process is None else self._process.pid

    def fork(self, run: str, log: int) -> int | None:
        """The process id of a new runner of the run with its output at the descriptor `log`; None when none is forked
        now, or perhaps one whose id is not known.
        """
        if self._socket is None:
            self.start()
            return None
        try:
            if not self._ready:
                self._socket.setblocking(False)
                if receive(self._socket) is None:
                    raise ConnectionError
                self._ready = True
            self._socket.settimeout(_PATIENCE)
            send(self._socket, {"run": run}, (log,))
            answer = receive(self._socket)
        except BlockingIOError:
            return None  # it still starts
        except OSError:
            answer = None
        if answer is None:
            self.close()
            return None
        return answer.content["pid"]

    def close(self) -> None:
        """Ends it; runs go on. Idempotent."""
        if self._socket is not None:
            self._socket.close()
        if self._process is not None:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE)
        self._socket, self._process, self._ready = None, None, False

    def start(self) -> None:
        """Starts it, unless it runs or was started a moment ago: the first run finds it ready."""
        now = time.monotonic()
        if self._socket is not None or now - self._started_at < _AGAIN:
            return
        self._started_at = now
        ours, theirs = pair()
        with theirs:
            self._process = start_closed(
                "streamsched.roles.runner",
                ["--fork-server", str(theirs.fileno())],
                environ=self._environ,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._socket = ours
