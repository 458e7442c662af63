"""A process of ours that has imported libraries and waits for requests at a socket: a zygote, a prepared driver."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from streamsched.spark.child import parent_death_signal
from streamsched.spark.warm.messages import file_of, pair, send


class WaitingProcess:
    """Started as `python -m module DESCRIPTOR`, a session of its own that ends with this process. Belongs to a process
    without threads.

    Args:
        module: what it executes.
        described: its environment `env` and its folder `cwd`.

    Attributes:
        socket: where it is sent requests; it does not block.
        ready: whether it has said that it waits for them.
    """

    def __init__(self, module: str, described: Mapping[str, Any]) -> None:
        self.socket, theirs = pair()
        self.ready = False
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=described["env"],
                cwd=described["cwd"],
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                preexec_fn=parent_death_signal(),  # noqa: PLW1509 - of a process without threads
            )
        self.socket.setblocking(False)

    def describe(self, content: Mapping[str, Any]) -> None:
        """Tells it what it is for: its first message.

        Raises:
            OSError: it has ended.
        """
        descriptor = file_of(content)
        try:
            send(self.socket, {}, (descriptor,))
        finally:
            os.close(descriptor)

    def close(self) -> None:
        """Lets it end, which it does at the end of the socket; while it is not ready, it is killed: it may be inside an
        import.
        """
        self.socket.close()
        if not self.ready:
            self.process.kill()
