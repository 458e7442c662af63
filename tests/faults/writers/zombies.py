"""Attempts of jobs that sleep in the middle of a write, or are killed after its commit, and their successors.

Of each job the first attempt is stopped (SIGSTOP) at a phase of its write, or at a random moment; the second attempt
writes the same; the first goes on (SIGCONT) before, during or after that. Judged by what a reader sees, not by the
log: each job's rows once, of one attempt; and of the second, when the first slept before its commit until the second
had fenced.

Or the first attempt is killed (SIGKILL) at a phase after its commit, or at a random moment from there on, before its
run could have ended; the second writes the same, finds the commit, and writes nothing.
"""

from __future__ import annotations

import os
import random
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tests.faults.judges.file_sets import Slept
from tests.faults.writers.attempts import TABLES, Attempt

_BEFORE: Final = ("staged", "checked", "checked")
_FOLDER: Final = ("prepared", "moving", "moved")
_AFTER: Final = ("committed", "emitted", "announced")
_END: Final = "end: "


class Sleeper:
    """Draws where the first attempt of a job sleeps, and how long."""

    def __init__(self, store: str, chance: random.Random) -> None:
        self._chance = chance
        # a process that is stopped inside a transaction of SQLite, the catalog, holds its lock: then nobody commits
        self._anywhere = 0.0 if store == "iceberg" else 0.2
        self._phases = (*_BEFORE, *_BEFORE, *(_FOLDER if store == "folder" else ()), *_after(store))

    def trial(self, job: str, first: Worker, second: Worker) -> Slept:
        """One job."""
        at = None if self._chance.random() < self._anywhere else self._chance.choice(self._phases)
        first.begin(Attempt(job, 1, at))
        if at is None:
            first.wait(self._chance.uniform(0, first.usual))
            os.kill(first.pid, signal.SIGSTOP)
        else:
            first.until_stopped()
        goes_on = self._chance.choice(("before", "during", "during", "after", "after"))
        if goes_on == "before":
            first.go_on()
        second.begin(Attempt(job, 2))
        if goes_on == "during":
            second.until(self._chance.choice(("staged", "checked", "committed")))
        elif goes_on == "after":
            second.end()
        # when the second attempt has staged its rows, its fence is there
        replaced = at is not None and at not in _AFTER and goes_on != "before" and second.has_staged
        if goes_on != "before":
            first.go_on()
        end = second.end()
        return Slept(job, replaced, (first.end(), end))


def crash(job: str, chance: random.Random, store: str, first: Worker, second: Worker) -> Slept:
    """One job whose first attempt is killed after its commit, whose rows are therefore the job's."""
    at = chance.choice((None, *_after(store)))
    first.begin(Attempt(job, 1, at))
    if at is None:
        first.until(_AFTER[0])
        first.wait(chance.uniform(0, 0.05))
    else:
        first.until_stopped()
    first.kill()
    second.begin(Attempt(job, 2))
    return Slept(job, replaced=False, ends=("killed", second.end()))


def _after(store: str) -> tuple[str, ...]:
    """The phases of a write after its commit; a table's watcher announces, so its writer has but one."""
    return _AFTER[:1] if store in TABLES else _AFTER


class Worker:
    """A process of `attempts.serve`, as its parent sees it."""

    def __init__(self, process: Any, said: Connection) -> None:
        self.pid: int = process.pid
        self._process = process
        #: Seconds that a write usually takes.
        self.usual = 0.5
        self._said = said
        self._words: list[str] = []

    @property
    def has_staged(self) -> bool:
        return "staged" in self._words

    def begin(self, attempt: Attempt) -> None:
        self._words = []
        self._said.send(attempt)

    def wait(self, seconds: float) -> None:
        """Until it says something, but not longer than that."""
        if self._said.poll(seconds):
            self._hear()

    def until(self, word: str) -> None:
        """Until it has said the word, or its end."""
        while word not in self._words and not self._ended():
            self._hear()

    def until_stopped(self) -> None:
        """Until the process stands still, or has ended its attempt without."""
        while not self._ended() and Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            if self._said.poll(0.005):
                self._hear()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> str:
        while not self._ended():
            self._hear()
        return self._words[-1].removeprefix(_END)

    def _hear(self) -> None:
        assert self._said.poll(120), f"it says nothing after {self._words}"
        self._words.append(str(self._said.recv()))

    def _ended(self) -> bool:
        """The last word of an attempt is `end: …`."""
        return bool(self._words) and self._words[-1].startswith(_END)
