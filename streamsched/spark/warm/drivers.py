"""The drivers of a fork server that wait for runs: which profiles have some, and how many. See ADR 20.

Belongs to one process without threads.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from streamsched.process.memory import available_memory
from streamsched.process.os_user import private_folder
from streamsched.spark.warm.messages import Message, receive, send
from streamsched.spark.warm.waiting_process import WaitingProcess

#: Seconds after which the drivers of a profile end when no run took one.
IDLE_S: Final = 600.0
#: Seconds after a driver was given until the next is prepared: the first tasks of the run need the machine.
_NEXT_S: Final = 5.0
#: Seconds until a driver that could not be prepared is tried again, after a run of its profile.
_AGAIN_S: Final = 600.0
_PROFILES: Final = 1000
#: Bytes of free memory without which none is prepared.
_FREE: Final = 1 << 30


class _Driver(WaitingProcess):
    def __init__(self, described: Mapping[str, Any]) -> None:
        super().__init__("streamsched.spark.calls.prepared_driver", described)
        self.log = Path(described["folder"], f"{self.process.pid}.log")

    def has_ended(self) -> bool:
        """Whether it has; then its log is gone too, unless that is a run's."""
        if self.process.poll() is None:
            return False
        self.log.unlink(missing_ok=True)  # it was killed
        return True


class _Profile:
    def __init__(self, described: Mapping[str, Any], now: float) -> None:
        self.described = dict(described)
        self.plain = False  # its libraries cannot be imported before a program
        self.used = self.due = now
        self.drivers: list[_Driver] = []

    def learn(self, described: Mapping[str, Any]) -> None:
        """Files may have changed, and the libraries of all its programs are imported."""
        known = [] if self.plain else [*self.described["libraries"], *described["libraries"]]
        self.described = {**described, "libraries": list(dict.fromkeys(known))}


class Drivers:
    """Args:
    most: drivers that wait or are prepared at a time; 0: none.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._profiles: dict[str, _Profile] = {}
        self._refused: dict[str, tuple[str, float]] = {}
        self._leaving: list[_Driver] = []

    def sockets(self) -> dict[int, str]:
        """The descriptors of those that wait, with their profiles."""
        return {each.socket.fileno(): key for key, found in self._profiles.items() for each in found.drivers}

    def processes(self) -> list[subprocess.Popen[bytes]]:
        """All that may still run; also drivers of runs."""
        waiting = (each for found in self._profiles.values() for each in found.drivers)
        return [each.process for each in (*self._leaving, *waiting)]

    def learn(self, key: str, described: Mapping[str, Any]) -> None:
        """From now on drivers of this profile are prepared: one of its runs has completed."""
        now = time.monotonic()
        if not self._most or (key in self._refused and now < self._refused[key][1]):
            return
        found = self._profiles.pop(key, None) or _Profile(described, now)
        found.used = now
        found.learn(described)
        self._profiles[key] = found  # the most recently used one is the last

    def take(self, key: str, request: Message) -> str:
        """Gives a driver to a run. Empty when one has the request, else why there is none."""
        if not self._most:
            return "STREAMSCHED_PREPARED_DRIVERS is 0"
        if key in self._refused:
            return self._refused[key][0]
        found = self._profiles.get(key)
        if found is None:
            return "no driver is prepared for its settings"
        found.used = time.monotonic()
        for each in [each for each in found.drivers if each.ready]:
            found.drivers.remove(each)
            self._leaving.append(each)
            found.due = found.used + _NEXT_S
            try:
                send(each.socket, request.content, request.descriptors)
            except OSError:  # it has ended
                continue
            finally:
                each.socket.close()
            return ""
        return "its next driver is not ready yet"

    def read_answer(self, key: str, at: int) -> None:
        """A driver is ready, or cannot be, or has ended."""
        found = self._profiles[key]
        driver = next(each for each in found.drivers if each.socket.fileno() == at)
        try:
            message = receive(driver.socket)
        except BlockingIOError:
            return
        if message is not None and message.content.get("ready"):
            driver.ready = True
            return
        found.drivers.remove(driver)
        self._end(driver)
        found.due = time.monotonic() + _NEXT_S
        if message is not None and message.content["libraries"] and found.described["libraries"]:
            found.described["libraries"], found.plain = [], True
        elif not driver.ready:
            why = "it ends as it starts" if message is None else message.content["refused"]
            self._refused[key] = (f"no driver can be prepared: {why}", time.monotonic() + _AGAIN_S)
            self._forget(key)

    def sweep(self) -> None:
        """Ends drivers that were not used for long, and those beyond the limit; prepares the next."""
        now = time.monotonic()
        for key in [key for key, each in self._profiles.items() if now - each.used > IDLE_S]:
            self._forget(key)
        for key in [key for key, (_, until) in self._refused.items() if now > until][-_PROFILES:]:
            del self._refused[key]
        while len(self._profiles) > max(self._most, 1):
            self._forget(next(iter(self._profiles)))
        self._leaving = [each for each in self._leaving if not each.has_ended()]
        preparing = any(not each.ready for found in self._profiles.values() for each in found.drivers)
        share = max(1, self._most // max(1, len(self._profiles)))
        for found in self._profiles.values():
            for each in found.drivers[share:]:
                self._end(each)
            del found.drivers[share:]
        for found in reversed(self._profiles.values()):
            if not preparing and now >= found.due and len(found.drivers) < share and _memory_suffices():
                self._prepare(found, now)
                return

    def close_copies(self) -> None:
        """In a forked process: the drivers are not ended by it, nor kept."""
        for found in self._profiles.values():
            for each in found.drivers:
                each.socket.close()

    def _prepare(self, found: _Profile, now: float) -> None:
        folder = Path(found.described["folder"])
        try:
            if not folder.exists():
                private_folder(folder)
            driver = _Driver(found.described)
            with suppress(OSError):  # it has ended, which is seen at its socket
                driver.describe(found.described)
            found.drivers.append(driver)
        except OSError:
            found.due = now + _AGAIN_S

    def _forget(self, key: str) -> None:
        for each in self._profiles.pop(key).drivers:
            self._end(each)

    def _end(self, driver: _Driver) -> None:
        driver.close()  # its JVM ends with it
        self._leaving.append(driver)


def _memory_suffices() -> bool:
    """Also where it is unknown how much there is."""
    memory = available_memory()
    return memory is None or memory > _FREE
