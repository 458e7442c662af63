"""Runner processes: one for each run, living longer than who started it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from streamsched.domain.errors import InvalidError
from streamsched.domain.schedule import Program
from streamsched.ports.runs import Assignment, Ending


@dataclass(frozen=True, slots=True)
class RunnerId:
    """A process on a host; its start time (clock ticks since boot, 0 where unknown) tells it from a later one of its
    pid. As text: `host:pid:ticks`.
    """

    host: str
    pid: int
    start_ticks: int

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.start_ticks}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises:
        InvalidError: not `host:pid:ticks`.
        """
        try:
            host, pid, ticks = text.rsplit(":", 2)
            return cls(host, int(pid), int(ticks))
        except ValueError:
            raise InvalidError("$", f"'{text}' is not of the form host:pid:ticks") from None


class Runners(Protocol):
    """Starts runner processes and knows those of this host."""

    def spawn(self, run: str) -> None:
        """Starts a process that claims the run and executes it, detached from this one. Any number may be started for
        a run: the first to claim it executes it, the others end quietly.

        Raises:
            UnavailableError: the process cannot be started now.
        """
        ...

    def room(self) -> int:
        """How many more this host may execute now; what finds no room stays PENDING."""
        ...

    def alive(self, runner: RunnerId) -> bool | None:
        """Whether that process lives; None when it is another host's and cannot be known."""
        ...

    def ending(self, run: str) -> Ending | None:
        """How the run ended, as its runner noted on this host's disk before it told PostgreSQL; None without a note.

        Raises:
            UnavailableError: there may be a note, but it cannot be read now.
        """
        ...


class Hands(Protocol):
    """Executes runs within the launcher's process: many that are short, without a process for each."""

    @property
    def runner(self) -> RunnerId:
        """This process."""
        ...

    def fits(self, program: Program) -> bool:
        """Whether such a program is executed here."""
        ...

    def room(self) -> int:
        """How many more runs may begin now."""
        ...

    def begin(self, runs: Sequence[Assignment]) -> None:
        """Executes runs that are claimed already, and ends them; returns at once. A repeat changes nothing."""
        ...

    def take(self, runs: Sequence[str]) -> None:
        """Claims these runs and executes what it gets of them; returns at once."""
        ...

    def holds(self, run: str) -> bool:
        """Whether it executes that run, or has still to store its end."""
        ...
