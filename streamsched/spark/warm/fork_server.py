"""The fork server: a process of one thread that forks runners, and starts and ends zygotes. Ends with its launcher.

It waits for no other process: what does not receive at once is given up, and the run starts cold.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from streamsched.spark.warm.drivers import Drivers
from streamsched.spark.warm.messages import Message, content_of, pair, receive, send
from streamsched.spark.warm.waiting_process import WaitingProcess

#: Most zygotes; the least recently used one goes first.
_ZYGOTES: Final = 8
#: Seconds after which an unused zygote goes, and after which one that still imports is given up.
_IDLE: Final = 600.0
_IMPORT: Final = 60.0
_SWEEP: Final = 1.0
#: Programs of which it remembers why they cannot start warm.
_REFUSED: Final = 10_000


class Forked(NamedTuple):
    """In the process of a runner: the run, and the socket to the fork server."""

    run: str
    server: socket.socket


class _Zygote(WaitingProcess):
    def __init__(self, program: Mapping[str, Any]) -> None:
        super().__init__("streamsched.spark.calls.zygote", program)
        self.used = self.began = time.monotonic()


class ForkServer:
    """Belongs to one process without threads.

    Args:
        launcher: where the launcher asks for runners.
        drivers: those that are prepared for Spark programs.
    """

    def __init__(self, launcher: socket.socket, drivers: Drivers) -> None:
        self._launcher = launcher
        self._drivers = drivers
        self._runners: dict[int, socket.socket] = {}
        self._zygotes: dict[str, _Zygote] = {}
        self._ending: list[subprocess.Popen[bytes]] = []
        self._refused: dict[str, str] = {}

    def serve(self) -> Forked | None:
        """Serves until the launcher ends, then returns None; returns in each forked runner with its run."""
        with suppress(OSError):
            send(self._launcher, {"ready": True})
        while True:
            waiting = {each.socket.fileno(): key for key, each in self._zygotes.items()}
            drivers = self._drivers.sockets()
            for at in self._readable_descriptors([self._launcher.fileno(), *self._runners, *waiting, *drivers]):
                if at == self._launcher.fileno():
                    message = receive(self._launcher)
                    if message is None:
                        self._close()
                        return None
                    if (forked := self._fork(message)) is not None:
                        return forked
                elif at in self._runners:
                    self._handle_runner(at)
                elif at in waiting and waiting[at] in self._zygotes:
                    self._handle_zygote(waiting[at])
                elif self._drivers.sockets().get(at) == drivers.get(at) is not None:
                    self._drivers.read_answer(drivers[at], at)
            self._sweep()

    @staticmethod
    def _readable_descriptors(descriptors: Sequence[int]) -> list[int]:
        poll = select.poll()
        for each in descriptors:
            poll.register(each, select.POLLIN)
        return [found for found, _ in poll.poll(_SWEEP * 1000)]

    def _fork(self, message: Message) -> Forked | None:
        ours, theirs = pair()
        pid = os.fork()
        if not pid:
            self._close()
            self._launcher.close()
            ours.close()
            os.setsid()
            for number in (1, 2):
                os.dup2(message.descriptors[0], number)
            message.close()
            return Forked(message.content["run"], theirs)
        theirs.close()
        message.close()
        ours.setblocking(False)
        self._runners[ours.fileno()] = ours
        with suppress(OSError):  # the launcher has ended, which is seen at the next turn
            send(self._launcher, {"pid": pid})
        return None

    def _handle_runner(self, at: int) -> None:
        """A runner asks for a process of its program, or says what its libraries are, or has ended."""
        try:
            message = receive(self._runners[at])
        except BlockingIOError:  # the descriptor was another runner's a moment ago
            return
        if message is None:
            self._runners.pop(at).close()
            return
        try:
            key, of_spark = message.content["key"], "driver" in message.content
            if message.content.get("learn"):
                (self._drivers.learn if of_spark else self._learn)(key, content_of(message.descriptors[0]))
            elif cold := (self._drivers.take if of_spark else self._forward)(key, message):
                with socket.socket(fileno=os.dup(message.descriptors[0])) as control:
                    send(control, {"cold": cold})
        except OSError:  # the runner has ended; or a zygote cannot be started now
            return
        finally:
            message.close()

    def _forward(self, key: str, message: Message) -> str:
        """Empty when a zygote has the request, else why there is none."""
        zygote = self._zygotes.get(key)
        if zygote is None or not zygote.ready:
            return self._refused.get(key, "no process has its libraries yet")
        try:
            send(zygote.socket, message.content, message.descriptors)
        except BlockingIOError:
            return "the process with its libraries has more to do than it can take"
        except OSError:
            self._remove(key)
            return "the process with its libraries does not answer"
        zygote.used = time.monotonic()
        return ""

    def _learn(self, key: str, program: Mapping[str, Any]) -> None:
        if program["refused"]:
            self._refuse(key, program["refused"])
        elif key not in self._zygotes:
            self._refused.pop(key, None)
            while len(self._zygotes) >= _ZYGOTES:
                self._remove(min(self._zygotes, key=lambda each: self._zygotes[each].used))
            zygote = self._zygotes[key] = _Zygote(program)
            zygote.describe({"libraries": program["libraries"], "own": program["own"]})

    def _handle_zygote(self, key: str) -> None:
        """A zygote is ready, or cannot be, or has ended."""
        try:
            message = receive(self._zygotes[key].socket)
        except BlockingIOError:  # as above
            return
        if message is not None and message.content.get("ready"):
            self._zygotes[key].ready = True
            return
        if message is not None:
            self._refuse(key, message.content["refused"])
        elif not self._zygotes[key].ready:
            self._refuse(key, "its libraries end the process as they are imported")
        self._remove(key)

    def _refuse(self, key: str, why: str) -> None:
        while len(self._refused) >= _REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = why

    def _remove(self, key: str) -> None:
        zygote = self._zygotes.pop(key)
        zygote.close()
        self._ending.append(zygote.process)

    def _sweep(self) -> None:
        now = time.monotonic()
        for key, zygote in list(self._zygotes.items()):
            if not zygote.ready and now - zygote.began > _IMPORT:
                self._refuse(key, f"its libraries take more than {_IMPORT:.0f} s to import")
                self._remove(key)
            elif now - zygote.used > _IDLE:
                self._remove(key)
        self._drivers.sweep()
        self._ending = [each for each in self._ending if each.poll() is None]
        with suppress(ChildProcessError):  # runners that have ended
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
                others = [*self._ending, *(each.process for each in self._zygotes.values()), *self._drivers.processes()]
                if known := [each for each in others if each.pid == ended.si_pid]:
                    known[0].poll()
                else:
                    os.waitpid(ended.si_pid, 0)

    def _close(self) -> None:
        """Of this process only: runners and zygotes that others hold are not ended by a runner that closes its copy."""
        for each in self._runners.values():
            each.close()
        for zygote in self._zygotes.values():
            zygote.socket.close()
        self._drivers.close_copies()


def serve(launcher: int, *, drivers: int) -> Forked | None:
    """Serves at this descriptor; see `ForkServer.serve`. `drivers`: most that are prepared."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    return ForkServer(socket.socket(fileno=launcher), Drivers(drivers)).serve()
